//! Rows that refuse to be updated: none stops a claim.

use std::slice::SliceIndex;
use std::time::Duration;

use sendoff_core::EventId;
use sendoff_engine::store::ClaimStore;
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_mysql::MysqlStore;
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::hostile;
use sendoff_testkit::wait::eventually;

use crate::place::{MARIADB, MYSQL, Place, by, claim, due, event, write};

async fn written(place: &Place, store: &MysqlStore, rows: usize) -> Vec<EventId> {
    let rows: Vec<_> = (0..rows).map(|_| due(event())).collect();
    write(store, &mut place.conn().await, &rows).await;
    rows.iter().map(|row| row.event.id()).collect()
}

/// A trigger refuses one row: whoever claims takes the others. When it has been refused for minutes,
/// the one is dead with the reason.
#[tokio::test]
async fn a_row_that_makes_claims_fail_for_minutes_is_named_and_dead() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, ids) = refusing(&place, 20, 13..14, "new.status <> 3").await;
        let write_one = async || written(&place, &store, 1).await[0];
        hostile::a_refused_row_dies_named(&store, ids[13], write_one).await;
    }
}

/// What refuses for a moment only is delivered soon after, and dead by no means.
#[tokio::test]
async fn rows_that_were_refused_for_a_moment_are_claimed_again() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, _) = refusing(&place, 8, ..5, "true").await;
        assert_eq!(claim(&store, "a").await.len(), 3);
        place.run("drop trigger no").await;
        hostile::later(Duration::from_secs(15)).await;
        assert_eq!(claim(&store, "a").await.len(), 5);
    }
}

/// However many rows refuse, those after them are claimed.
#[tokio::test]
async fn however_many_rows_refuse_the_others_are_claimed() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, _) = refusing(&place, 70, ..50, "true").await;
        let claimed =
            async || store.claim(&by("a")).await.is_ok_and(|claims| claims.rows.len() == 20);
        eventually("the others to be claimed", claimed).await;
    }
}

/// A mistake that fails every row ends none of them.
#[tokio::test]
async fn a_refusal_of_every_row_ends_no_row() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, _) = refusing(&place, 5, .., "new.status <> 3").await;
        assert!(store.claim(&by("a")).await.is_err());
        assert_eq!(place.number("select count(*) from outbox_event where status = 0").await, 5);
    }
}

/// What a row that refuses cuts short is gone on with at once, not an interval later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_after_a_row_that_refuses_does_not_wait_for_the_next_poll() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, _) = refusing(&place, 20, 13..14, "true").await;
        hostile::whoever_is_after_a_row_that_refuses_does_not_wait(store, 19).await;
    }
}

/// A row that refuses is no reason to keep suspects waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspects_run_although_every_other_row_refuses() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, inbox) = (place.store().await, Inbox::new());
        let ids = written(&place, &store, 2).await;
        let lost = "update outbox_event set losses = 1, locked_by = 'gone' where event_id";
        place.run(&format!("{lost} = {}", hex(ids[1]))).await;
        refuse_updates(&place, &ids[..1], "true").await;
        let options =
            OutboxOptions { poll_interval: Duration::from_millis(50), ..Default::default() };
        let builder = Outbox::builder(store.clone()).options(options);
        let outbox = builder.on("order.placed", inbox.clone()).start().await.unwrap();
        eventually("the suspect to run", async || !inbox.received().is_empty()).await;
        outbox.close().await;
    }
}

/// A store with so many rows, of which these refuse.
async fn refusing(
    place: &Place,
    rows: usize,
    refuse: impl SliceIndex<[EventId], Output = [EventId]>,
    when: &str,
) -> (MysqlStore, Vec<EventId>) {
    let store = place.store().await;
    let ids = written(place, &store, rows).await;
    refuse_updates(place, &ids[refuse], when).await;
    (store, ids)
}

/// A trigger that refuses every update of these rows.
async fn refuse_updates(place: &Place, ids: &[EventId], when: &str) {
    let ids: Vec<_> = ids.iter().map(|id| hex(*id)).collect();
    place
        .run(&format!(
            "create trigger no before update on outbox_event for each row
             begin
                 if old.event_id in ({}) and {when} then
                     signal sqlstate '45000' set message_text = 'not this one';
                 end if;
             end",
            ids.join(", ")
        ))
        .await;
}

fn hex(id: EventId) -> String {
    format!("x'{}'", id.to_string().replace('-', ""))
}
