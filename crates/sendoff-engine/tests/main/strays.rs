//! Claims whose answers are lost: what they took is given back, and hidden from nobody for a whole hold.

use std::time::Duration;

use sendoff_core::{Event, EventId, Status};
use sendoff_engine::relay::{Relay, RelayOptions};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;

use super::flaky::Flaky;
use super::{EVENT, event, options, row};

/// A statement that is not answered, and a look; far from a hold.
const SOON: Duration = Duration::from_secs(8);

async fn write(store: &Flaky) -> EventId {
    let event = Event::json(EVENT, &1).unwrap();
    let mut tx = store.table.transaction().unwrap();
    Outbox::writer_only(store.clone()).write(&mut tx, &event).await.unwrap().release();
    tx.commit().unwrap();
    event.id()
}

fn is_done_at_first(store: &Flaky, id: EventId) -> bool {
    let row = row(&store.table, id);
    row.status == Status::Done && (row.attempts, row.losses) == (0, 0)
}

/// Of two such claims as of one; and nothing is counted.
#[tokio::test(start_paused = true)]
async fn rows_of_a_claim_that_was_not_answered_are_given_back() {
    for lost in 1..=2 {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        store.lose_claims(lost);
        let id = write(&store).await;
        let outbox = Outbox::builder(store.clone()).options(options());
        let outbox = outbox.on(EVENT, inbox.clone()).start().unwrap();
        let time = SOON * lost as u32;
        within(time, "its end", async || is_done_at_first(&store, id)).await;
        assert_eq!(inbox.ids(), [id]);
        outbox.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_relay_gives_rows_back_of_a_claim_that_was_not_answered() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    store.lose_claims(1);
    let id = write(&store).await;
    let relay = Relay::builder(store.clone()).options(RelayOptions::default());
    let relay = relay.build(inbox.clone()).unwrap();
    relay.run(within(SOON, "its end", async || is_done_at_first(&store, id))).await;
    assert_eq!(inbox.ids(), [id]);
}

/// What a transaction of the application's has written and not released yet is held in the node's name
/// as well, and no stray.
#[tokio::test(start_paused = true)]
async fn rows_that_were_born_held_are_left_to_their_writers() {
    for hold in [10, 30] {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        let options = OutboxOptions {
            hold: Duration::from_secs(hold),
            hot_grace: Duration::from_secs(20),
            ..options()
        };
        let outbox = Outbox::builder(store.clone()).options(options);
        let outbox = outbox.on(EVENT, inbox.clone()).start().unwrap();
        let mut tx = store.table.transaction().unwrap();
        let event = event();
        let staged = outbox.write(&mut tx, &event).await.unwrap();
        tx.commit().unwrap();
        let born = row(&store.table, event.id());
        store.lose_claims(1);
        let other = write(&store).await;
        let time = Duration::from_secs(hold + 5).min(Duration::from_secs(18));
        within(time, "the end of another", async || is_done_at_first(&store, other)).await;
        let now = row(&store.table, event.id());
        assert_eq!((now.due_at, now.locked_by), (born.due_at, born.locked_by));
        staged.release();
        within(SOON, "its end", async || is_done_at_first(&store, event.id())).await;
        assert_eq!(inbox.received().len(), 2, "each once");
        outbox.close().await;
    }
}
