//! Events are written in a trace of the application's, and delivered in a span of it.

use std::sync::{Arc, Mutex};

use sendoff_core::journal::Topic;
use sendoff_core::trace::TraceContext;
use sendoff_core::{Delivery, Event, Status, limits};
use sendoff_engine::journal::publish::{PairOptions, Publishing};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::sink::HandlerSink;
use sendoff_engine::{HandlerResult, Outbox, Tracer};
use sendoff_testkit::logs::Lines;
use sendoff_testkit::wait::within;
use tracing::{Level, Span, info_span};

use super::metrics::publish_one;
use super::{EVENT, SECOND, commit, event, options, row};

const OURS: &str = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
const THEIRS: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Always in one trace, and remembers what it was asked to deliver.
#[derive(Clone, Default)]
struct Recorder(Arc<Mutex<Vec<String>>>);

impl Recorder {
    fn seen(&self) -> Vec<String> {
        self.0.lock().unwrap().clone()
    }
}

impl Tracer for Recorder {
    fn current(&self) -> Option<TraceContext> {
        Some(TraceContext { parent: OURS.parse().unwrap(), state: Some("shop=7".parse().unwrap()) })
    }

    fn span(&self, deliveries: &[Delivery]) -> Span {
        let trace = deliveries[0].trace().unwrap().parent.to_string();
        self.0.lock().unwrap().push(trace.clone());
        info_span!("delivery", trace)
    }
}

/// Says in which trace it runs, as the subscriber has it.
async fn speak(_: Delivery) -> HandlerResult {
    tracing::info!("handled");
    Ok(())
}

#[tokio::test(start_paused = true)]
async fn an_event_keeps_the_trace_it_was_written_in_and_is_delivered_in_its_span() {
    let ((logs, _guard), recorder) = (Lines::keep(Level::INFO), Recorder::default());
    let outbox = Outbox::builder(MemoryStore::new()).options(options()).trace(recorder.clone());
    let outbox = outbox.on(EVENT, speak).start().await.unwrap();
    let id = commit(&outbox, &event()).await;
    let theirs = Event::builder(EVENT).header("traceparent", THEIRS).bytes("1").build().unwrap();
    let other = commit(&outbox, &theirs).await;
    for id in [id, other] {
        within(SECOND, "it is delivered", async || row(outbox.store(), id).status == Status::Done)
            .await;
    }
    assert_eq!(recorder.seen(), [OURS, THEIRS], "its own trace stays");
    let stored = row(outbox.store(), id).event;
    assert_eq!(stored.headers().get("traceparent"), Some(OURS));
    assert_eq!(stored.headers().get("tracestate"), Some("shop=7"));
    assert_eq!(row(outbox.store(), other).event.headers().get("tracestate"), None);
    let handled = logs.with("\"handled\"");
    assert!(handled[0].contains(OURS) && handled[1].contains(THEIRS), "{handled:?}");
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn whoever_only_writes_is_traced_too_and_so_is_what_comes_from_the_table() {
    let (store, recorder) = (MemoryStore::new(), Recorder::default());
    let writer = Outbox::builder(store.clone()).trace(recorder.clone()).writer();
    let id = commit(&writer, &event()).await;
    let outbox = Outbox::builder(store.clone()).options(options()).trace(recorder.clone());
    let outbox = outbox.on(EVENT, speak).start().await.unwrap();
    within(2 * SECOND, "it is delivered", async || row(&store, id).status == Status::Done).await;
    assert_eq!(recorder.seen(), [OURS]);
    outbox.close().await;
}

#[tokio::test(start_paused = true)]
async fn facts_are_written_and_published_in_traces() {
    let recorder = Recorder::default();
    let journal = Journal::traced(MemoryJournal::new(), recorder.clone());
    let everything = Topic::builder("everything").build().unwrap();
    let sink = Arc::new(HandlerSink::new("speak", speak));
    let node = Publishing::builder(&journal).trace(recorder.clone());
    publish_one(&journal, node.pair_with(&everything, sink, PairOptions::default())).await;
    assert_eq!(recorder.seen(), [OURS]);
}

/// Panics, whatever it is asked.
struct Broken;

impl Tracer for Broken {
    fn current(&self) -> Option<TraceContext> {
        panic!("no trace")
    }

    fn span(&self, _: &[Delivery]) -> Span {
        panic!("no span")
    }
}

/// Holds I12.
#[tokio::test(start_paused = true)]
async fn a_tracer_that_panics_loses_the_trace_and_nothing_else() {
    let (logs, _guard) = Lines::keep(Level::WARN);
    let outbox = Outbox::builder(MemoryStore::new()).options(options()).trace(Broken);
    let outbox = outbox.on(EVENT, speak).start().await.unwrap();
    let id = commit(&outbox, &event()).await;
    within(SECOND, "it is delivered", async || row(outbox.store(), id).status == Status::Done)
        .await;
    assert_eq!(row(outbox.store(), id).attempts, 0);
    let said = logs.with("the tracer failed");
    assert_eq!(said.len(), 2, "once where it was written, once where it was delivered");
    outbox.close().await;
}

/// As much as a trace may say, and more than that.
struct Talkative(usize);

impl Tracer for Talkative {
    fn current(&self) -> Option<TraceContext> {
        let state = ",".repeat(self.0).parse().ok();
        Some(TraceContext { parent: OURS.parse().unwrap(), state })
    }
}

/// Holds I5: what is written has the limits of every event; of a trace that does not fit the event is left.
#[tokio::test(start_paused = true)]
async fn a_trace_passes_no_limit_of_headers() {
    let full = (0..limits::HEADERS)
        .fold(Event::builder(EVENT), |event, number| event.header(format!("h{number}"), "v"));
    let full = full.bytes("1").build().unwrap();
    let large = Event::builder(EVENT).header("h", "v".repeat(limits::HEADER_BYTES - 100));
    let large = large.bytes("1").build().unwrap();
    for (event, state, traced) in [
        (&full, 0, None),
        (&large, 10, Some(OURS)),
        (&large, 1_000, Some(OURS)),
        (&event(), limits::HEADER_BYTES, Some(OURS)),
    ] {
        let writer = Outbox::builder(MemoryStore::new()).trace(Talkative(state)).writer();
        let id = commit(&writer, event).await;
        let stored = row(writer.store(), id).event;
        let headers = stored.headers();
        let bytes: usize = headers.iter().map(|(name, value)| name.len() + value.len()).sum();
        assert!(headers.len() <= limits::HEADERS && bytes <= limits::HEADER_BYTES, "{bytes} bytes");
        assert_eq!(headers.get("traceparent"), traced, "{state}");
    }
}
