//! The life of relays and topic workers: started, closed in order, or dropped.

use std::time::Duration;

use sendoff_core::{Delivery, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::{Closed, HandlerResult, NodeOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep, timeout};

use super::flaky::Flaky;
use super::{EVENT, SECOND, fill};

const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

async fn slow(_: Delivery) -> HandlerResult {
    sleep(2 * SECOND).await;
    Ok(())
}

async fn hang(_: Delivery) -> HandlerResult {
    std::future::pending().await
}

fn options(mode: ClaimMode) -> RelayOptions {
    let node = NodeOptions { drain_timeout: 3 * SECOND, ..NodeOptions::default() };
    RelayOptions { mode, workers: 2, batch: 5, node, ..RelayOptions::default() }
}

/// How many are done, how many wait as they were, and how many somebody has.
fn ends(store: &MemoryStore) -> (usize, usize, usize) {
    let rows = store.rows();
    let count = |is: fn(&sendoff_engine::store::Row) -> bool| rows.iter().filter(|r| is(r)).count();
    let done = count(|row| row.status == Status::Done);
    let held = count(|row| row.locked_by.is_some());
    (done, count(|row| (row.status, row.attempts) == (Status::New, 0)), held)
}

/// Holds L4.
#[tokio::test(start_paused = true)]
async fn closing_lets_handlers_finish_and_puts_the_rest_back() {
    for mode in MODES {
        let store = MemoryStore::new();
        fill(&store, EVENT, 20).await;
        let relay = Relay::builder(store.clone()).options(options(mode)).build(slow).unwrap();
        let relaying = relay.start().await.unwrap();
        sleep(SECOND).await;
        let began = Instant::now();
        assert_eq!(relaying.close().await, Closed::default(), "{mode:?}");
        assert!(began.elapsed() < 2 * SECOND, "{mode:?}: {:?}", began.elapsed());
        assert_eq!(ends(&store), (2, 18, 0), "{mode:?}: two were in work");
        sleep(60 * SECOND).await;
        assert_eq!(ends(&store), (2, 18, 0), "{mode:?}: nothing goes on");
        assert_eq!(relaying.close().await, Closed::default());
    }
}

/// Whoever stops waiting for a close does not make the next one lie.
#[tokio::test(start_paused = true)]
async fn a_close_that_is_cancelled_is_gone_on_with_by_the_next() {
    for mode in MODES {
        for patience in [0, 1, 999, 2_999, 3_001, 3_500] {
            let store = MemoryStore::new();
            fill(&store, EVENT, 10).await;
            let worker = TopicWorker::builder(store.clone()).options(options(mode));
            let relaying = worker.on(EVENT, hang).build().unwrap().start().await.unwrap();
            sleep(SECOND).await;
            let (began, patience) = (Instant::now(), Duration::from_millis(patience));
            let _ = timeout(patience, relaying.clone().close()).await;
            let closed = relaying.close().await;
            assert_eq!(closed, Closed { cut_off: true, unsettled: false }, "{patience:?}");
            assert!(began.elapsed() < 4 * SECOND, "{patience:?}: {:?}", began.elapsed());
            assert_eq!(ends(&store), (0, 10, 0), "{patience:?}");
            assert_eq!(relaying.close().await, closed);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_close_says_that_answers_could_not_be_recorded() {
    for mode in MODES {
        let store = Flaky::default();
        fill(&store.table, EVENT, 1).await;
        let relay = Relay::builder(store.clone()).options(options(mode)).build(slow).unwrap();
        let relaying = relay.start().await.unwrap();
        sleep(SECOND).await;
        store.set_down(true);
        let closed = timeout(90 * SECOND, relaying.close()).await.expect("there is a limit");
        assert_eq!(closed, Closed { cut_off: false, unsettled: true }, "{mode:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn when_the_last_handle_is_dropped_everything_stops_and_is_put_back() {
    for mode in MODES {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        fill(&store, EVENT, 10).await;
        let relay = Relay::builder(store.clone()).options(options(mode)).build(hang).unwrap();
        let relaying = relay.start().await.unwrap();
        let other = relaying.clone();
        sleep(SECOND).await;
        drop(relaying);
        sleep(SECOND).await;
        let next = Relay::builder(store.clone()).options(options(mode)).build(inbox.clone());
        assert_eq!(next.unwrap().process_once().await.unwrap(), None, "{mode:?}: still at work");
        drop(other);
        let free = async || ends(&store) == (0, 10, 0);
        within(SECOND, "its batches to be rolled back", free).await;
        fill(&store, EVENT, 10).await;
        sleep(60 * SECOND).await;
        assert_eq!(ends(&store), (0, 20, 0), "{mode:?}: nothing is taken any more");
        drop(relay);
    }
}

/// An idle database is left in peace: a claim each interval, and one for suspects, however many workers wait;
/// less often where writers ring.
#[tokio::test(start_paused = true)]
async fn an_idle_relay_looks_once_an_interval_however_many_workers_it_has() {
    for (mode, looks) in [(ClaimMode::Held, 2), (ClaimMode::Locked, 1)] {
        for (has_bell, interval) in [(false, 1), (true, 5)] {
            let (store, inbox) = (Flaky::default(), Inbox::new());
            // Looks from the beginning take their time, so that some begin where the last one came to.
            store.set_round_trip(Duration::from_millis(1));
            let options = RelayOptions { mode, workers: 16, ..RelayOptions::default() };
            let relay = Relay::builder(store.clone()).options(options);
            let relaying = relay.build(inbox.clone()).unwrap().start().await.unwrap();
            if has_bell {
                store.ring();
            }
            fill(&store.table, EVENT, 1_000).await;
            within(10 * SECOND, "all", async || inbox.received().len() == 1_000).await;
            sleep(10 * SECOND).await;
            let (asked, _) = store.claims();
            sleep(60 * SECOND).await;
            let (asked, most) = (store.claims().0 - asked, looks * 60 / interval);
            assert!(asked <= most, "{mode:?}, bell: {has_bell}: {asked} looks in a minute");
            relaying.close().await;
        }
    }
}
