//! What is measured, over every face: outbox, relay, topic worker and publishers.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Delivery, Event, Failure, Status};
use sendoff_engine::journal::publish::{PairOptions, Publishing, PublishingBuilder};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{Relay, RelayOptions, TopicWorker};
use sendoff_engine::sink::HandlerSink;
use sendoff_engine::{
    CountedRun, Counters, Handler, HandlerResult, HandlerRun, Metrics, Outbox, RunOutcome,
};
use sendoff_testkit::wait::within;
use tokio::time::sleep;

use super::{EVENT, SECOND, options};

/// A topic worker waits a minute before its second try.
const PLENTY: Duration = Duration::from_secs(600);

/// Takes a second, and succeeds at its second attempt.
async fn second_try(delivery: Delivery) -> HandlerResult {
    sleep(SECOND).await;
    match delivery.attempt {
        1 => Err(Failure::retry("not yet")),
        _ => Ok(()),
    }
}

async fn outbox(metrics: Arc<dyn Metrics>, handler: impl Handler) {
    let store = MemoryStore::new();
    let builder = Outbox::builder(store.clone()).options(options()).metrics(metrics);
    let outbox = builder.on(EVENT, handler).start().await.unwrap();
    super::commit(&outbox, &super::event()).await;
    delivered(&store).await;
    // The lag is measured now and then.
    sleep(2 * SECOND).await;
    outbox.close().await;
}

async fn delivered(store: &MemoryStore) {
    let done = async || store.rows().iter().all(|row| row.status == Status::Done);
    within(PLENTY, "the delivery", done).await;
}

async fn stored() -> MemoryStore {
    let store = MemoryStore::new();
    super::commit(&Outbox::writer_only(store.clone()), &super::event()).await;
    store
}

async fn relay(metrics: Arc<dyn Metrics>, handler: impl Handler) {
    let store = stored().await;
    let options = RelayOptions { pending_interval: Some(SECOND), ..RelayOptions::default() };
    let relay = Relay::builder(store.clone()).options(options).metrics(metrics);
    relay.build(handler).unwrap().run(delivered(&store)).await;
}

async fn topic_worker(metrics: Arc<dyn Metrics>, handler: impl Handler) {
    let store = stored().await;
    let worker = TopicWorker::builder(store.clone()).metrics(metrics).on(EVENT, handler);
    worker.build().unwrap().run(delivered(&store)).await;
}

async fn publisher(metrics: Arc<dyn Metrics>, handler: impl Handler) {
    let journal = Journal::new(MemoryJournal::new());
    let everything = Topic::builder("everything").build().unwrap();
    let sink = Arc::new(HandlerSink::new("target", handler));
    let node = Publishing::builder(&journal).metrics(metrics);
    publish_one(&journal, node.pair_with(&everything, sink, PairOptions::default())).await;
}

/// Has a node publish one fact.
pub(crate) async fn publish_one(
    journal: &Journal<MemoryJournal>,
    node: PublishingBuilder<MemoryJournal>,
) {
    let node = node.start().await.unwrap();
    journal.append([Fact::builder((EVENT, "{}"))]).await.unwrap();
    within(PLENTY, "a fact", async || node.statistics().published.events == 1).await;
    node.close().await;
}

fn tried_twice(counters: &Counters) {
    let runs = &counters.values().runs[EVENT];
    let run = |most_attempts| CountedRun { count: 1, took: SECOND, longest: SECOND, most_attempts };
    let told: Vec<_> = runs.iter().map(|(outcome, run)| (*outcome, *run)).collect();
    assert_eq!(told, [(RunOutcome::Done, run(2)), (RunOutcome::Retry, run(1))]);
}

/// Holds M5.
#[tokio::test(start_paused = true)]
async fn what_a_handler_takes_is_measured_on_every_way_out() {
    let counters: [Arc<Counters>; 4] = Default::default();
    let [first, second, third, fourth] = counters.clone();
    tokio::join!(
        outbox(first, second_try),
        relay(second, second_try),
        topic_worker(third, second_try),
        publisher(fourth, second_try),
    );
    counters.iter().for_each(|counters| tried_twice(counters));
}

/// Says that it is off, and is not asked for more.
struct Off;

impl Metrics for Off {
    fn enabled(&self) -> bool {
        false
    }

    fn handler_ran(&self, _: &HandlerRun<'_>) {
        unreachable!("metrics are off");
    }

    fn succeeded(&self) {
        unreachable!("metrics are off");
    }
}

struct Panics(AtomicUsize);

impl Metrics for Panics {
    fn handler_ran(&self, _: &HandlerRun<'_>) {
        self.0.fetch_add(1, Ordering::Relaxed);
        std::panic::panic_any("told to");
    }
}

/// Holds M1: what is off is not told anything. What panics is told again, and ends nothing.
#[tokio::test(start_paused = true)]
async fn metrics_that_are_off_are_left_alone_and_those_that_panic_end_nothing() {
    let panics = Arc::new(Panics(AtomicUsize::new(0)));
    for metrics in [Arc::new(Off) as Arc<dyn Metrics>, panics.clone()] {
        outbox(metrics.clone(), second_try).await;
        relay(metrics.clone(), second_try).await;
        publisher(metrics, second_try).await;
    }
    assert_eq!(panics.0.load(Ordering::Relaxed), 6);
}

#[tokio::test(start_paused = true)]
async fn event_types_beyond_a_bound_are_counted_together() {
    let (store, counters) = (MemoryStore::new(), Arc::new(Counters::default()));
    let writer = Outbox::writer_only(store.clone());
    for number in 0..250 {
        super::commit(&writer, &Event::json(format!("type.{number}"), &1).unwrap()).await;
    }
    let relay = Relay::builder(store.clone()).metrics(counters.clone());
    relay.build(|_| async { Ok(()) }).unwrap().run(delivered(&store)).await;
    let runs = counters.values().runs;
    assert_eq!((runs.len(), runs["other"][&RunOutcome::Done].count), (201, 50));
}

#[cfg(feature = "prometheus")]
mod prometheus {
    use std::collections::BTreeSet;

    use prometheus_client::encoding::text::encode;
    use prometheus_client::registry::Registry;
    use sendoff_core::journal::publish::PairId;
    use sendoff_engine::{LaneDepths, PrometheusMetrics};

    use super::*;

    const GUIDE: &str = include_str!("../../../../docs/guide/operating.md");

    fn scrape(registry: &Registry) -> String {
        let mut text = String::new();
        encode(&mut text, registry).unwrap();
        text
    }

    /// The names of everything that has a value.
    fn samples(text: &str) -> BTreeSet<&str> {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        lines.filter_map(|line| line.split(['{', ' ']).next()).collect()
    }

    /// The names in the guide's table.
    fn documented() -> BTreeSet<&'static str> {
        let rows = GUIDE.lines().filter_map(|line| line.strip_prefix("| `sendoff_"));
        rows.filter_map(|row| row.split('`').next()).collect()
    }

    /// Holds M1, M2, M5, J11.
    #[tokio::test(start_paused = true)]
    async fn a_scrape_finds_every_family_and_the_guide_names_them() {
        let mut registry = Registry::default();
        let metrics = Arc::new(PrometheusMetrics::register(&mut registry));
        outbox(metrics.clone(), second_try).await;
        relay(metrics.clone(), second_try).await;
        publisher(metrics.clone(), second_try).await;
        let closed = scrape(&registry);
        assert!(!closed.contains("sendoff_pair_lag{"), "whoever leads it now tells its lag");

        // What only happens where something is wrong.
        let pair = PairId::new("everything", "target").unwrap();
        metrics.pair_parked(&pair, 1);
        metrics.pair_fenced(&pair);
        metrics.pair_lag(&pair, 3);
        metrics.lane_depths(LaneDepths { hot: 1, cold: 2 });
        metrics.paused(&[sendoff_core::PauseScope::All]);
        metrics.target_unavailable("target", true);

        let text = scrape(&registry);
        let found = samples(&text);
        for family in documented() {
            let is = |suffix: &str| found.contains(&*format!("sendoff_{family}{suffix}"));
            assert!(is("") || is("_bucket"), "{family} has no value:\n{text}");
        }
        let families = text.lines().filter(|line| line.starts_with("# TYPE sendoff_")).count();
        assert_eq!(families, documented().len(), "the guide names every family:\n{text}");
        for line in [
            "sendoff_success_total 1",
            "sendoff_failure_total 1",
            "sendoff_processed_total 1",
            "sendoff_lane_depth{lane=\"cold\"} 2",
            "sendoff_pair_published_total{topic=\"everything\",publisher=\"target\"} 1",
            "sendoff_handler_duration_seconds_count{event_type=\"order.placed\",outcome=\"done\"} 3",
            "sendoff_handler_attempts_sum{event_type=\"order.placed\",outcome=\"done\"} 6.0",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }

    #[test]
    fn labels_are_bounded() {
        let mut registry = Registry::default();
        let metrics = PrometheusMetrics::register(&mut registry);
        for number in 0..1_100 {
            let pair = PairId::new("topic", format!("publisher.{number}")).unwrap();
            metrics.pair_taken(&pair, false);
            metrics.pair_lag(&pair, 1);
            metrics.pair_released(&pair);
            metrics.pair_lag(&pair, 1);
        }
        let text = scrape(&registry);
        let lines = |start: &str| text.lines().filter(|line| line.starts_with(start)).count();
        assert_eq!(
            (lines("sendoff_pair_taken_total{"), lines("sendoff_pair_lag{")),
            (1_001, 1_000)
        );
        assert!(text.contains("sendoff_pair_taken_total{topic=\"other\",publisher=\"other\"} 100"));
    }
}
