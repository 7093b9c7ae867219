//! Who handles what: a node ends nothing that another would deliver, and leaves it alone.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use sendoff_core::{Delivery, Event, Status, Unroutable};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::TopicWorker;
use sendoff_engine::store::OutboxStore;
use sendoff_engine::{Handler, HandlerOptions, HandlerResult, Outbox, OutboxOptions};
use sendoff_testkit::acceptance::Inbox;
use tokio::time::sleep;

use super::flaky::Flaky;
use super::{commit, row};

const MINUTE: Duration = Duration::from_secs(60);

/// A handler whose target is away until told otherwise.
fn away(inbox: &Inbox) -> (impl Handler + Clone, Arc<AtomicBool>) {
    let is_away = Arc::new(AtomicBool::new(true));
    let told = is_away.clone();
    let inbox = inbox.clone();
    let handler = move |delivery: Delivery| {
        let (inbox, is_away) = (inbox.clone(), is_away.clone());
        async move {
            if is_away.load(Ordering::SeqCst) {
                return refused();
            }
            inbox.handle(delivery).await
        }
    };
    (handler, told)
}

fn refused() -> HandlerResult {
    Err(io::Error::from(io::ErrorKind::ConnectionRefused))?;
    Ok(())
}

fn dead(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.status == Status::Dead).count()
}

async fn billing<S: OutboxStore + Clone>(store: &S) -> Outbox<S> {
    Outbox::builder(store.clone()).on("billing", Inbox::new()).start().await.unwrap()
}

/// A node whose target is away for an hour, beside another that wrote its events and does not know them.
async fn an_hour_away(store: &MemoryStore) -> Outbox<MemoryStore> {
    let (handler, _) = away(&Inbox::new());
    let shipping = Outbox::builder(store.clone()).on("shipping", handler).start().await.unwrap();
    let writes = billing(store).await;
    for number in 0..2_000 {
        commit(&writes, &Event::json("shipping", &number).unwrap()).await;
    }
    sleep(60 * MINUTE).await;
    assert_eq!(dead(store), 0);
    writes.close().await;
    shipping
}

/// Holds D6: also where it could ask nobody when it started.
#[tokio::test(start_paused = true)]
async fn a_node_that_starts_before_its_database_ends_nothing_of_others() {
    let store = MemoryStore::new();
    let shipping = an_hour_away(&store).await;
    let flaky = Flaky::over(store.clone());
    flaky.set_down(true);
    let billing = billing(&flaky).await;
    sleep(Duration::from_secs(10)).await;
    flaky.set_down(false);
    sleep(2 * MINUTE).await;
    assert_eq!(dead(&store), 0, "shipping is there, and its target is away");
    shipping.close().await;
    billing.close().await;
}

/// Holds D6: who has not heard of the others does not know what they handle.
#[tokio::test(start_paused = true)]
async fn a_node_that_has_not_heard_of_the_others_yet_ends_nothing_of_theirs() {
    let store = MemoryStore::new();
    let shipping = an_hour_away(&store).await;
    let flaky = Flaky::over(store.clone());
    flaky.set_deaf(true);
    let billing = billing(&flaky).await;
    sleep(Duration::from_secs(5)).await;
    flaky.set_deaf(false);
    sleep(MINUTE).await;
    assert_eq!(dead(&store), 0, "shipping is there, and its target is away");
    shipping.close().await;
    billing.close().await;
}

/// Holds D6: a topic worker takes a type whatever it is about, beside a handler of that type for one kind of
/// aggregate.
#[tokio::test(start_paused = true)]
async fn a_topic_s_events_about_something_else_are_left_to_the_topic_worker() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let (handler, _) = away(&inbox);
    let worker = TopicWorker::builder(store.clone()).on("renamed", handler).build().unwrap();
    let working = worker.start().await.unwrap();
    sleep(MINUTE).await;
    let users = Outbox::builder(store.clone()).on_aggregate("user", "renamed", Inbox::new());
    let users = users.start().await.unwrap();
    sleep(MINUTE).await;
    for number in 0..200 {
        let event = Event::builder("renamed").aggregate("order", "1").json(&number).build();
        commit(&Outbox::writer_only(store.clone()), &event.unwrap()).await;
    }
    sleep(40 * MINUTE).await;
    assert_eq!(dead(&store), 0, "the topic worker is there, and its target is away");
    users.close().await;
    working.close().await;
}

/// Holds D6: however short it defers what nobody handles.
#[tokio::test(start_paused = true)]
async fn a_node_that_defers_for_half_a_minute_believes_those_who_speak_once_a_minute() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let (handler, _) = away(&inbox);
    let shipping = Outbox::builder(store.clone()).on("shipping", handler).start().await.unwrap();
    let unroutable =
        Unroutable::Defer { delay: Duration::from_secs(1), at_most: Duration::from_secs(30) };
    let handler = HandlerOptions { unroutable, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, ..OutboxOptions::default() };
    let billing = Outbox::builder(store.clone()).options(options).on("billing", Inbox::new());
    let billing = billing.start().await.unwrap();
    for number in 0..200 {
        commit(&shipping, &Event::json("shipping", &number).unwrap()).await;
    }
    sleep(40 * MINUTE).await;
    assert_eq!(dead(&store), 0, "shipping is there, and its target is away");
    shipping.close().await;
    billing.close().await;
}

/// Holds D6.
#[tokio::test(start_paused = true)]
async fn a_table_with_more_than_a_thousand_kinds_loses_none() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let (handler, _) = away(&inbox);
    let shipping = Outbox::builder(store.clone()).on("shipping", handler).start().await.unwrap();
    let mut nodes = Vec::new();
    for node in 0..10 {
        let mut many = Outbox::builder(store.clone());
        for kind in 0..100 {
            many = many.on_aggregate("A", format!("{node} {kind}"), Inbox::new());
        }
        nodes.push(many.start().await.unwrap());
    }
    for number in 0..20 {
        commit(&Outbox::writer_only(store.clone()), &Event::json("shipping", &number).unwrap())
            .await;
    }
    sleep(20 * MINUTE).await;
    assert_eq!(dead(&store), 0, "shipping is there, and its target is away");
    shipping.close().await;
    for node in nodes {
        node.close().await;
    }
}

/// Holds D6: it is due at once, for whoever has the handler.
#[tokio::test(start_paused = true)]
async fn an_event_that_another_node_handles_is_not_touched_by_the_one_that_wrote_it() {
    let (store, inbox) = (MemoryStore::new(), Inbox::stepping());
    let shipping = Outbox::builder(store.clone()).on("shipping", inbox.clone());
    let shipping = shipping.start().await.unwrap();
    let billing = billing(&store).await;
    sleep(5 * MINUTE).await;
    let id = commit(&billing, &Event::json("shipping", &1).unwrap()).await;
    sleep(Duration::from_millis(500)).await;
    let row = row(&store, id);
    assert!(row.waiting.for_handler.is_none(), "marked: {:?}", row.last_error);
    inbox.allow(1);
    shipping.close().await;
    billing.close().await;
}

/// Holds D6: by any policy.
#[tokio::test(start_paused = true)]
async fn a_node_that_ends_what_it_cannot_handle_spares_what_another_handles_whoever_wrote_it() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let shipping = Outbox::builder(store.clone()).on("shipping", inbox.clone());
    let shipping = shipping.start().await.unwrap();
    let handler = HandlerOptions { unroutable: Unroutable::Dead, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, ..OutboxOptions::default() };
    let billing = Outbox::builder(store.clone()).options(options).on("billing", Inbox::new());
    let billing = billing.start().await.unwrap();
    sleep(5 * MINUTE).await;
    commit(&Outbox::writer_only(store.clone()), &Event::json("shipping", &1).unwrap()).await;
    sleep(MINUTE).await;
    assert_eq!((inbox.received().len(), dead(&store)), (1, 0), "written elsewhere");
    commit(&billing, &Event::json("shipping", &2).unwrap()).await;
    sleep(MINUTE).await;
    assert_eq!((inbox.received().len(), dead(&store)), (2, 0), "written here");
    shipping.close().await;
    billing.close().await;
}

/// What it handles itself it does not leave to others.
#[tokio::test(start_paused = true)]
async fn a_node_claims_what_it_has_a_handler_for_however_many_it_has() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let other = Outbox::builder(store.clone()).on("shipping", Inbox::new()).start().await.unwrap();
    sleep(MINUTE).await;
    other.close().await;
    let mut many = Outbox::builder(store.clone());
    for kind in 0..1_000 {
        many = many.on_aggregate("x", format!("{kind}"), Inbox::new());
    }
    let many = many.on("shipping", inbox.clone()).start().await.unwrap();
    commit(&Outbox::writer_only(store.clone()), &Event::json("shipping", &1).unwrap()).await;
    sleep(5 * MINUTE).await;
    assert_eq!(inbox.received().len(), 1, "there is a handler, and nobody else");
    many.close().await;
}

/// What is remembered of kinds that nobody handles has a bound, and makes room.
#[tokio::test(start_paused = true)]
async fn kinds_of_long_ago_do_not_keep_a_new_one_from_being_left_out() {
    let store = Flaky::default();
    let node = Outbox::builder(store.clone()).on("billing", Inbox::new()).start().await.unwrap();
    let writer = Outbox::writer_only(store.table.clone());
    for kind in 0..1_000 {
        commit(&writer, &Event::json(format!("old {kind}"), &1).unwrap()).await;
    }
    sleep(60 * MINUTE).await;
    assert_eq!(dead(&store.table), 1_000, "nobody has a handler");
    for number in 0..200 {
        commit(&writer, &Event::json("new", &number).unwrap()).await;
    }
    let (_, before) = store.claims();
    sleep(5 * MINUTE).await;
    let (_, after) = store.claims();
    assert!(after - before < 200 * 12, "{} claimed in five minutes, of 200", after - before);
    node.close().await;
}

/// A node says what it handles once a minute, whatever its options are.
#[tokio::test(start_paused = true)]
async fn a_short_deferral_makes_no_flood_of_what_is_handled() {
    let (store, moment) = (Flaky::default(), Duration::from_millis(10));
    let unroutable = Unroutable::Defer { delay: moment, at_most: moment };
    let handler = HandlerOptions { unroutable, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, ..OutboxOptions::default() };
    let node = Outbox::builder(store.clone()).options(options).on("billing", Inbox::new());
    let node = node.start().await.unwrap();
    sleep(10 * Duration::from_secs(1)).await;
    let registers = store.registers();
    assert!(registers <= 100, "{registers} statements in ten seconds");
    node.close().await;
}

/// A node that is rung for in vain rests a little; others are rung for all the same.
#[tokio::test(start_paused = true)]
async fn a_node_that_is_rung_for_what_others_handle_does_not_claim_for_each_ring() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    store.set_round_trip(Duration::from_millis(1));
    let shipping = Outbox::builder(store.table.clone()).on("shipping", inbox.clone());
    let shipping = shipping.start().await.unwrap();
    let billing = billing(&store).await;
    let writer = Outbox::writer_only(store.table.clone());
    sleep(2 * MINUTE).await;
    let (before, _) = store.claims();
    for number in 0..1_000 {
        commit(&writer, &Event::json("shipping", &number).unwrap()).await;
        store.ring();
        sleep(Duration::from_millis(10)).await;
    }
    let (after, claimed) = store.claims();
    assert_eq!(claimed, 0, "they are left to the other");
    assert!(after - before <= 10 * 20, "{} claims in vain in ten seconds", after - before);
    shipping.close().await;
    billing.close().await;
}
