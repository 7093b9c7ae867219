//! Dead letters, beyond the suite that every store passes.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{AuditNote, EventId, LetterAct, LetterFate, LetterFilter};
use sendoff_engine::store::{InspectStore, Outcome, StoreError};
use sendoff_engine::{DeadLetters, LettersError, Outbox, OutboxOptions, SweepOptions};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::eventually;

use crate::place::{Place, claim, due, event, hold_of, settle_one, write};

const AN_HOUR: Duration = Duration::from_secs(60 * 60);

fn note() -> AuditNote {
    AuditNote::new("ada", "it is mended").unwrap()
}

/// An event that died.
async fn dead(place: &Place, store: &PostgresStore) -> EventId {
    write(store, &mut place.client().await, &[due(event())]).await;
    let claimed = claim(store, "a").await;
    let outcome = Outcome::dead(10, "no");
    assert!(settle_one(store, hold_of(&claimed[0]), outcome).await);
    claimed[0].id
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_requeue_wakes_a_node_that_would_sleep_for_an_hour() {
    let place = Place::new();
    let store = place.store().await;
    let id = dead(&place, &store).await;
    let inbox = Inbox::new();
    let options = OutboxOptions { poll_interval: AN_HOUR, ..OutboxOptions::default() };
    let builder = Outbox::builder(place.store().await).options(options);
    let node = builder.on("order.placed", inbox.clone()).start().await.unwrap();
    let asleep = async || place.number("select last_value from outbox_bell").await == 2;
    eventually("the node to sleep", asleep).await;
    let letters = DeadLetters::new(Arc::new(store));
    assert_eq!(letters.requeue(&[id], &note()).await.unwrap(), [(id, LetterFate::Done)]);
    inbox.has(1).await;
    node.close().await;
}

/// Claims and settlements do not wait for the disk; what an operator was told is done does.
#[tokio::test]
async fn what_an_operator_does_is_durable_when_it_is_answered() {
    let place = Place::new();
    let store = place.store().await;
    let ids = [dead(&place, &store).await, dead(&place, &store).await];
    place
        .run(
            "create function durable() returns trigger language plpgsql as $$ begin
                 if current_setting('synchronous_commit') = 'off' then raise 'not durable'; end if;
                 return null;
             end $$;
             create constraint trigger durable after insert on outbox_audit
                 deferrable initially deferred for each row execute function durable()",
        )
        .await;
    let letters = DeadLetters::new(Arc::new(store));
    assert_eq!(letters.requeue(&ids[..1], &note()).await.unwrap()[0].1, LetterFate::Done);
    assert_eq!(letters.discard(&ids[1..], &note()).await.unwrap()[0].1, LetterFate::Done);
}

/// What cannot be remembered is not done.
#[tokio::test]
async fn nothing_is_done_without_the_audit() {
    let place = Place::new();
    let store = place.store().await;
    let id = dead(&place, &store).await;
    place.run("alter table outbox_audit add constraint none check (actor <> 'ada')").await;
    let letters = DeadLetters::new(Arc::new(store.clone()));
    for refused in [letters.requeue(&[id], &note()).await, letters.discard(&[id], &note()).await] {
        assert!(matches!(refused, Err(LettersError::Store(StoreError::Refused(_)))), "{refused:?}");
    }
    let all = LetterFilter::default();
    let sweep = letters.sweep(LetterAct::Discard, all, note(), SweepOptions::default()).unwrap();
    assert_eq!(sweep.run().await.unwrap_err().so_far.done, 0);
    assert_eq!(store.find(id).await.unwrap().unwrap().attempts, 10, "it is as it was");
}
