//! Handlers for everything else, routes decided in code, and handlers that come and go while it runs.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::{
    AuditNote, Delivery, Event, PauseScope, Sink, Status, Unroutable, Verdict, async_trait,
};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, TopicWorker};
use sendoff_engine::store::{PauseStore, RegisterStore};
use sendoff_engine::{
    AnyHandler, Counters, Handler, HandlerOptions, HandlerResult, Handlers, Outbox, OutboxBuilder,
    OutboxOptions, RegisterError, Registration, StartError, at_most, deadline, fan_out,
};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::flaky::Flaky;
use super::{EVENT, HANGS, SECOND, commit, fill, hang, options, row, slow};

const OTHER: &str = "other";
const MINUTE: Duration = Duration::from_secs(60);
const MODES: [ClaimMode; 2] = [ClaimMode::Held, ClaimMode::Locked];

fn done(store: &MemoryStore) -> usize {
    store.rows().iter().filter(|row| row.status == Status::Done).count()
}

fn only(event_type: &'static str, handler: impl Handler) -> Handlers {
    let mut handlers = Handlers::new();
    handlers.on(event_type, handler).unwrap();
    handlers
}

/// A sink that says of itself what tells it apart.
struct Target(&'static str, usize);

#[async_trait]
impl Sink for Target {
    fn name(&self) -> &str {
        self.0
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        deliveries.iter().map(|_| Ok(())).collect()
    }

    fn identity(&self) -> Option<usize> {
        Some(self.1)
    }
}

/// A pause is by name: one whose target wants no more would stop the other.
#[tokio::test]
async fn two_sinks_with_targets_of_their_own_need_names_of_their_own() {
    let clones = |builder: OutboxBuilder<MemoryStore>| {
        let one = Arc::new(Target("hook", 1));
        let paced = deadline(MINUTE, at_most(NonZeroUsize::MIN, one.clone()));
        builder.on_sink("a", one).on_sink("b", paced).on_sink("c", Target("other", 2))
    };
    let outbox = clones(Outbox::builder(MemoryStore::new())).start().await.unwrap();
    let mut more = Handlers::new();
    more.on_sink("d", Target("hook", 2)).unwrap();
    let refused = outbox.register(more.clone()).unwrap_err().to_string();
    assert!(refused.starts_with("handler \"hook\": is the name of two sinks"), "{refused}");
    outbox.unregister(&Registration::of("a"));
    assert!(outbox.register(more.clone()).is_err(), "its clone is there");
    outbox.unregister(&Registration::of("b"));
    outbox.register(more).unwrap();
    outbox.close().await;

    let both = clones(Outbox::builder(MemoryStore::new())).on_sink("d", Target("hook", 2));
    assert!(matches!(both.start().await, Err(StartError::Options(_))));
    let mut both = Handlers::new();
    both.on_sink("a", Target("hook", 1)).unwrap().on_sink("b", Target("hook", 2)).unwrap();
    let relay = Relay::builder(MemoryStore::new()).build_routed(both);
    assert_eq!(relay.unwrap_err().path(), "handler \"hook\"");
}

/// From a region, which only its headers say.
fn from(region: &str) -> Event {
    Event::builder(EVENT).header("region", region).json(&1).build().unwrap()
}

fn by_region(event: &Event) -> Option<&'static str> {
    match event.headers().get("region") {
        Some("eu") => Some("europe"),
        Some("us") => Some("america"),
        _ => None,
    }
}

/// Holds D15: by both lanes.
#[tokio::test(start_paused = true)]
async fn what_no_other_takes_goes_to_the_handler_of_everything_else() {
    let (store, inbox, rest) = (MemoryStore::new(), Inbox::new(), Inbox::new());
    fill(&store, OTHER, 3).await;
    fill(&store, EVENT, 2).await;
    let outbox = Outbox::builder(store.clone()).options(options());
    let outbox = outbox.on(EVENT, inbox.clone()).on_any(rest.clone()).start().await.unwrap();
    commit(&outbox, &Event::json("third", &1).unwrap()).await;
    within(MINUTE, "all", async || done(&store) == 6).await;
    assert_eq!((inbox.received().len(), rest.received().len()), (2, 4));
    let registered = store.register(&[], MINUTE).await.unwrap();
    assert!(
        registered.contains(&(String::new(), String::new())),
        "others are told: {registered:?}"
    );
    outbox.close().await;
}

/// Holds D15, D8: nothing is claimed again and again for a handler of everything else that hangs.
#[tokio::test(start_paused = true)]
async fn a_handler_of_everything_else_that_hangs_keeps_no_other_waiting() {
    let (store, inbox) = (Flaky::default(), Inbox::new());
    fill(&store.table, HANGS, 2_000).await;
    fill(&store.table, EVENT, 400).await;
    let handler = HandlerOptions { timeout: None, ..HandlerOptions::default() };
    let options = OutboxOptions { handler, ..options() };
    let outbox = Outbox::builder(store.clone()).options(options);
    let outbox = outbox.on(EVENT, inbox.clone()).on_any(hang).start().await.unwrap();
    within(2 * MINUTE, "the others", async || done(&store.table) == 400).await;
    let (_, before) = store.claims();
    sleep(MINUTE).await;
    let (_, after) = store.claims();
    assert!(after - before < 50, "{} rows were claimed in vain", after - before);
    outbox.close().await;
}

/// Holds D15, D8: the same in a relay.
#[tokio::test(start_paused = true)]
async fn nor_does_one_of_a_relay() {
    for mode in MODES {
        let (store, inbox) = (Flaky::default(), Inbox::new());
        fill(&store.table, HANGS, 500).await;
        fill(&store.table, EVENT, 400).await;
        let handler = HandlerOptions { timeout: None, ..HandlerOptions::default() };
        let options = RelayOptions { mode, handler, ..RelayOptions::default() };
        let mut handlers = only(EVENT, inbox.clone());
        handlers.on_any(hang).unwrap();
        let relay = Relay::builder(store.clone()).options(options).build_routed(handlers).unwrap();
        let story = async {
            within(5 * MINUTE, "the others", async || done(&store.table) == 400).await;
        };
        relay.run(story).await;
    }
}

/// Holds D15.
#[tokio::test(start_paused = true)]
async fn a_function_decides_by_headers_who_handles_an_event() {
    let (store, europe, america, rest) =
        (MemoryStore::new(), Inbox::new(), Inbox::new(), Inbox::new());
    let outbox = Outbox::builder(store.clone())
        .options(options())
        .on_named("europe", europe.clone())
        .on_named("america", america.clone())
        .on(EVENT, rest.clone())
        .route(by_region);
    let outbox = outbox.start().await.unwrap();
    for region in ["eu", "us", "eu", "asia"] {
        commit(&outbox, &from(region)).await;
    }
    within(MINUTE, "all", async || done(&store) == 4).await;
    let received = [&europe, &america, &rest].map(|inbox| inbox.received().len());
    assert_eq!(received, [2, 1, 1]);
    outbox.close().await;
}

/// Holds D15: relay and topic worker.
#[tokio::test(start_paused = true)]
async fn so_it_does_in_relays_and_topic_workers() {
    let store = MemoryStore::new();
    let writer = Outbox::writer_only(store.clone());
    let (europe, america, rest) = (Inbox::new(), Inbox::new(), Inbox::new());
    let mut handlers = Handlers::new();
    handlers.on_named("europe", europe.clone()).unwrap();
    handlers.on_named("america", america.clone()).unwrap();
    handlers.on_any(rest.clone()).unwrap().route(by_region);
    let relay = Relay::builder(store.clone()).build_routed(handlers).unwrap();
    let worker = TopicWorker::builder(store.clone())
        .on_named("europe", europe.clone())
        .on_named("america", america.clone())
        .on_any(rest.clone())
        .route(by_region)
        .build()
        .unwrap();
    for region in ["eu", "us", "asia"] {
        commit(&writer, &from(region)).await;
    }
    relay.run(within(MINUTE, "the first", async || done(&store) == 3)).await;
    for region in ["eu", "us", "asia"] {
        commit(&writer, &from(region)).await;
    }
    worker.run(within(MINUTE, "the rest", async || done(&store) == 6)).await;
    let received = [&europe, &america, &rest].map(|inbox| inbox.received().len());
    assert_eq!(received, [2, 2, 2]);
}

/// Holds D15: what was put off meanwhile flows soon after.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_registered_while_it_runs_gets_what_waited_for_it() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let outbox = Outbox::builder(store.clone()).options(options()).on(EVENT, Inbox::new());
    let outbox = outbox.start().await.unwrap();
    let id = commit(&outbox, &Event::json(OTHER, &1).unwrap()).await;
    let put_off = async || row(&store, id).last_error.is_some();
    within(MINUTE, "it to be put off", put_off).await;
    // Left out of claims by now.
    sleep(30 * SECOND).await;
    outbox.register(only(OTHER, inbox.clone())).unwrap();
    let began = Instant::now();
    within(MINUTE, "it", async || done(&store) == 1).await;
    assert!(began.elapsed() <= 5 * SECOND, "after {:?}", began.elapsed());
    commit(&outbox, &Event::json(OTHER, &2).unwrap()).await;
    within(MINUTE, "the next", async || inbox.received().len() == 2).await;
    let again = outbox.register(only(OTHER, inbox.clone())).unwrap_err();
    assert!(matches!(again, RegisterError::Duplicate(_)));
    let registered = store.register(&[], MINUTE).await.unwrap();
    assert!(registered.iter().any(|(_, of)| of == OTHER), "others are told");
    outbox.close().await;
}

/// Holds D15.
#[tokio::test(start_paused = true)]
async fn so_it_does_in_relays_and_topic_workers_that_run() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let relay = Relay::builder(store.clone()).build_routed(only(EVENT, Inbox::new())).unwrap();
    let relaying = relay.start().await.unwrap();
    fill(&store, OTHER, 5).await;
    sleep(30 * SECOND).await;
    assert_eq!(done(&store), 0);
    relay.register(only(OTHER, inbox.clone())).unwrap();
    within(10 * SECOND, "them", async || done(&store) == 5).await;
    relaying.close().await;

    let worker = TopicWorker::builder(store.clone())
        .unroutable(Unroutable::default())
        .on(EVENT, Inbox::new())
        .build()
        .unwrap();
    let working = worker.start().await.unwrap();
    fill(&store, "third", 5).await;
    sleep(30 * SECOND).await;
    worker.register(only("third", inbox.clone())).unwrap();
    within(10 * SECOND, "them", async || done(&store) == 10).await;
    assert!(worker.unregister(&Registration::of("third")));
    working.close().await;

    let one = Relay::builder(store).build(inbox.clone()).unwrap();
    assert_eq!(one.register(only(OTHER, inbox)), Err(RegisterError::OneForAll));
}

/// Holds D15: its run ends as it would have; what waits for it waits for whoever handles it next.
#[tokio::test(start_paused = true)]
async fn a_handler_that_is_removed_ends_its_runs_and_gets_no_more() {
    let (store, inbox, next) = (MemoryStore::new(), Inbox::new(), Inbox::new());
    let limits = OutboxOptions { workers: 1, ..options() };
    let outbox = Outbox::builder(store.clone()).options(limits);
    let outbox = outbox.on(EVENT, slow(&inbox, 10 * SECOND)).on(OTHER, Inbox::new());
    let outbox = outbox.start().await.unwrap();
    for number in 0..5 {
        commit(&outbox, &Event::json(EVENT, &number).unwrap()).await;
    }
    sleep(SECOND).await;
    assert!(outbox.unregister(&Registration::of(EVENT)));
    assert!(!outbox.unregister(&Registration::of(EVENT)), "gone already");
    sleep(MINUTE).await;
    assert_eq!((inbox.received().len(), done(&store)), (1, 1), "the run that went on");
    assert!(store.rows().iter().all(|row| row.attempts == 0 && row.status != Status::Dead));
    outbox.register(only(EVENT, next.clone())).unwrap();
    within(MINUTE, "the rest", async || done(&store) == 5).await;
    assert_eq!((inbox.received().len(), next.received().len()), (1, 4));
    outbox.close().await;
}

/// Holds D15: a handler that comes while it is paused by name stays paused.
#[tokio::test(start_paused = true)]
async fn one_that_comes_while_its_name_is_paused_waits() {
    let (store, inbox) = (MemoryStore::new(), Inbox::new());
    let note = AuditNote::new("me", "a test").unwrap();
    let scope = PauseScope::handler("europe").unwrap();
    store.pause(&scope, &note).await.unwrap();
    let outbox = Outbox::builder(store.clone()).options(options()).start().await.unwrap();
    let mut more = Handlers::new();
    more.on_named("europe", inbox.clone()).unwrap().route(by_region);
    outbox.register(more).unwrap();
    commit(&outbox, &from("eu")).await;
    sleep(MINUTE).await;
    assert!(inbox.received().is_empty());
    store.resume(&scope, &note).await.unwrap();
    within(MINUTE, "it", async || done(&store) == 1).await;
    outbox.close().await;
}

/// Holds D15.
#[tokio::test]
async fn who_only_writes_has_no_handlers() {
    let writer = Outbox::writer_only(MemoryStore::new());
    let refused = writer.register(only(EVENT, Inbox::new()));
    assert_eq!(refused, Err(RegisterError::OnlyWrites));
    assert!(!writer.unregister(&Registration::of(EVENT)));
}

/// Holds D13: through an outbox, one attempt for all.
#[tokio::test(start_paused = true)]
async fn an_event_with_several_handlers_is_done_when_all_are() {
    let (store, inbox, counters) =
        (MemoryStore::new(), Inbox::new(), Arc::new(Counters::default()));
    let runs = Arc::new(AtomicUsize::new(0));
    let count = runs.clone();
    let second = move |_: Delivery| {
        let run = count.fetch_add(1, Ordering::Relaxed);
        async move { if run < 2 { Err("not yet".into()) } else { HandlerResult::Ok(()) } }
    };
    let both =
        fan_out([("first", AnyHandler::new(inbox.clone())), ("second", AnyHandler::new(second))]);
    let outbox = Outbox::builder(store.clone()).options(options()).metrics(counters.clone());
    let outbox = outbox.on(EVENT, both).start().await.unwrap();
    let id = commit(&outbox, &super::event()).await;
    within(MINUTE, "it", async || done(&store) == 1).await;
    assert_eq!((inbox.received().len(), runs.load(Ordering::Relaxed)), (1, 3));
    assert_eq!((row(&store, id).attempts, counters.values().failed), (2, 2));
    outbox.close().await;
}
