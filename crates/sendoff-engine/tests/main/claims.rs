//! How much is claimed at once and from where; suspects under load; what a lost link puts in doubt.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Status};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions};
use sendoff_engine::store::{Claim, ClaimStore, Lock, LockStore, Suspects};
use sendoff_engine::{Counters, Handler, Outbox, OutboxOptions, RetryOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::wait::{eventually, within};
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, SECOND, commit, event, options, row};

const KIB: usize = 1024;

/// Writes rows for any poller.
async fn fill(store: &MemoryStore, events: impl IntoIterator<Item = Event>) -> Vec<EventId> {
    let writer = Outbox::writer_only(store.clone());
    let mut tx = writer.begin(store).await.unwrap();
    let ids = events.into_iter().map(|event| tx.emit(event).unwrap()).collect();
    tx.commit().await.unwrap();
    ids
}

fn heavy(count: usize, kib: usize) -> Vec<Event> {
    let payload = vec![7; kib * KIB];
    let event = || Event::builder(EVENT).bytes(payload.clone()).build().unwrap();
    (0..count).map(|_| event()).collect()
}

fn events(count: usize) -> Vec<Event> {
    (0..count).map(|_| event()).collect()
}

/// One event that two processes vanished with.
async fn suspect(store: &MemoryStore) -> EventId {
    let id = fill(store, [event()]).await[0];
    for owner in ["first", "second"] {
        assert_eq!(store.claim(&Claim::new(owner, 1, SECOND)).await.unwrap().rows.len(), 1);
        sleep(2 * SECOND).await;
    }
    id
}

fn all_done(store: &MemoryStore) -> bool {
    store.rows().iter().all(|row| row.status == Status::Done)
}

/// A claim that a row which refuses has cut short is no reason to wait: there is more.
#[tokio::test(start_paused = true)]
async fn what_is_cut_short_is_gone_on_with_at_once() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, events(20)).await;
    store.set_cut(3);
    let options = OutboxOptions { poll_interval: 60 * SECOND, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    within(5 * SECOND, "all of them", async || inbox.received().len() == 20).await;
    outbox.close().await;
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        fill(&store.table, events(20)).await;
        store.set_cut(3);
        let poll_interval = 60 * SECOND;
        let options = RelayOptions { mode, workers: 1, poll_interval, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options).build(inbox.clone()).unwrap();
        let done = async || all_done(&store.table);
        relay.run(within(5 * SECOND, "all of them", done)).await;
    }
}

/// A claim that cannot come over the line in time is not repeated unchanged for ever.
#[tokio::test(start_paused = true)]
async fn over_a_slow_line_less_is_claimed_at_once() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, heavy(60, 650)).await;
    store.set_line(1_000 * KIB);
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    within(300 * SECOND, "all of them", async || inbox.received().len() == 60).await;
    eventually("their end", async || all_done(&store.table)).await;
    assert_eq!(inbox.received().len(), 60, "each once");
    outbox.close().await;
}

/// The same for a relay, in both modes.
#[tokio::test(start_paused = true)]
async fn over_a_slow_line_a_relay_fetches_less_at_once() {
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        fill(&store.table, heavy(40, 650)).await;
        store.set_line(500 * KIB);
        let options = RelayOptions { mode, workers: 1, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options).build(inbox.clone()).unwrap();
        let done = async || all_done(&store.table);
        relay.run(within(300 * SECOND, "all of them", done)).await;
        assert_eq!(inbox.received().len(), 40, "each once");
    }
}

/// Holds D1 and G7.
#[tokio::test(start_paused = true)]
async fn the_cold_lane_holds_no_more_bytes_than_it_may() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
    fill(&store, heavy(30, 300)).await;
    let options = OutboxOptions { workers: 1, cold_bytes: 1_024 * KIB, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    eventually("the lane to fill", async || outbox.lane_depths().cold >= 3).await;
    sleep(60 * SECOND).await;
    let held = store.rows().iter().filter(|row| row.locked_by.is_some()).count();
    assert!(held <= 5, "four in the lane and one in work at most: {held}");
    inbox.allow(30);
    inbox.has(30).await;
    outbox.close().await;
    assert!(store.rows().iter().all(|row| row.attempts == 0));
}

/// Holds D1 and G7: too many bytes are as too many events, released and left to the poller.
#[tokio::test(start_paused = true)]
async fn the_hot_lane_holds_no_more_bytes_than_it_may() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
    let counters = Arc::new(Counters::default());
    let options = OutboxOptions { workers: 1, hot_bytes: 1_024 * KIB, ..options() };
    let outbox = Outbox::builder(store.clone()).options(options).metrics(counters.clone());
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    for event in heavy(10, 300) {
        commit(&outbox, &event).await;
    }
    let huge = heavy(1, 1_024);
    assert!(outbox.lane_depths().hot <= 4);
    assert!(counters.values().hot_dropped >= 5, "{:?}", counters.values());
    inbox.allow(11);
    inbox.has(10).await;
    eventually("an empty lane", async || all_done(&store)).await;
    commit(&outbox, &huge[0]).await;
    inbox.has(11).await;
    assert_eq!(inbox.received().len(), 11, "also one as large as the lane");
    outbox.close().await;
}

/// Long walks over dead entries take a tenth of the time, and hide nothing for longer than nine
/// times as long as one of them.
#[tokio::test(start_paused = true)]
async fn a_row_that_becomes_visible_late_is_found_although_looks_begin_later() {
    for relay in [None, Some(ClaimMode::Held), Some(ClaimMode::Locked)] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        let late = fill(&store.table, [event()]).await[0];
        let locked = store.table.lock(&Lock::new(1)).await.unwrap();
        store.set_walk(SECOND / 2);
        let story = async {
            let writes = async {
                for _ in 0..200 {
                    fill(&store.table, events(10)).await;
                    store.ring();
                    sleep(SECOND / 10).await;
                }
            };
            let unlocks = async {
                sleep(8 * SECOND).await;
                drop(locked);
                let unlocked = Instant::now();
                within(6 * SECOND, "the late one", async || inbox.ids().contains(&late)).await;
                assert!(unlocked.elapsed() < 6 * SECOND, "{:?}", unlocked.elapsed());
            };
            tokio::join!(writes, unlocks);
            assert!(store.walks() <= 6, "{} walks of half a second in twenty", store.walks());
            within(6 * SECOND, "the others", async || all_done(&store.table)).await;
        };
        delivering(relay, &store, &inbox, 60 * SECOND, story).await;
        assert_eq!(inbox.received().len(), 2_001);
    }
}

/// Delivers beside a story: by an outbox, or by a relay of this mode.
async fn delivering(
    relay: Option<ClaimMode>,
    store: &Flaky,
    inbox: &Inbox,
    poll_interval: Duration,
    story: impl Future<Output = ()>,
) {
    match relay {
        None => {
            let options = OutboxOptions { poll_interval, ..options() };
            let outbox = Outbox::builder(store.clone()).options(options);
            let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
            story.await;
            outbox.close().await;
        }
        Some(mode) => {
            let options =
                RelayOptions { mode, workers: 2, poll_interval, ..RelayOptions::default() };
            let relay = Relay::builder(store.clone()).options(options);
            relay.build(inbox.clone()).unwrap().run(story).await;
        }
    }
}

/// A node that begins beside an old snapshot finds its way, however much was claimed since.
#[tokio::test(start_paused = true)]
async fn walks_too_long_for_a_claim_stop_nobody() {
    for relay in [None, Some(ClaimMode::Held), Some(ClaimMode::Locked)] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        store.set_walk(20 * SECOND);
        fill(&store.table, events(1_000)).await;
        let story = async {
            within(45 * SECOND, "the backlog", async || inbox.received().len() == 1_000).await;
            for _ in 0..30 {
                let written = Instant::now();
                let id = fill(&store.table, [event()]).await[0];
                within(2 * SECOND, "a new one", async || inbox.ids().contains(&id)).await;
                sleep(SECOND.saturating_sub(written.elapsed())).await;
            }
            assert!(store.walks() <= 12, "{} walks from the beginning", store.walks());
        };
        delivering(relay, &store, &inbox, SECOND, story).await;
        assert_eq!(inbox.received().len(), 1_030, "{relay:?}");
    }
}

/// Handlers that take a second each, and an endless backlog of them.
fn slow(inbox: &Inbox) -> impl Handler + Clone {
    let inbox = inbox.clone();
    move |delivery: Delivery| {
        let inbox = inbox.clone();
        async move {
            sleep(SECOND).await;
            inbox.handle(delivery).await
        }
    }
}

/// Whoever vanished with it for the last time is counted, also where it could not run alone now.
#[tokio::test(start_paused = true)]
async fn a_suspect_without_attempts_ends_although_others_never_leave() {
    for relay in [None, Some(ClaimMode::Held)] {
        let (store, inbox) = (Flaky::default(), Inbox::stepping());
        let last = fill(&store.table, [event()]).await[0];
        for number in 0..=RetryOptions::default().max_attempts {
            let owner = number.to_string();
            let suspects = if number < 2 { Suspects::Skip } else { Suspects::Only };
            let claim = Claim { suspects, ..Claim::new(&owner, 1, SECOND) };
            assert_eq!(store.table.claim(&claim).await.unwrap().rows.len(), 1);
            sleep(2 * SECOND).await;
        }
        fill(&store.table, events(10)).await;
        let story = async {
            let dead = async || row(&store.table, last).status == Status::Dead;
            within(20 * SECOND, "its end", dead).await;
            inbox.allow(20);
            within(60 * SECOND, "the others", async || inbox.received().len() == 10).await;
        };
        delivering(relay, &store, &inbox, SECOND, story).await;
        assert!(!inbox.ids().contains(&last), "{relay:?}");
        assert_eq!(row(&store.table, last).attempts, RetryOptions::default().max_attempts);
    }
}

/// Suspects have their turn under a lasting backlog, and run alone all the same.
#[tokio::test(start_paused = true)]
async fn a_suspect_is_not_starved_by_a_lasting_backlog() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let suspects = [suspect(&store).await, suspect(&store).await];
    fill(&store, events(5_000)).await;
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, slow(&inbox)).start().await;
    let outbox = outbox.unwrap();
    let seen = async || suspects.iter().all(|id| inbox.ids().contains(id));
    within(20 * SECOND, "the suspects", seen).await;
    assert!(inbox.received().len() > 10, "the others go on meanwhile");
    sleep(20 * SECOND).await;
    assert!(inbox.received().len() > 80, "and afterwards: {}", inbox.received().len());
    let twice = store.rows().iter().filter(|row| row.attempts > 0 && row.losses > 0).count();
    assert_eq!(twice, 0, "nobody was lost with them");
    drop(outbox);
}

/// The same for a relay.
#[tokio::test(start_paused = true)]
async fn a_relays_suspect_is_not_starved_by_a_lasting_backlog() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let suspect = suspect(&store).await;
    fill(&store, events(5_000)).await;
    let options = RelayOptions { batch: 10, ..RelayOptions::default() };
    let relay = Relay::builder(store.clone()).options(options).build(slow(&inbox)).unwrap();
    let seen = async || inbox.ids().contains(&suspect);
    relay.run(within(40 * SECOND, "the suspect", seen)).await;
    assert!(inbox.received().len() > 10, "the others go on meanwhile");
}

/// Rows that nobody holds, written while the database's clock was ahead.
#[tokio::test(start_paused = true)]
async fn what_was_written_while_the_clock_was_ahead_is_delivered_after_it_stepped_back() {
    let (clock, inbox) = (ManualClock::new(), Inbox::new());
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    fill(&store, events(1_500)).await;
    clock.step_back(3_600 * SECOND);
    let outbox =
        Outbox::builder(store.clone()).options(options()).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    within(60 * SECOND, "all of them", async || all_done(&store)).await;
    assert_eq!(inbox.received().len(), 1_500);
    outbox.close().await;
}

/// What waits in a lane when a link is lost may not be there any more: a standby may have been
/// promoted that never got it.
#[tokio::test(start_paused = true)]
async fn what_waits_in_memory_is_confirmed_again_after_a_lost_link() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let options = OutboxOptions { workers: 1, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    let writer = Outbox::writer_only(store.table.clone());
    let mut ids = Vec::new();
    for _ in 0..4 {
        let mut tx = store.table.transaction().unwrap();
        let staged = outbox.write(&mut tx, event()).await.unwrap();
        tx.commit().unwrap();
        ids.push(staged.id());
        staged.release();
    }
    ids.push(commit(&writer, &event()).await);
    eventually("three and one to wait", async || {
        let depths = outbox.lane_depths();
        depths.hot == 3 && depths.cold == 1
    })
    .await;
    store.lose(ids[2]);
    inbox.allow(10);
    inbox.has(4).await;
    sleep(5 * SECOND).await;
    assert!(!inbox.ids().contains(&ids[2]), "its commit is gone");
    assert_eq!(inbox.received().len(), 4);
    outbox.close().await;
}

/// A database that cannot be asked proves nothing; what waits is released, and comes by the poller.
#[tokio::test(start_paused = true)]
async fn what_cannot_be_confirmed_again_is_left_to_the_poller() {
    let (store, inbox) = (Flaky::default(), Inbox::stepping());
    let options = OutboxOptions { workers: 1, ..options() };
    let outbox =
        Outbox::builder(store.clone()).options(options).on(EVENT, inbox.clone()).start().await;
    let outbox = outbox.unwrap();
    for _ in 0..3 {
        let mut tx = store.table.transaction().unwrap();
        let staged = outbox.write(&mut tx, event()).await.unwrap();
        tx.commit().unwrap();
        staged.release();
    }
    eventually("two to wait", async || outbox.lane_depths().hot == 2).await;
    store.set_down(true);
    store.lose(EventId::generate());
    inbox.allow(1);
    eventually("the lane to empty", async || outbox.lane_depths().hot == 0).await;
    sleep(SECOND).await;
    assert_eq!(inbox.received().len(), 1, "nothing runs unproved");
    inbox.allow(10);
    store.set_down(false);
    within(60 * SECOND, "all of them", async || all_done(&store.table)).await;
    assert_eq!(inbox.received().len(), 3);
    outbox.close().await;
}
