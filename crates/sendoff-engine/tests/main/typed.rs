//! Handlers that get the event already read, and what becomes of one that cannot be.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::{Arc, Mutex};

use sendoff_core::{
    Delivery, Event, EventId, GLOBAL_AGGREGATE, IntoEvent, InvalidEvent, Status, TypedEvent,
};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::TopicWorker;
use sendoff_engine::{
    EventHandler, HandlerResult, Outbox, Rate, at_most, blocking, deadline, paced,
};
use sendoff_testkit::wait::{eventually, within};
use serde::{Deserialize, Serialize};
use tokio::time::Instant;

use super::{SECOND, commit, options, row};

#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct OrderPlaced {
    order: u64,
    items: Vec<u32>,
}

impl TypedEvent for OrderPlaced {
    const EVENT_TYPE: &'static str = "order.placed";
    const AGGREGATE_TYPE: &'static str = "order";
}

impl IntoEvent for OrderPlaced {
    fn into_event(self) -> Result<Event, InvalidEvent> {
        Event::builder(Self::EVENT_TYPE).aggregate_type(Self::AGGREGATE_TYPE).json(&self).build()
    }
}

#[derive(Debug, Deserialize)]
#[allow(dead_code, reason = "only to be read")]
struct Paid {
    cents: u32,
}

impl TypedEvent for Paid {
    const EVENT_TYPE: &'static str = "paid";
    const AGGREGATE_TYPE: &'static str = GLOBAL_AGGREGATE;
}

/// What a handler was called with.
#[derive(Clone, Default)]
struct Calls(Arc<Mutex<Vec<(OrderPlaced, EventId)>>>);

impl EventHandler<OrderPlaced> for Calls {
    async fn handle(&self, placed: OrderPlaced, delivery: Delivery) -> HandlerResult {
        self.0.lock().unwrap().push((placed, delivery.id()));
        Ok(())
    }
}

/// As any other has.
#[tokio::test(start_paused = true)]
async fn a_handler_of_a_type_may_have_limits_of_its_own() {
    async fn hangs(_: OrderPlaced, _: Delivery) -> HandlerResult {
        std::future::pending().await
    }
    let rate = Rate::per_second(NonZeroU32::MAX);
    let limited = at_most(NonZeroUsize::MIN, paced(rate, deadline(2 * SECOND, hangs)));
    let builder = Outbox::builder(MemoryStore::new()).options(options());
    let outbox = builder.on_event::<OrderPlaced>(limited).start().await.unwrap();
    let begun = Instant::now();
    for order in 0..2 {
        let placed = OrderPlaced { order, items: Vec::new() };
        commit(&outbox, &placed.into_event().unwrap()).await;
    }
    let failed = || outbox.store().rows().iter().filter(|row| row.attempts > 0).count();
    within(10 * SECOND, "the first", async || failed() > 0).await;
    assert!((2 * SECOND..3 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    assert_eq!(failed(), 1, "one at a time");
    outbox.close().await;
}

/// Holds E7.
#[tokio::test]
async fn a_handler_of_a_type_gets_the_event_as_that_type() {
    async fn pay(_: Paid, _: Delivery) -> HandlerResult {
        Ok(())
    }
    let calls = Calls::default();
    let outbox = Outbox::builder(MemoryStore::new())
        .on_event::<OrderPlaced>(calls.clone())
        .on_event::<Paid>(pay)
        .start()
        .await
        .unwrap();
    let placed = OrderPlaced { order: 7, items: vec![1, 2] };
    let event = placed.clone().into_event().unwrap();
    let id = commit(&outbox, &event).await;
    eventually("the handler", async || row(outbox.store(), id).status == Status::Done).await;
    assert_eq!(*calls.0.lock().unwrap(), [(placed, id)]);
    outbox.close().await;
}

const CANARY: &str = "sing-no-song";

/// The same payload is misread by a handler of a type, by `?`, on a thread, and by a topic's handler.
#[tokio::test(start_paused = true)]
async fn a_payload_that_cannot_be_read_is_dead_at_once_and_says_where() {
    let unreadable = |event_type: &str, aggregate: &str| {
        let json = serde_json::json!({ "order": 7, "items": [1, CANARY] });
        Event::builder(event_type).aggregate_type(aggregate).json(&json).build().unwrap()
    };
    let (store, calls) = (MemoryStore::new(), Calls::default());
    let outbox = Outbox::builder(store.clone())
        .options(options())
        .on_event::<OrderPlaced>(calls.clone())
        .on("asks", |delivery: Delivery| async move {
            delivery.read_json::<OrderPlaced>()?;
            Ok(())
        })
        .on("blocks", blocking(|delivery| Ok(delivery.read_json::<OrderPlaced>().map(drop)?)))
        .start()
        .await
        .unwrap();
    for (event_type, aggregate) in
        [("order.placed", "order"), ("asks", GLOBAL_AGGREGATE), ("blocks", GLOBAL_AGGREGATE)]
    {
        commit(&outbox, &unreadable(event_type, aggregate)).await;
    }
    let over = async || store.rows().iter().all(|row| row.status.is_terminal());
    eventually("everything to end", over).await;
    outbox.close().await;

    commit(&Outbox::writer_only(store.clone()), &unreadable("order.placed", "order")).await;
    let worker = TopicWorker::builder(store.clone()).on_event::<OrderPlaced>(calls.clone());
    worker.build().unwrap().consume_one().await.unwrap().expect("an event is due");

    let rows = store.rows();
    assert_eq!(rows.len(), 4);
    for row in rows {
        let text = row.last_error.as_deref().unwrap_or_default();
        assert_eq!((row.status, row.attempts), (Status::Dead, 1), "{text}");
        assert!(text.contains("field `items[1]`, expected u32"), "{text}");
        assert!(!text.contains(CANARY), "{text}");
    }
    assert!(calls.0.lock().unwrap().is_empty(), "no handler saw it");
}
