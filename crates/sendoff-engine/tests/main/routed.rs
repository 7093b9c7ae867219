//! A relay with several handlers: one that hangs or is slow keeps no other waiting.

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sendoff_core::{Event, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{HandlerOptions, Handlers, Outbox, at_most};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, HANGS, SECOND, counting, hang, slow};

const SLOW: &str = "slow";
const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

/// So many of each, one beside the other.
fn mixed(counts: &[(&'static str, usize)]) -> Vec<Event> {
    let most = counts.iter().map(|(_, count)| *count).max().unwrap_or_default();
    let of = |turn| counts.iter().filter(move |(_, count)| turn < *count);
    let types = (0..most).flat_map(of).map(|(event_type, _)| *event_type);
    types.map(|event_type| Event::json(event_type, &1).unwrap()).collect()
}

async fn fill(store: &MemoryStore, events: &[Event]) {
    let outbox = Outbox::writer_only(store.clone());
    for some in events.chunks(1_000) {
        let mut tx = outbox.begin(store).await.unwrap();
        for event in some {
            tx.emit(event.clone()).unwrap();
        }
        tx.commit().await.unwrap();
    }
}

/// Without a limit on handlers, which is the worst that a user can ask for.
fn unlimited(mode: ClaimMode) -> RelayOptions {
    let handler = HandlerOptions { timeout: None, ..HandlerOptions::default() };
    RelayOptions { mode, handler, ..RelayOptions::default() }
}

fn done(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.status == Status::Done).count()
}

/// How long 400 quick and 40 slow events take beside so many for a handler that never returns, until
/// they are recorded; and how many claims were made, of how many rows.
async fn beside_a_hung_handler(hung: usize, mode: ClaimMode) -> (Duration, (usize, usize)) {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, &mixed(&[(HANGS, hung), (EVENT, 400), (SLOW, 40)])).await;
    let mut handlers = Handlers::new();
    handlers.on(HANGS, hang).unwrap().on(EVENT, inbox.clone()).unwrap();
    handlers.on(SLOW, slow(&inbox, SECOND)).unwrap();
    let relay = Relay::builder(store.clone()).options(unlimited(mode));
    let relay = relay.build_routed(handlers).unwrap();
    let began = Instant::now();
    let story = async {
        within(120 * SECOND, "the others", async || done(&store.table) == 440).await;
        let took = began.elapsed();
        sleep(60 * SECOND).await;
        took
    };
    let mut took = Duration::ZERO;
    relay.run(async { took = story.await }).await;
    assert_eq!(inbox.received().len(), 440, "{mode:?}: each of them once");
    (took, store.claims())
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn of_three_handlers_one_never_returns_and_the_others_deliver_at_their_own_pace() {
    for mode in MODES {
        let (alone, _) = beside_a_hung_handler(0, mode).await;
        let (beside, (asked, claimed)) = beside_a_hung_handler(2_000, mode).await;
        // Two runs hang, so two workers are left for the slow ones.
        assert!(beside <= 2 * alone + 3 * SECOND, "{mode:?}: {alone:?} alone, {beside:?} beside");
        assert!(asked < 1_500, "{mode:?}: {asked} claims in {beside:?} and a minute");
        assert!(claimed < 4 * 440 + 200, "{mode:?}: {claimed} rows were taken for 440");
    }
}

/// What came in one batch with an event whose handler hangs waits for no more than an interval, and what
/// was answered before is recorded.
#[tokio::test(start_paused = true)]
async fn what_comes_with_a_hung_event_is_delivered_and_recorded() {
    for mode in MODES {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        fill(&store, &mixed(&[(EVENT, 5), (HANGS, 1), (SLOW, 10)])).await;
        let mut handlers = Handlers::new();
        handlers.on(HANGS, hang).unwrap().on(EVENT, inbox.clone()).unwrap();
        handlers.on(SLOW, inbox.clone()).unwrap();
        let relay = Relay::builder(store.clone()).options(unlimited(mode));
        let relay = relay.build_routed(handlers).unwrap();
        relay.run(within(4 * SECOND, "the others", async || done(&store) == 15)).await;
        assert_eq!(inbox.received().len(), 15, "{mode:?}: each of them once");
        let hung = store.rows().into_iter().find(|row| row.event.event_type() == HANGS).unwrap();
        assert_eq!((hung.attempts, hung.locked_by), (0, None), "{mode:?}: put back as it was");
    }
}

/// The batches of slow ones make no claims in vain.
#[tokio::test(start_paused = true)]
async fn a_slow_handler_floods_nothing_and_keeps_no_quick_one_waiting() {
    for mode in MODES {
        let (store, slow_inbox, inbox) = (Flaky::default(), Inbox::new(), Inbox::new());
        fill(&store.table, &mixed(&[(SLOW, 500)])).await;
        let mut handlers = Handlers::new();
        handlers.on(EVENT, inbox.clone()).unwrap();
        handlers.on(SLOW, slow(&slow_inbox, 3 * SECOND)).unwrap();
        let relay = Relay::builder(store.clone()).options(unlimited(mode));
        let relay = relay.build_routed(handlers).unwrap();
        let story = async {
            for round in 1..=60 {
                fill(&store.table, &mixed(&[(EVENT, 10)])).await;
                let all = async || inbox.received().len() == 10 * round;
                within(4 * SECOND, "the quick", all).await;
                sleep(SECOND).await;
            }
        };
        relay.run(story).await;
        let (asked, claimed) = store.claims();
        let delivered = slow_inbox.received().len() + inbox.received().len();
        assert!(slow_inbox.received().len() >= 30, "{mode:?}: {}", slow_inbox.received().len());
        assert!(asked < 2_000, "{mode:?}: {asked} claims");
        assert!(claimed < 6 * delivered, "{mode:?}: {claimed} rows were taken for {delivered}");
    }
}

/// A topic is an event type, whatever it is about, also where nothing is taken for it.
#[tokio::test(start_paused = true)]
async fn a_topic_that_hangs_keeps_no_other_waiting_whatever_it_is_about() {
    for mode in MODES {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        let about = |kind: usize| {
            let event = Event::builder(HANGS).aggregate(format!("kind {}", kind % 20), "1");
            event.json(&1).build().unwrap()
        };
        fill(&store.table, &(0..500).map(about).collect::<Vec<_>>()).await;
        fill(&store.table, &mixed(&[(HANGS, 100), (EVENT, 200)])).await;
        let worker = TopicWorker::builder(store.clone()).options(unlimited(mode));
        let worker = worker.on(HANGS, hang).on(EVENT, inbox.clone()).build().unwrap();
        let story = async {
            within(10 * SECOND, "the others", async || done(&store.table) == 200).await;
            sleep(60 * SECOND).await;
        };
        worker.run(story).await;
        let (asked, claimed) = store.claims();
        assert!(asked < 1_000 && claimed < 3_000, "{mode:?}: {asked} claims of {claimed} rows");
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_with_one_worker_goes_on_after_the_hung_handlers_time_limit() {
    for mode in MODES {
        let (store, inbox) = (MemoryStore::new(), Inbox::new());
        fill(&store, &mixed(&[(HANGS, 1), (EVENT, 20)])).await;
        let mut handlers = Handlers::new();
        handlers.on(HANGS, hang).unwrap().on(EVENT, inbox.clone()).unwrap();
        let handler = HandlerOptions { timeout: Some(20 * SECOND), ..HandlerOptions::default() };
        let options = RelayOptions { workers: 1, handler, ..unlimited(mode) };
        let relay = Relay::builder(store.clone()).options(options).build_routed(handlers).unwrap();
        relay.run(within(25 * SECOND, "the others", async || done(&store) == 20)).await;
        let hung = store.rows().into_iter().find(|row| row.event.event_type() == HANGS).unwrap();
        assert_eq!(hung.attempts, 1, "{mode:?}");
    }
}

/// Holds D8.
#[tokio::test(start_paused = true)]
async fn a_handler_has_no_more_runs_at_once_than_it_says_or_than_half_of_the_workers() {
    let most = |limit: Option<usize>, beside: bool| async move {
        let (store, (counting, most)) = (MemoryStore::new(), counting());
        fill(&store, &mixed(&[(SLOW, 500)])).await;
        let mut handlers = Handlers::new();
        match limit.and_then(NonZeroUsize::new) {
            Some(limit) => handlers.on(SLOW, at_most(limit, counting)).unwrap(),
            None => handlers.on(SLOW, counting).unwrap(),
        };
        if beside {
            handlers.on(EVENT, Inbox::new()).unwrap();
        }
        let relay = Relay::builder(store).options(unlimited(ClaimMode::Held));
        relay.build_routed(handlers).unwrap().run(sleep(5 * SECOND)).await;
        most.load(Ordering::SeqCst)
    };
    assert_eq!([most(None, true).await, most(None, false).await], [2, 4]);
    assert_eq!([most(Some(1), true).await, most(Some(4), true).await], [1, 4]);
    assert_eq!(most(Some(1), false).await, 1, "also where it is alone");
}

/// A suspect of a handler that has all its runs is left out as well.
#[tokio::test(start_paused = true)]
async fn suspects_of_a_hung_handler_are_not_claimed_in_a_loop() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, &mixed(&[(HANGS, 5)])).await;
    for owner in ["first", "second"] {
        let claim = Claim::new(owner, 1_000, SECOND);
        assert_eq!(store.table.claim(&claim).await.unwrap().rows.len(), 5);
        sleep(2 * SECOND).await;
    }
    fill(&store.table, &mixed(&[(HANGS, 300)])).await;
    let mut handlers = Handlers::new();
    handlers.on(HANGS, hang).unwrap().on(EVENT, inbox.clone()).unwrap();
    let relay = Relay::builder(store.clone()).options(unlimited(ClaimMode::Held));
    let story = async {
        sleep(60 * SECOND).await;
        let (_, before) = store.claims();
        for round in 1..=30 {
            fill(&store.table, &mixed(&[(EVENT, 10)])).await;
            within(3 * SECOND, "the others", async || inbox.received().len() == 10 * round).await;
            sleep(SECOND).await;
        }
        let (_, claimed) = store.claims();
        assert_eq!(claimed - before, 300, "nothing but the others");
    };
    relay.build_routed(handlers).unwrap().run(story).await;
}
