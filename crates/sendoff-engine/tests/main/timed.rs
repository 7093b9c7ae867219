//! A handler or a sink with a time limit of its own, whatever runs it.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::Fact;
use sendoff_core::{Delivery, Event, Status};
use sendoff_engine::journal::publish::{PairOptions, Publishing};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::sink::{BatchSink, HandlerSink};
use sendoff_engine::store::Row;
use sendoff_engine::{
    Handler, HandlerResult, Handlers, Outbox, RegisterError, RetryOptions, at_most, deadline,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::publish::{cursor, everything, journal};
use super::{EVENT, HANGS, SECOND, commit, fill, hang, options, slow};

const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

fn row_of(store: &MemoryStore, event_type: &str) -> Row {
    store.rows().into_iter().find(|row| row.event.event_type() == event_type).unwrap()
}

/// One event of a handler that hangs has failed after two seconds, and one of a handler that takes ten minutes, twice as
/// long as others may, was delivered.
async fn are_kept(store: &MemoryStore, begun: Instant, inbox: &Inbox) {
    let failed = async || row_of(store, HANGS).attempts == 1;
    within(10 * SECOND, "a failed attempt", failed).await;
    assert!((2 * SECOND..4 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let error = row_of(store, HANGS).last_error.unwrap();
    assert_eq!(error, "handler did not finish within 2s");
    let done = async || row_of(store, EVENT).status == Status::Done;
    within(700 * SECOND, "what takes long", done).await;
    assert!(begun.elapsed() > 600 * SECOND);
    assert_eq!((inbox.received().len(), row_of(store, EVENT).attempts), (1, 0));
}

/// Two handlers, each with a limit of its own.
fn handlers(inbox: &Inbox) -> Handlers {
    let mut handlers = Handlers::new();
    handlers.on(HANGS, deadline(2 * SECOND, hang)).unwrap();
    let long = at_most(std::num::NonZeroUsize::MIN, deadline(900 * SECOND, takes_long(inbox)));
    handlers.on(EVENT, long).unwrap();
    handlers
}

fn takes_long(inbox: &Inbox) -> impl Handler + Clone {
    slow(inbox, 600 * SECOND)
}

async fn filled() -> MemoryStore {
    let store = MemoryStore::new();
    fill(&store, HANGS, 1).await;
    fill(&store, EVENT, 1).await;
    store
}

#[tokio::test(start_paused = true)]
async fn an_outboxs_handler_has_its_own_time() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let outbox = Outbox::builder(store.clone()).options(options()).start().await.unwrap();
    outbox.register(handlers(&inbox)).unwrap();
    let begun = Instant::now();
    // Hot and cold.
    commit(&outbox, &Event::json(HANGS, &1).unwrap()).await;
    fill(&store, EVENT, 1).await;
    are_kept(&store, begun, &inbox).await;
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_relays_handler_has_its_own_time() {
    for mode in MODES {
        let (store, inbox) = (filled().await, Inbox::new());
        let options = RelayOptions { mode, batch: 1, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options).build_routed(handlers(&inbox));
        let (relay, begun) = (relay.unwrap(), Instant::now());
        let relaying = relay.start().await.unwrap();
        are_kept(&store, begun, &inbox).await;
        relaying.close().await;
    }
}

#[tokio::test(start_paused = true)]
async fn the_one_handler_of_a_relay_and_a_topics_have_their_own_time() {
    let failed = async |store: &MemoryStore, begun: Instant| {
        within(10 * SECOND, "a failed attempt", async || row_of(store, HANGS).attempts == 1).await;
        assert!((2 * SECOND..4 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    };
    let store = MemoryStore::new();
    fill(&store, HANGS, 1).await;
    let relay = Relay::builder(store.clone()).build(deadline(2 * SECOND, hang)).unwrap();
    let (relaying, begun) = (relay.start().await.unwrap(), Instant::now());
    failed(&store, begun).await;
    relaying.close().await;

    let store = MemoryStore::new();
    fill(&store, HANGS, 1).await;
    let worker = TopicWorker::builder(store.clone()).on(HANGS, deadline(2 * SECOND, hang));
    let (working, begun) = (worker.build().unwrap().start().await.unwrap(), Instant::now());
    failed(&store, begun).await;
    working.close().await;
}

#[tokio::test(start_paused = true)]
async fn a_publisher_has_its_own_time_for_a_batch() {
    let journal = journal();
    journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
    let retry =
        RetryOptions { base: 3_600 * SECOND, max: 3_600 * SECOND, ..RetryOptions::default() };
    let options = || PairOptions { retry, ..PairOptions::default() };
    let hangs = BatchSink::new("hangs", |_| std::future::pending());
    // Twice as long as others may take.
    let long = BatchSink::new("long", async |_| {
        sleep(60 * SECOND).await;
        Ok(())
    });
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), Arc::new(deadline(2 * SECOND, hangs)), options())
        .pair_with(&everything(), Arc::new(deadline(90 * SECOND, long)), options())
        .start()
        .await
        .unwrap();
    let begun = Instant::now();
    within(10 * SECOND, "a failure", async || cursor(&journal, "hangs").await.errors == 1).await;
    assert!((2 * SECOND..4 * SECOND).contains(&begun.elapsed()), "{:?}", begun.elapsed());
    let published = async || cursor(&journal, "long").await.position.get() == 1;
    within(70 * SECOND, "what takes long", published).await;
    assert!(begun.elapsed() > 59 * SECOND);
    assert_eq!(cursor(&journal, "long").await.errors, 0);
    node.close().await;
}

/// As the limit of all handlers is.
#[tokio::test]
async fn a_time_that_cannot_be_kept_is_refused_with_the_name_of_whose_it_is() {
    let most = sendoff_core::limits::DELAY;
    let moment = Duration::from_millis(1);
    for wrong in [Duration::ZERO, moment / 2, most + moment, Duration::MAX] {
        let timed = || deadline(wrong, hang);
        let sink = || deadline(wrong, HandlerSink::new("billing", hang));
        let said = format!("is {wrong:?}; it must be from 1ms to {most:?}");
        let of = |name: &str| format!("handler {name:?}.deadline {said}");

        let outbox = Outbox::builder(MemoryStore::new()).on(EVENT, timed()).start().await;
        assert_eq!(outbox.unwrap_err().to_string(), of(EVENT));
        let outbox = Outbox::builder(MemoryStore::new()).start().await.unwrap();
        let mut handlers = Handlers::new();
        handlers.on(EVENT, hang).unwrap().on_sink(HANGS, sink()).unwrap();
        let refused = outbox.register(handlers.clone()).unwrap_err();
        assert!(matches!(refused, RegisterError::Options(_)), "{refused:?}");
        assert_eq!(refused.to_string(), of("billing"));
        outbox.close().await;

        let relay = Relay::builder(MemoryStore::new());
        assert_eq!(relay.build(timed()).unwrap_err().to_string(), of("handler"));
        let relay = Relay::builder(MemoryStore::new());
        assert_eq!(relay.build_routed(handlers.clone()).unwrap_err().to_string(), of("billing"));
        let relay = Relay::builder(MemoryStore::new()).build_routed(Handlers::new()).unwrap();
        assert_eq!(relay.register(handlers.clone()).unwrap_err().to_string(), of("billing"));

        let worker = TopicWorker::builder(MemoryStore::new()).on(EVENT, timed()).build();
        assert_eq!(worker.unwrap_err().to_string(), of(EVENT));

        let publisher = Publishing::builder(&journal()).pair(&everything(), Arc::new(sink()));
        let refused = publisher.start().await.unwrap_err().to_string();
        assert_eq!(refused, format!("(everything:billing).deadline {said}"));
    }
    for right in [moment, most] {
        let handler = deadline(right, async |_: Delivery| HandlerResult::Ok(()));
        let outbox = Outbox::builder(MemoryStore::new()).on(EVENT, handler).start().await;
        outbox.unwrap().close().await;
    }
}
