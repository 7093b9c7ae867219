//! A row that somebody has locked for longer than its hold lasts: its holder waits for it in the store's own
//! queue, and has it before anybody else (G4).

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Status};
use sendoff_engine::memory::{MemoryStore, RowLock};
use sendoff_engine::relay::{Relay, RelayOptions};
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{Counters, Outbox};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::sync::Notify;
use tokio::time::sleep;

use super::{EVENT, SECOND, options, row};

/// Longer than any hold.
const LONG: Duration = Duration::from_secs(40);
/// Shorter than the pause of a row that was busy for long.
const MOMENT: Duration = Duration::from_millis(100);

async fn write(store: &MemoryStore, count: usize) -> Vec<EventId> {
    let mut ids = Vec::new();
    let mut tx = store.transaction().unwrap();
    for number in 0..count {
        let event = Event::json(EVENT, &number).unwrap();
        Outbox::writer_only(store.clone()).write(&mut tx, &event).await.unwrap().release();
        ids.push(event.id());
    }
    tx.commit().unwrap();
    ids
}

/// What another node would take now.
async fn visible_to_others(store: &MemoryStore) -> usize {
    store.claim(&Claim::new("another", 100, LONG)).await.unwrap().rows.len()
}

/// Events that a node has begun, each of them locked by somebody.
struct Story {
    store: MemoryStore,
    inbox: Inbox,
    outbox: Outbox<MemoryStore>,
    counters: Arc<Counters>,
    ids: Vec<EventId>,
    locks: Vec<RowLock>,
}

impl Story {
    async fn begin(count: usize) -> Self {
        let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
        let counters = Arc::new(Counters::default());
        let ids = write(&store, count).await;
        let outbox = Outbox::builder(store.clone()).options(options()).metrics(counters.clone());
        let outbox = outbox.on(EVENT, inbox.clone()).start().await.unwrap();
        let held = |id: &EventId| row(&store, *id).locked_by.is_some();
        within(2 * SECOND, "the claim", async || ids.iter().all(held)).await;
        let locks = ids.iter().map(|id| store.lock_row(*id).unwrap()).collect();
        Self { store, inbox, outbox, counters, ids, locks }
    }

    fn are_done(&self) -> bool {
        self.ids.iter().all(|id| row(&self.store, *id).status == Status::Done)
    }

    async fn ended_with_one_run_each(self) {
        sleep(LONG).await;
        assert_eq!(self.inbox.received().len(), self.ids.len());
        assert_eq!(self.counters.values().fenced, 0);
        assert!(self.ids.iter().all(|id| row(&self.store, *id).attempts == 0));
        assert!(!self.outbox.close().await.unsettled);
    }
}

#[tokio::test(start_paused = true)]
async fn a_run_that_is_over_is_settled_before_anybody_else_has_its_row() {
    let mut story = Story::begin(1).await;
    story.inbox.allow(2);
    sleep(LONG).await;
    story.locks.clear();
    assert_eq!(visible_to_others(&story.store).await, 0);
    within(MOMENT, "its end", async || story.are_done()).await;
    story.ended_with_one_run_each().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_goes_on_is_held_again_before_anybody_else_has_its_row() {
    let mut story = Story::begin(1).await;
    sleep(LONG).await;
    story.locks.clear();
    assert_eq!(visible_to_others(&story.store).await, 0);
    sleep(LONG).await;
    assert_eq!(visible_to_others(&story.store).await, 0, "it is extended as ever");
    story.inbox.allow(2);
    within(MOMENT, "its end", async || story.are_done()).await;
    story.ended_with_one_run_each().await;
}

#[tokio::test(start_paused = true)]
async fn a_run_that_ends_while_its_row_is_waited_for_is_settled_by_what_comes_of_that() {
    let mut story = Story::begin(1).await;
    // Its turn is waited for, again and again.
    sleep(LONG).await;
    story.inbox.allow(2);
    sleep(SECOND).await;
    story.locks.clear();
    assert_eq!(visible_to_others(&story.store).await, 0);
    within(MOMENT, "its end", async || story.are_done()).await;
    story.ended_with_one_run_each().await;
}

#[tokio::test(start_paused = true)]
async fn rows_that_were_locked_together_are_settled_as_soon_as_one_is_free() {
    let mut story = Story::begin(3).await;
    story.inbox.allow(6);
    sleep(LONG).await;
    story.locks.clear();
    within(MOMENT, "their end", async || story.are_done()).await;
    story.ended_with_one_run_each().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_locked_when_a_node_closes_is_settled_once_it_is_free() {
    let mut story = Story::begin(1).await;
    story.inbox.allow(2);
    sleep(LONG).await;
    let locks = std::mem::take(&mut story.locks);
    let free = async {
        sleep(2 * SECOND).await;
        drop(locks);
        assert_eq!(visible_to_others(&story.store).await, 0);
    };
    tokio::join!(biased; story.outbox.close(), free);
    within(LONG, "its end", async || story.are_done()).await;
    assert_eq!((story.inbox.received().len(), story.counters.values().fenced), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_relay_waits_for_a_locked_row_while_its_handler_runs_and_when_that_is_over() {
    for runs_on in [false, true] {
        let store = MemoryStore::new();
        let id = write(&store, 1).await[0];
        let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
        let (begins, goes_on) = (began.clone(), go_on.clone());
        let runs = Arc::new(Counters::default());
        let handler = move |_: Delivery| {
            let (begins, goes_on) = (begins.clone(), goes_on.clone());
            async move {
                begins.notify_one();
                goes_on.notified().await;
                Ok(())
            }
        };
        let relay_options = RelayOptions { hold: 10 * SECOND, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(relay_options).metrics(runs.clone());
        let relay = relay.build(handler).unwrap();
        let story = async {
            began.notified().await;
            let lock = store.lock_row(id);
            if !runs_on {
                go_on.notify_one();
            }
            sleep(LONG).await;
            drop(lock);
            assert_eq!(visible_to_others(&store).await, 0, "runs on: {runs_on}");
            go_on.notify_one();
            within(SECOND, "its end", async || row(&store, id).status == Status::Done).await;
        };
        relay.run(story).await;
        assert_eq!((row(&store, id).attempts, runs.values().fenced), (0, 0));
    }
}
