//! Events that were delivered, after crashes of the server.

use sendoff_core::{Event, EventId};
use sendoff_engine::store::{Claim, ClaimStore, Suspects};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::soak;
use sendoff_testkit::wait::eventually;

use crate::journal::restart::{FORGETFUL, server, stop_writing_the_log};
use crate::place::{Place, by, connect, due, event, write};

/// I13: an event that was delivered is there after a crash, however it was written and although its
/// session said that a commit need not wait for the disk.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_event_that_was_delivered_is_there_after_a_crash() {
    let Some((mut server, place)) = server(&FORGETFUL) else { return };
    for round in 0..soak::rounds(4) {
        let (store, inbox) = (place.store().await, Inbox::new());
        let options = OutboxOptions {
            poll_interval: std::time::Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(store).options(options).on("order.placed", inbox.clone());
        let outbox = builder.start().await.unwrap();
        stop_writing_the_log(&connect(&server.url()).await.unwrap()).await;
        let id = write_in_some_way(&outbox, &place, round).await;
        eventually("its delivery", async || !inbox.received().is_empty()).await;
        server.kill();
        server.up();
        outbox.close().await;
        let there = format!("select count(*) from outbox_event where event_id = '{id}'");
        assert_eq!(place.number(&there).await, 1, "round {round}: delivered, and gone");
    }
    std::mem::forget(place);
}

/// In each round in another way, so that nothing else makes it durable.
async fn write_in_some_way(outbox: &Outbox<PostgresStore>, place: &Place, round: u32) -> EventId {
    let mut client = place.client().await;
    client.batch_execute("set synchronous_commit = off").await.unwrap();
    let event = Event::json("order.placed", &round).unwrap();
    let id = event.id();
    match round % 4 {
        0 => {
            let mut client = outbox.store().prepare(client).await.unwrap();
            let mut tx = outbox.begin(&mut client).await.unwrap();
            tx.emit(&event).unwrap();
            tx.commit().await.unwrap();
        }
        1 => {
            let mut tx = client.transaction().await.unwrap();
            let staged = outbox.write(&mut tx, event).await.unwrap();
            tx.commit().await.unwrap();
            staged.release();
        }
        2 => {
            let emit = format!(
                "select sendoff_emit('order.placed', '1'::jsonb, event_id => '{id}'::uuid)"
            );
            client.batch_execute(&emit).await.unwrap();
        }
        _ => {
            let mut client = outbox.store().prepare(client).await.unwrap();
            let mut tx = outbox.begin(&mut client).await.unwrap();
            tx.emit(&event).unwrap();
            tx.emit(Event::json("order.placed", "another").unwrap()).unwrap();
            tx.commit().await.unwrap();
        }
    }
    id
}

/// An event that takes the server down with it is counted each time, and so ends.
#[tokio::test]
async fn an_attempt_counted_for_a_vanished_holder_is_there_after_a_crash() {
    let Some((mut server, place)) = server(&FORGETFUL) else { return };
    let store = place.store().await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    for (attempt, suspects) in [(1, Suspects::Skip), (2, Suspects::Only)] {
        place.run("update outbox_event set locked_by = 'gone', due_at = now()").await;
        stop_writing_the_log(&connect(&server.url()).await.unwrap()).await;
        let claim = Claim { suspects, ..by("a") };
        let claimed = store.claim(&claim).await.unwrap().rows;
        assert!(claimed[0].lost);
        server.kill();
        server.up();
        let counted = "select attempts::bigint from outbox_event";
        assert_eq!(place.number(counted).await, attempt);
        let back = async || store.confirm(&[crate::place::hold_of(&claimed[0])]).await.is_ok();
        eventually("the store's way back", back).await;
    }
    std::mem::forget(place);
}
