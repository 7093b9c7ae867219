//! The cases. Each takes a fresh harness and one way to write.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

use std::sync::Arc;
use std::time::Duration;

use futures_util::future::try_join_all;
use sendoff_core::{AggregateType, Delivery, Event, EventId, EventType, Failure, Lane, Status};
use sendoff_engine::capture::{SendError, WriteError};
use sendoff_engine::store::{InspectStore, Row};
use sendoff_engine::{
    Awaited, CaughtUp, Counters, Outbox, OutboxBuilder, OutboxOptions, RetryOptions,
};

use super::{Application, End, Face, Inbox};
use crate::capture::{OutboxHarness, StoreOf};
use crate::history::{Expectations, History, check};
use crate::wait::eventually;

const EVENT: &str = "order.placed";

/// Quick where the defaults are patient.
fn options() -> OutboxOptions {
    OutboxOptions {
        poll_interval: Duration::from_millis(50),
        retry: RetryOptions { base: Duration::from_millis(1), ..RetryOptions::default() },
        hot_grace: Duration::from_secs(2),
        ..OutboxOptions::default()
    }
}

fn builder<H: OutboxHarness>(harness: &Application<H>, inbox: &Inbox) -> OutboxBuilder<StoreOf<H>> {
    Outbox::builder(harness.store()).options(options()).on(EVENT, inbox.clone())
}

fn events(count: u32) -> Vec<Event> {
    (0..count).map(|number| Event::json(EVENT, &number).unwrap()).collect()
}

fn ids(events: &[Event]) -> Vec<EventId> {
    events.iter().map(Event::id).collect()
}

async fn row<H: OutboxHarness>(harness: &Application<H>, id: EventId) -> Option<Row> {
    harness.store().find(id).await.unwrap()
}

async fn status<H: OutboxHarness>(harness: &Application<H>, id: EventId) -> Option<Status> {
    row(harness, id).await.map(|row| row.status)
}

async fn all_done<H: OutboxHarness>(harness: &Application<H>, ids: &[EventId]) {
    for &id in ids {
        let done = async || status(harness, id).await == Some(Status::Done);
        eventually("every event to be done", done).await;
    }
}

/// Acceptance: atomicity. Holds W3.
pub async fn atomicity<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let inbox = Inbox::new();
    let outbox = builder(harness, &inbox).start().await.unwrap();
    let (undone, done) = (events(2), events(1));
    harness.write(&outbox, face, &undone, End::RollBack).await;
    for event in &undone {
        assert!(row(harness, event.id()).await.is_none(), "a rolled-back event has no row");
    }
    harness.write(&outbox, face, &done, End::Commit).await;
    all_done(harness, &ids(&done)).await;
    assert_eq!(inbox.ids(), ids(&done), "and is never delivered");
    outbox.close().await;
}

/// Acceptance: commit and fast path. Holds W2, W3, D7, D11.
pub async fn commit_and_fast_path<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let inbox = Inbox::new();
    // Without a poller only the hot lane can have brought it.
    let options = OutboxOptions { poller_enabled: false, ..options() };
    let outbox = builder(harness, &inbox).options(options).start().await.unwrap();
    let events = events(1);
    harness.write(&outbox, face, &events, End::Commit).await;
    all_done(harness, &ids(&events)).await;
    assert_eq!(inbox.lanes(), [Lane::Hot]);
    let row = row(harness, events[0].id()).await.unwrap();
    assert_eq!((row.attempts, row.locked_by, row.done_at.is_some()), (0, None, true));
    outbox.close().await;
}

/// Acceptance: queue overflow downgrade. Holds W4, D1, D8.
pub async fn queue_overflow_downgrade<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let inbox = Inbox::stepping();
    let options = OutboxOptions { workers: 1, hot_capacity: 1, poller_enabled: false, ..options() };
    let outbox = builder(harness, &inbox).options(options).start().await.unwrap();
    let events = events(6);
    harness.write(&outbox, face, &events, End::Commit).await;
    // One runs and one waits at most; the others are visible again, for anybody.
    let due = async || {
        let mut given_up = 0;
        for event in &events {
            let row = row(harness, event.id()).await.unwrap();
            assert_eq!(row.status, Status::New, "the write succeeded all the same");
            given_up += usize::from(row.locked_by.is_none());
        }
        given_up >= 4
    };
    eventually("the overflow to be released", due).await;
    let poller = builder(harness, &inbox).start().await.unwrap();
    inbox.allow(100);
    all_done(harness, &ids(&events)).await;
    assert_eq!(inbox.ids(), ids(&events), "each exactly once");
    outbox.close().await;
    poller.close().await;
}

/// Acceptance: retry, then dead. Holds D7, S2.
pub async fn retry_then_dead<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let inbox = Inbox::stepping().failing();
    let options =
        OutboxOptions { retry: RetryOptions { max_attempts: 3, ..options().retry }, ..options() };
    let outbox = builder(harness, &inbox).options(options).start().await.unwrap();
    let events = events(1);
    harness.write(&outbox, face, &events, End::Commit).await;
    let id = events[0].id();
    for (attempts, expected) in [(1, Status::Retry), (2, Status::Retry), (3, Status::Dead)] {
        inbox.allow(1);
        let there = async || row(harness, id).await.unwrap().attempts == attempts;
        eventually("the attempt to be counted", there).await;
        let row = row(harness, id).await.unwrap();
        assert_eq!(row.status, expected);
        assert_eq!(row.last_error.as_deref(), Some("this inbox takes nothing"));
    }
    let attempts: Vec<_> = inbox.received().iter().map(|delivery| delivery.attempt).collect();
    assert_eq!(attempts, [1, 2, 3]);
    outbox.close().await;
}

enum UserEvents {
    UserCreated,
}

impl EventType for UserEvents {
    fn name(&self) -> &str {
        match self {
            Self::UserCreated => "UserCreated",
        }
    }
}

enum Aggregates {
    User,
}

impl AggregateType for Aggregates {
    fn name(&self) -> &str {
        match self {
            Self::User => "User",
        }
    }
}

/// Acceptance: type-safe event type. Holds E7.
pub async fn type_safe_event_type<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let inbox = Inbox::new();
    let outbox = Outbox::builder(harness.store())
        .options(options())
        .on(UserEvents::UserCreated, inbox.clone())
        .start()
        .await
        .unwrap();
    let event = Event::json(UserEvents::UserCreated, &1).unwrap();
    harness.write(&outbox, face, std::slice::from_ref(&event), End::Commit).await;
    inbox.has(1).await;
    assert_eq!(inbox.received()[0].event_type(), "UserCreated");
    outbox.close().await;
}

/// Acceptance: type-safe aggregate type. Holds E7, D5.
pub async fn type_safe_aggregate_type<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let (users, others) = (Inbox::new(), Inbox::new());
    let outbox = Outbox::builder(harness.store())
        .options(options())
        .on_aggregate(Aggregates::User, UserEvents::UserCreated, users.clone())
        .on(UserEvents::UserCreated, others.clone())
        .start()
        .await
        .unwrap();
    let event = Event::builder(UserEvents::UserCreated).aggregate(Aggregates::User, "7").json(&1);
    harness.write(&outbox, face, &[event.build().unwrap()], End::Commit).await;
    users.has(1).await;
    assert_eq!(users.received()[0].aggregate_type(), "User");
    assert!(others.received().is_empty());
    outbox.close().await;
}

/// Holds W5.
pub async fn write_all_keeps_order_and_returns_the_ids<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let inbox = Inbox::new();
    let options = OutboxOptions { workers: 1, ..options() };
    let outbox = builder(harness, &inbox).options(options).start().await.unwrap();
    let events = events(40);
    assert_eq!(harness.write(&outbox, face, &events, End::Commit).await, ids(&events));
    inbox.has(40).await;
    let order: Vec<u32> = inbox.received().iter().map(|d| d.read_json().unwrap()).collect();
    assert_eq!(order, (0..40).collect::<Vec<_>>());
    outbox.close().await;
}

/// Holds E6, E8, E10, D13: from memory and from the table.
pub async fn an_event_arrives_as_it_was_written<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let inbox = Inbox::new();
    // Under one key the second would have to wait for the first.
    let event = |key: &str| {
        Event::builder(EVENT)
            .aggregate("order", "4711")
            .tenant_id("acme")
            .ordering_key(key)
            .header("trace", "00-ab")
            .bytes(&b"\x00\xff{\"a\":1, \"a\":2}\n"[..])
            .content_type("application/x-odd")
            .build()
            .unwrap()
    };
    let (hot, cold) = (event("4711"), event("4712"));
    let writer = Outbox::writer_only(harness.store());
    harness.write(&writer, face, std::slice::from_ref(&cold), End::Commit).await;
    let outbox = Outbox::builder(harness.store())
        .options(options())
        .on_aggregate("order", EVENT, inbox.clone())
        .start()
        .await
        .unwrap();
    harness.write(&outbox, face, std::slice::from_ref(&hot), End::Commit).await;
    inbox.has(2).await;
    for delivery in inbox.received() {
        let written = if delivery.lane() == Some(Lane::Hot) { &hot } else { &cold };
        assert_eq!(&delivery.event, written, "{:?}", delivery.lane());
        assert_eq!(delivery.event.as_ref(), written.as_ref());
        assert_eq!(delivery.attempt, 1);
        let row = row(harness, written.id()).await.unwrap();
        assert_eq!(delivery.created_at, row.created_at);
    }
    let lanes = inbox.lanes();
    assert!(lanes.contains(&Lane::Hot) && lanes.contains(&Lane::Cold), "{lanes:?}");
    outbox.close().await;
}

/// Holds W7.
pub async fn writer_only_leaves_delivery_to_others<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let writer = Outbox::writer_only(harness.store());
    let events = events(3);
    harness.write(&writer, face, &events, End::Commit).await;
    let row = row(harness, events[0].id()).await.unwrap();
    assert_eq!((row.status, row.locked_by), (Status::New, None), "visible for every poller");
    let inbox = Inbox::new();
    let relay = builder(harness, &inbox).start().await.unwrap();
    all_done(harness, &ids(&events)).await;
    assert_eq!(inbox.lanes(), [Lane::Cold; 3]);
    relay.close().await;
}

/// Holds W10.
pub async fn a_process_that_only_writes_counts_what_it_writes<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let counters = Arc::new(Counters::default());
    let writer = Outbox::writer_measured(harness.store(), &options(), counters.clone());
    harness.write(&writer, face, &events(3), End::Commit).await;
    assert_eq!(counters.values().written, 3);
    if face == Face::Guard {
        harness.write(&writer, face, &events(2), End::RollBack).await;
        assert_eq!(counters.values().written, 3, "a guard knows what was rolled back");
    }
}

/// Holds W9, W10.
pub async fn one_call_sends_an_event_without_a_transaction<H: OutboxHarness>(
    harness: &Application<H>,
    _: Face,
) {
    let (inbox, counters) = (Inbox::new(), Arc::new(Counters::default()));
    // Without a poller only the hot lane can have brought them.
    let options = OutboxOptions { poller_enabled: false, ..options() };
    let builder = builder(harness, &inbox).metrics(counters.clone());
    let outbox = builder.options(options.clone()).start().await.unwrap();
    // At once: none may end up in the transaction of another.
    let sends = (0..10).map(|number| outbox.send(Event::json(EVENT, &number).unwrap()));
    let ids = try_join_all(sends).await.unwrap();
    all_done(harness, &ids).await;
    assert_eq!(inbox.lanes(), [Lane::Hot; 10]);
    outbox.close().await;

    let writer = Outbox::writer_measured(harness.store(), &options, counters.clone());
    let id = writer.send(Event::json(EVENT, &10).unwrap()).await.unwrap();
    let row = row(harness, id).await.unwrap();
    assert_eq!((row.status, row.locked_by), (Status::New, None), "committed, for every poller");
    assert_eq!(counters.values().written, 11);
}

/// Holds W9.
pub async fn what_cannot_be_sent_leaves_nothing_behind<H: OutboxHarness>(
    harness: &Application<H>,
    _: Face,
) {
    let writer = Outbox::writer_only(harness.store());
    let first = Event::json(EVENT, &1).unwrap();
    writer.send(first.clone()).await.unwrap();
    let again = writer.send(first.clone()).await.unwrap_err();
    assert!(matches!(again, SendError::Refused(WriteError::DuplicateId)), "{again:?}");
    let no_json = Event::json_text(EVENT, "{").unwrap();
    let refused = writer.send(no_json.clone()).await.unwrap_err();
    assert!(matches!(refused, SendError::Refused(WriteError::Invalid(_))), "{refused:?}");
    assert!(row(harness, no_json.id()).await.is_none());
    let next = writer.send(Event::json(EVENT, &2).unwrap()).await.unwrap();
    assert!(row(harness, next).await.is_some(), "what failed is in nobody's way");
}

/// Holds E12.
pub async fn a_delayed_event_skips_the_hot_lane<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let inbox = Inbox::new();
    let outbox = builder(harness, &inbox).start().await.unwrap();
    let delay = Duration::from_millis(300);
    let event = Event::builder(EVENT).delay(delay).json(&1).build().unwrap();
    harness.write(&outbox, face, std::slice::from_ref(&event), End::Commit).await;
    let row = row(harness, event.id()).await.unwrap();
    assert_eq!(row.due_at.since(row.created_at), delay);
    inbox.has(1).await;
    assert_eq!(inbox.lanes(), [Lane::Cold]);
    outbox.close().await;
}

/// Holds W3: the database is asked before anything leaves.
pub async fn a_receipt_released_after_a_rollback_delivers_nothing<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let inbox = Inbox::new();
    let outbox = builder(harness, &inbox).start().await.unwrap();
    for _ in 0..5 {
        harness.write(&outbox, face, &events(2), End::RollBack).await;
    }
    let last = events(1);
    harness.write(&outbox, face, &last, End::Commit).await;
    all_done(harness, &ids(&last)).await;
    assert_eq!(inbox.ids(), ids(&last));
    outbox.close().await;
}

/// Forgetting a receipt costs latency, never the event.
pub async fn a_forgotten_receipt_costs_latency_only<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    let inbox = Inbox::new();
    let options = OutboxOptions {
        hot_grace: Duration::from_millis(200),
        // A claim that is answered too late, on a busy machine, hides its rows for so long.
        hold: Duration::from_secs(2),
        ..options()
    };
    let outbox = builder(harness, &inbox).options(options).start().await.unwrap();
    let events = events(2);
    harness.write(&outbox, face, &events, End::Forget).await;
    all_done(harness, &ids(&events)).await;
    assert_eq!(inbox.lanes(), [Lane::Cold; 2]);
    let attempts: Vec<_> = inbox.received().iter().map(|delivery| delivery.attempt).collect();
    assert_eq!(attempts, [1, 1], "nobody tried before");
    outbox.close().await;
}

/// Two nodes, slow handlers, frequent polls: every event exactly once.
pub async fn no_duplicate_without_a_fault<H: OutboxHarness>(harness: &Application<H>, face: Face) {
    let history = History::new();
    let start = async |node: &'static str| {
        let history = history.clone();
        let handle = move |delivery: sendoff_core::Delivery| {
            let run = history.delivery_started(node, &delivery);
            async move {
                tokio::time::sleep(Duration::from_millis(3)).await;
                run.finished(true);
                Ok(())
            }
        };
        let options = OutboxOptions {
            hot_capacity: 20,
            cold_capacity: 50,
            poll_batch: 20,
            workers: 8,
            ..options()
        };
        Outbox::builder(harness.store()).options(options).on(EVENT, handle).start().await.unwrap()
    };
    let nodes = [start("a").await, start("b").await];
    let mut written = Vec::new();
    for round in 0..30 {
        let events = events(10);
        harness.write(&nodes[round % 2], face, &events, End::Commit).await;
        events.iter().for_each(|event| history.committed(event));
        written.extend(events);
    }
    all_done(harness, &ids(&written)).await;
    for node in &nodes {
        node.close().await;
    }
    for event in &written {
        let row = row(harness, event.id()).await.unwrap();
        history.stands(event.id(), row.status, row.attempts);
    }
    let expected = Expectations { healed: true, max_attempts: Some(10), ..Default::default() };
    let verdict = check(&history, &expected);
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!((verdict.delivered, verdict.runs, verdict.duplicates), (300, 300, 0), "{verdict}");
}

/// One node writes, another delivers: whoever waits on the first hears of it, one event or all of them.
pub async fn who_waits_on_another_node_hears_of_every_end<H: OutboxHarness>(
    harness: &Application<H>,
    face: Face,
) {
    const LONG: Duration = Duration::from_secs(60);
    let writer = Outbox::writer_only(harness.store());
    let (inbox, refused) = (Inbox::new(), Event::json("nobody.wants", &1).unwrap());
    let mut written = events(30);
    written.push(refused.clone());
    harness.write(&writer, face, &written, End::Commit).await;
    let late = writer.caught_up(Duration::from_millis(100)).await.unwrap();
    let CaughtUp::TimedOut { pending } = late else { panic!("nobody delivers yet") };
    assert_eq!(pending.len(), written.len());
    let wanted = |_: Delivery| async { Err(Failure::dead("nobody wants it")) };
    let node = builder(harness, &inbox).on("nobody.wants", wanted).start().await.unwrap();
    let ends = try_join_all(written.iter().map(|event| writer.delivered(event.id(), LONG))).await;
    let mut ends = ends.unwrap();
    assert_eq!(ends.pop(), Some(Awaited::Dead { error: "nobody wants it".into() }));
    assert!(ends.iter().all(Awaited::is_delivered), "{ends:?}");
    assert_eq!(writer.caught_up(LONG).await.unwrap(), CaughtUp::Yes);
    assert_eq!(inbox.ids().len(), 30);

    let more = events(200);
    harness.write(&writer, face, &more, End::Commit).await;
    let (here, there) = tokio::join!(node.caught_up(LONG), writer.caught_up(LONG));
    assert_eq!((here.unwrap(), there.unwrap()), (CaughtUp::Yes, CaughtUp::Yes));
    assert_eq!(inbox.ids().len(), 230, "each once");
    let undone = events(1);
    harness.write(&writer, face, &undone, End::RollBack).await;
    let unseen = writer.delivered(undone[0].id(), Duration::from_millis(100)).await.unwrap();
    assert_eq!(unseen, Awaited::NotSeen);
    node.close().await;
}
