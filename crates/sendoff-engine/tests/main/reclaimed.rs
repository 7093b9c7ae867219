//! A row that somebody has locked for longer than its hold lasts, and that this very node claims
//! again: it has run already, and is not run a second time.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Status};
use sendoff_engine::memory::RowLock;
use sendoff_engine::relay::{Consumer, Relay, RelayOptions};
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{Counters, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::{eventually, within};
use tokio::time::sleep;

use super::flaky::Flaky;
use super::{EVENT, SECOND, options, row};

/// Longer than any hold.
const LONG: Duration = Duration::from_secs(40);
const BYTES: usize = 10_000;

async fn write(store: &Flaky) -> EventId {
    let event = Event::json(EVENT, &"x".repeat(BYTES)).unwrap();
    let mut tx = store.table.transaction().unwrap();
    Outbox::writer_only(store.clone()).write(&mut tx, &event).await.unwrap().release();
    tx.commit().unwrap();
    event.id()
}

/// One event, and a node whose handler waits with it.
struct Story {
    store: Flaky,
    inbox: Inbox,
    outbox: Outbox<Flaky>,
    counters: Arc<Counters>,
    id: EventId,
}

impl Story {
    async fn begin(options: OutboxOptions) -> Self {
        let (store, inbox) = (Flaky::default(), Inbox::stepping());
        let counters = Arc::new(Counters::default());
        let id = write(&store).await;
        let outbox = Outbox::builder(store.clone()).options(options).metrics(counters.clone());
        let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
        let story = Self { store, inbox, outbox, counters, id };
        within(2 * SECOND, "the claim", async || story.row().locked_by.is_some()).await;
        story
    }

    fn row(&self) -> sendoff_engine::store::Row {
        row(&self.store.table, self.id)
    }

    fn lock(&self) -> RowLock {
        self.store.table.lock_row(self.id).unwrap()
    }

    /// The poller is there before any settlement or extension is tried again.
    fn unlock_and_poll(&self, lock: RowLock) {
        drop(lock);
        self.store.ring();
    }

    async fn ends_with_one_run(self) {
        within(LONG, "its end", async || self.row().status == Status::Done).await;
        sleep(LONG).await;
        assert_eq!(self.inbox.received().len(), 1, "runs of one event");
        assert_eq!((self.row().attempts, self.counters.values().fenced), (0, 0));
        assert!(!self.outbox.close().await.unsettled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_after_its_settlement_was_fenced_runs_nothing_again() {
    let story = Story::begin(options()).await;
    let lock = story.lock();
    story.inbox.allow(2);
    sleep(LONG).await;
    story.store.set_line(BYTES / 3);
    story.unlock_and_poll(lock);
    story.ends_with_one_run().await;
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_is_answered_before_its_settlement_was_fenced_runs_nothing_again() {
    let story = Story::begin(options()).await;
    let lock = story.lock();
    story.inbox.allow(2);
    sleep(LONG).await;
    // A settlement is always under way now.
    story.store.take(3 * SECOND);
    sleep(SECOND).await;
    story.unlock_and_poll(lock);
    story.ends_with_one_run().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_while_its_row_is_claimed_again_is_settled_by_that_claim() {
    let story = Story::begin(options()).await;
    let lock = story.lock();
    sleep(LONG).await;
    story.store.set_line(BYTES / 3);
    story.unlock_and_poll(lock);
    // By now an extension found that the row has another token.
    sleep(SECOND).await;
    story.inbox.allow(2);
    story.ends_with_one_run().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_over_is_not_stuck_while_its_settlement_waits() {
    let story = Story::begin(OutboxOptions { in_flight_ttl: Some(20 * SECOND), ..options() }).await;
    let lock = story.lock();
    story.inbox.allow(2);
    sleep(LONG).await;
    story.unlock_and_poll(lock);
    story.ends_with_one_run().await;
}

#[tokio::test(start_paused = true)]
async fn a_settlement_that_somebody_else_fenced_is_over_although_claims_go_on() {
    let story = Story::begin(options()).await;
    let lock = story.lock();
    story.inbox.allow(1);
    sleep(LONG).await;
    drop(lock);
    let stolen = story.store.table.claim(&Claim::new("thief", 10, LONG)).await.unwrap().rows;
    assert_eq!(stolen.len(), 1);
    within(2 * SECOND, "the fence", async || story.counters.values().fenced == 1).await;
    story.inbox.allow(1);
    within(2 * LONG, "the second run", async || story.row().status == Status::Done).await;
    assert_eq!((story.inbox.received().len(), story.row().attempts), (2, 2));
    story.outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_relay_settles_what_it_claims_again_by_the_answer_that_it_has() {
    let store = Flaky::default();
    let id = write(&store).await;
    let (locks, table) = (Arc::new(Mutex::new(Vec::new())), store.table.clone());
    let taken = locks.clone();
    let handler = move |_: Delivery| {
        taken.lock().unwrap().push(table.lock_row(id));
        async { Ok(()) }
    };
    let relay = Relay::builder(store.clone()).build(handler).unwrap();
    let story = async {
        sleep(2 * LONG).await;
        locks.lock().unwrap().iter_mut().for_each(|lock| drop(lock.take()));
        within(LONG, "its end", async || row(&store.table, id).status == Status::Done).await;
    };
    relay.run(story).await;
    assert_eq!((locks.lock().unwrap().len(), row(&store.table, id).attempts), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_consumer_is_not_given_an_event_whose_answer_waits() {
    // Answered at once, and after the answer was fenced.
    for line in [0, BYTES / 3] {
        let store = Flaky::default();
        let id = write(&store).await;
        let consumer = Consumer::new(store.clone(), RelayOptions::default()).unwrap();
        let mut batch = consumer.fetch().await.unwrap().unwrap();
        let lock = store.table.lock_row(id);
        batch.ack(id).unwrap();
        assert_eq!(batch.commit().await.unwrap().unsettled, 1);
        sleep(LONG).await;
        store.set_line(line);
        drop(lock);
        // It is visible, and claimed before the answer is sent again.
        assert!(consumer.fetch().await.unwrap().is_none(), "line of {line}");
        eventually("its end", async || row(&store.table, id).status == Status::Done).await;
        assert_eq!(row(&store.table, id).attempts, 0);
    }
}
