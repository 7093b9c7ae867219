//! Rows that no writer of ours would leave behind: none stops a claim.

use std::slice::SliceIndex;
use std::time::Duration;

use sendoff_core::{EventId, Status, Unroutable};
use sendoff_engine::store::{ClaimStore, InspectStore};
use sendoff_engine::{HandlerOptions, Outbox, OutboxOptions};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::hostile;
use sendoff_testkit::wait::eventually;

use crate::place::{Place, by, claim, due, event, write};

async fn written(place: &Place, store: &PostgresStore, rows: usize) -> Vec<EventId> {
    let rows: Vec<_> = (0..rows).map(|_| due(event())).collect();
    write(store, &mut place.client().await, &rows).await;
    rows.iter().map(|row| row.event.id()).collect()
}

fn row(id: EventId) -> String {
    format!("where event_id = '{id}'")
}

/// Every column at its worst, in one table; what is good beside them is delivered.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_stored_value_stops_a_claim() {
    let place = Place::new();
    let (store, inbox) = (place.store().await, Inbox::new());
    let damage = [
        "attempts = 2147483647, locked_by = 'gone', due_at = now() - interval '1 s'",
        "attempts = 2147483647, losses = 32767, locked_by = 'gone', due_at = now()",
        "losses = 32767, locked_by = 'gone', due_at = '-infinity'",
        "attempts = -5",
        "losses = -5, locked_by = 'gone', due_at = now()",
        "created_at = '-infinity'",
        "created_at = 'infinity', due_at = '-infinity'",
        "occurred_at = '-infinity'",
        "headers = '7'",
        "headers = '{\"a\": null}'",
        "event_type = repeat('x', 100000)",
        "locked_by = repeat('x', 100000), due_at = now()",
        "shard = -1, payload = ''",
    ];
    let ids = written(&place, &store, damage.len() + 3).await;
    place
        .run(
            "alter table outbox_event drop constraint outbox_event_attempts;
             alter table outbox_event drop constraint outbox_event_losses;
             alter table outbox_event drop constraint outbox_event_shard",
        )
        .await;
    for (id, set) in ids.iter().zip(damage) {
        place.run(&format!("update outbox_event set {set} {}", row(*id))).await;
    }
    let options = OutboxOptions {
        poll_interval: Duration::from_millis(50),
        handler: HandlerOptions { unroutable: Unroutable::Dead, ..Default::default() },
        ..Default::default()
    };
    let builder = Outbox::builder(store.clone()).options(options);
    let outbox = builder.on("order.placed", inbox.clone()).start().await.unwrap();
    let over = async || store.counts().await.unwrap().pending() == 0;
    eventually("everything to end", over).await;
    outbox.close().await;
    for id in &ids[damage.len()..] {
        assert_eq!(store.find(*id).await.unwrap().unwrap().status, Status::Done);
    }
}

/// A trigger refuses one row: whoever claims takes the others. When it has been refused for minutes,
/// the one is dead with the reason.
#[tokio::test]
async fn a_row_that_makes_claims_fail_for_minutes_is_named_and_dead() {
    let place = Place::new();
    let (store, ids) = refusing(&place, 20, 13..14, "new.status <> 3").await;
    let write_one = async || written(&place, &store, 1).await[0];
    hostile::a_refused_row_dies_named(&store, ids[13], write_one).await;
}

/// What refuses for a moment only is delivered soon after, and dead by no means.
#[tokio::test]
async fn rows_that_were_refused_for_a_moment_are_claimed_again() {
    for when in ["true", "new.status <> 3"] {
        let place = Place::new();
        let (store, _) = refusing(&place, 8, ..5, when).await;
        assert_eq!(claim(&store, "a").await.len(), 3);
        place.run("drop trigger no on outbox_event").await;
        hostile::later(Duration::from_secs(15)).await;
        assert_eq!(claim(&store, "a").await.len(), 5, "{when}");
    }
}

/// However many rows refuse, those after them are claimed.
#[tokio::test]
async fn however_many_rows_refuse_the_others_are_claimed() {
    let place = Place::new();
    let (store, _) = refusing(&place, 120, ..100, "true").await;
    let claimed = async || store.claim(&by("a")).await.is_ok_and(|claims| claims.rows.len() == 20);
    eventually("the others to be claimed", claimed).await;
}

/// What a row that refuses cuts short is gone on with at once, not an interval later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_is_after_a_row_that_refuses_does_not_wait_for_the_next_poll() {
    let place = Place::new();
    // Nor for a bell.
    let options = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let store = place.store_with(options).await;
    let ids = written(&place, &store, 20).await;
    refuse_updates(&place, &ids[13..14], "true").await;
    hostile::whoever_is_after_a_row_that_refuses_does_not_wait(store, 19).await;
}

/// A row that refuses is no reason to keep suspects waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspects_run_although_every_other_row_refuses() {
    let place = Place::new();
    let (store, inbox) = (place.store().await, Inbox::new());
    let ids = written(&place, &store, 2).await;
    let lost = format!("update outbox_event set losses = 1, locked_by = 'gone' {}", row(ids[1]));
    place.run(&lost).await;
    refuse_updates(&place, &ids[..1], "true").await;
    let options = OutboxOptions { poll_interval: Duration::from_millis(50), ..Default::default() };
    let builder = Outbox::builder(store.clone()).options(options);
    let outbox = builder.on("order.placed", inbox.clone()).start().await.unwrap();
    eventually("the suspect to run", async || !inbox.received().is_empty()).await;
    outbox.close().await;
}

/// One that cannot even be ended is passed over.
#[tokio::test]
async fn a_row_that_can_neither_be_claimed_nor_ended_keeps_no_other_waiting() {
    let place = Place::new();
    let (store, _) = refusing(&place, 5, ..1, "true").await;
    let mut taken = 0;
    while taken < 4 {
        taken += claim(&store, "a").await.len();
    }
    assert!(claim(&store, "a").await.is_empty());
    let later = written(&place, &store, 1).await;
    assert_eq!(claim(&store, "a").await[0].id, later[0]);
}

/// A mistake that fails every row ends none of them.
#[tokio::test]
async fn a_refusal_of_every_row_ends_no_row() {
    let place = Place::new();
    let (store, _) = refusing(&place, 5, .., "new.status <> 3").await;
    assert!(store.claim(&by("a")).await.is_err());
    assert_eq!(place.number("select count(*) from outbox_event where status = 0").await, 5);
}

/// A store with so many rows, of which these refuse.
async fn refusing(
    place: &Place,
    rows: usize,
    refuse: impl SliceIndex<[EventId], Output = [EventId]>,
    when: &str,
) -> (PostgresStore, Vec<EventId>) {
    let store = place.store().await;
    let ids = written(place, &store, rows).await;
    refuse_updates(place, &ids[refuse], when).await;
    (store, ids)
}

/// A trigger that refuses every update of these rows.
async fn refuse_updates(place: &Place, ids: &[EventId], when: &str) {
    let ids: Vec<_> = ids.iter().map(|id| format!("'{id}'")).collect();
    place
        .run(&format!(
            "create function no() returns trigger language plpgsql as
                 $$ begin raise exception 'not this one'; end $$;
             create trigger no before update on outbox_event for each row
                 when (old.event_id in ({}) and {when}) execute function no()",
            ids.join(", ")
        ))
        .await;
}
