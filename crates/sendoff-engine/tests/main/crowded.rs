//! Handlers that are slow or hang beside others with much to do: none starves, and nothing floods.

use std::num::NonZeroUsize;
use std::time::Duration;

use sendoff_core::{Event, Failure, Stopped};
use sendoff_engine::capture::{Begin, BeginError};
use sendoff_engine::memory::{MemoryStore, MemoryTx};
use sendoff_engine::sink::BatchSink;
use sendoff_engine::{Outbox, OutboxOptions, at_most};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::sleep;

use super::flaky::Flaky;
use super::{EVENT, HANGS, SECOND, fill, hang, lose_twice, slow, unlimited};

impl<'a> Begin<&'a MemoryStore> for Flaky {
    type Tx = MemoryTx;

    async fn begin(&self, conn: &'a MemoryStore) -> Result<MemoryTx, BeginError> {
        Begin::begin(&self.table, conn).await
    }
}

/// A slow handler has its own part of the lane, whatever two quick ones with a backlog take of the rest.
#[tokio::test(start_paused = true)]
async fn a_slow_handler_goes_on_beside_two_quick_ones_with_a_backlog() {
    let (store, slow_inbox, quick) = (Flaky::default(), Inbox::new(), Inbox::new());
    // Two runs at once, each of 500 ms: four a second, 120 within `start_within`.
    let of_all = OutboxOptions { workers: 8, ..unlimited() };
    let outbox = Outbox::builder(store.clone()).options(of_all);
    let two = NonZeroUsize::new(2).unwrap();
    let outbox = outbox.on("slow", at_most(two, slow(&slow_inbox, Duration::from_millis(500))));
    let quickly = slow(&quick, Duration::from_millis(50));
    let outbox = outbox.on("quick.1", at_most(two, quickly.clone()));
    let outbox = outbox.on("quick.2", at_most(two, quickly.clone()));
    let outbox = outbox.on("idle.1", quickly.clone()).on("idle.2", quickly.clone());
    let outbox = outbox.on("idle.3", quickly.clone()).on("idle.4", quickly).start().await.unwrap();
    fill(&store.table, "slow", 1_500).await;
    sleep(60 * SECOND).await;
    fill(&store.table, "quick.1", 3_000).await;
    fill(&store.table, "quick.2", 3_000).await;
    let mut counts = Vec::new();
    for _ in 0..12 {
        let (before, q) = (slow_inbox.received().len(), quick.received().len());
        sleep(10 * SECOND).await;
        counts.push((slow_inbox.received().len() - before, quick.received().len() - q));
    }
    eprintln!("slow, quick in each 10 s: {counts:?}; claims {:?}", store.claims());
    assert!(counts.iter().all(|(slow, _)| *slow >= 20), "{counts:?}");
    outbox.close().await;
}

/// One claim of the usual kind was late once; nothing else is wrong.
#[tokio::test(start_paused = true)]
async fn after_one_late_claim_a_slow_handler_floods_nothing() {
    let (store, slow_inbox, quick) = (Flaky::default(), Inbox::new(), Inbox::new());
    store.set_round_trip(Duration::from_millis(2));
    let outbox = Outbox::builder(store.clone()).options(unlimited());
    let outbox = outbox.on("slow", slow(&slow_inbox, Duration::from_millis(500)));
    let outbox = outbox.on(EVENT, quick.clone()).start().await.unwrap();
    fill(&store.table, "slow", 3_000).await;
    // Slow by now.
    sleep(100 * SECOND).await;
    // One claim takes too long.
    store.set_walk(20 * SECOND);
    sleep(2 * SECOND).await;
    store.set_walk(Duration::ZERO);
    let mut counts = Vec::new();
    for _ in 0..40 {
        let before = store.claims().0;
        sleep(SECOND).await;
        counts.push(store.claims().0 - before);
    }
    eprintln!("claims in each second: {counts:?}; {} delivered", slow_inbox.received().len());
    assert!(counts.iter().all(|claims| *claims < 50), "{counts:?}");
    outbox.close().await;
}

/// The only handler has one run, which hangs; workers are free.
#[tokio::test(start_paused = true)]
async fn suspects_of_the_only_handler_with_a_limit_that_hangs_are_not_claimed_in_a_loop() {
    let store = Flaky::default();
    store.set_round_trip(Duration::from_millis(2));
    fill(&store.table, HANGS, 20).await;
    lose_twice(&store.table).await;
    fill(&store.table, HANGS, 5).await;
    let outbox = Outbox::builder(store.clone()).options(unlimited());
    let outbox = outbox.on(HANGS, at_most(NonZeroUsize::MIN, hang)).start().await.unwrap();
    sleep(60 * SECOND).await;
    let before = store.claims();
    sleep(60 * SECOND).await;
    let after = store.claims();
    let (asked, claimed) = (after.0 - before.0, after.1 - before.1);
    assert!(claimed <= 60 && asked <= 300, "{asked} claims of {claimed} rows in 60 s");
    outbox.close().await;
}

/// Nothing can be delivered, and commits go on.
#[tokio::test(start_paused = true)]
async fn commits_for_a_stuck_handler_make_no_claims() {
    let (store, quick) = (Flaky::default(), Inbox::new());
    let outbox = Outbox::builder(store.clone()).options(unlimited());
    let outbox = outbox.on(HANGS, hang).on(EVENT, quick.clone()).start().await.unwrap();
    fill(&store.table, HANGS, 5).await;
    sleep(60 * SECOND).await;
    let before = store.claims();
    for _ in 0..600 {
        let mut tx = outbox.begin(&store.table).await.unwrap();
        tx.emit(Event::json(HANGS, &1).unwrap()).unwrap();
        tx.commit().await.unwrap();
        sleep(SECOND / 20).await;
    }
    let after = store.claims();
    let (asked, claimed) = (after.0 - before.0, after.1 - before.1);
    assert!(asked <= 150, "{asked} claims of {claimed} rows in 30 s");
    outbox.close().await;
}

/// The target of a sink that takes batches is away. Each run of it puts back what it did not try, so that
/// the lane is never empty by itself.
#[tokio::test(start_paused = true)]
async fn suspects_have_their_turn_beside_a_sink_that_fails_at_its_first_event() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, EVENT, 9).await;
    lose_twice(&store.table).await;
    fill(&store.table, "away", 2_000).await;
    let away = BatchSink::new("away", |_| async {
        sleep(SECOND / 2).await;
        Err(Stopped::after(0, Failure::unavailable(SECOND, "connection refused")))
    });
    let outbox = Outbox::builder(store.clone()).options(unlimited()).on_sink("away", away);
    let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
    let all = async || inbox.received().len() == 9;
    within(600 * SECOND, "every suspect runs", all).await;
    outbox.close().await;
}
