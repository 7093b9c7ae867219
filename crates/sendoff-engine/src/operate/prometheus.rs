//! A recorder on `prometheus-client`. The names, labels and units of what it registers are an interface:
//! the guide's page on operating lists them.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::{Family, MetricConstructor};
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::{Metric, Registry, Unit};
use sendoff_core::PauseScope;
use sendoff_core::journal::publish::PairId;

use super::labels::{EventTypes, Handlers, Labels, OTHER};
use super::metrics::{HandlerRun, Metrics};
use crate::source::LaneDepths;

/// Labels of a metric, by name.
type Named<const N: usize> = [(&'static str, String); N];
type Seconds = Gauge<f64, AtomicU64>;

/// Metrics in a registry of `prometheus-client`, which is the caller's. Cheap to clone; clones count
/// together.
///
/// Event types are labels, and so are pairs of a topic and a publisher: the first 200 of the one and
/// 1,000 of the other are told apart, and the rest is `other`.
///
/// ```
/// use std::sync::Arc;
/// use prometheus_client::encoding::text::encode;
/// use prometheus_client::registry::Registry;
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::relay::Relay;
/// use sendoff_engine::{HandlerResult, PrometheusMetrics};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let mut registry = Registry::default();
/// let metrics = PrometheusMetrics::register(&mut registry);
/// let relay = Relay::builder(MemoryStore::new())
///     .metrics(Arc::new(metrics))
///     .build(|_: sendoff_core::Delivery| async { HandlerResult::Ok(()) })?;
/// relay.process_once().await?;
///
/// // What a scrape gets.
/// let mut text = String::new();
/// encode(&mut text, &registry)?;
/// println!("{text}");
/// assert!(text.contains("sendoff_processed_total 0"));
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct PrometheusMetrics(Arc<Families>);

struct Families {
    written: Counter,
    hot_enqueued: Counter,
    hot_dropped: Counter,
    cold_enqueued: Counter,
    success: Counter,
    failure: Counter,
    dead: Counter,
    fenced: Counter,
    paused: Family<Named<2>, Gauge>,
    unreleased: Counter,
    lane_depth: Family<Named<1>, Gauge>,
    oldest_lag: Seconds,
    next_overdue: Seconds,
    parked_keys: Gauge,
    unavailable: Family<Named<1>, Gauge>,
    oldest_in_flight: Seconds,

    batch_duration: Histogram,
    processed: Counter,
    errors: Counter,
    retries: Counter,
    pending: Gauge,

    pairs_led: Gauge,
    pair_taken: Family<Named<2>, Counter>,
    pair_failovers: Family<Named<2>, Counter>,
    pair_released: Family<Named<2>, Counter>,
    pair_published: Family<Named<2>, Counter>,
    pair_errors: Family<Named<2>, Counter>,
    pair_parked: Family<Named<2>, Counter>,
    pair_fenced: Family<Named<2>, Counter>,
    pair_lag: Family<Named<2>, Gauge>,

    handler_duration: Family<Named<2>, Histogram, Buckets>,
    handler_attempts: Family<Named<2>, Histogram, Buckets>,

    event_types: EventTypes,
    handlers: Handlers,
    pairs: Labels<PairId, 1_000>,
}

/// Makes the histograms of a family.
#[derive(Clone, Copy)]
struct Buckets(&'static [f64]);

impl MetricConstructor<Histogram> for Buckets {
    fn new_metric(&self) -> Histogram {
        Histogram::new(self.0.iter().copied())
    }
}

/// From a handler that does nothing to one that uses up its five minutes.
const DURATIONS: Buckets = Buckets(&[
    0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
]);
const ATTEMPTS: Buckets = Buckets(&[1.0, 2.0, 3.0, 5.0, 10.0, 20.0, 50.0]);

impl PrometheusMetrics {
    /// Registers every family, each with the prefix `sendoff_`. Registered twice in one registry, they
    /// are there twice: for several nodes in one process take a clone, or a registry with a label.
    pub fn register(registry: &mut Registry) -> Self {
        let mut to = To(registry.sub_registry_with_prefix("sendoff"));
        let (batches, runs) = (DURATIONS.new_metric(), Family::new_with_constructor(DURATIONS));
        let attempts = Family::new_with_constructor(ATTEMPTS);
        Self(Arc::new(Families {
            written: to.add("written", "Events that were written"),
            hot_enqueued: to.add("hot_enqueued", "Events that entered the hot lane"),
            hot_dropped: to.add("hot_dropped", "Events left to the poller: the hot lane was full"),
            cold_enqueued: to.add("cold_enqueued", "Events that entered the cold lane"),
            success: to.add("success", "Runs of an outbox that succeeded"),
            failure: to.add("failure", "Runs of an outbox that failed"),
            dead: to.add("dead", "Events of outbox and relay that became DEAD"),
            fenced: to.add("fenced", "Settlements whose hold was no longer theirs"),
            paused: to.add("paused", "1 for whatever operators paused"),
            unreleased: to
                .add("unreleased", "Rows that could not be released before their hold ends"),
            lane_depth: to.add("lane_depth", "Events that wait in a lane"),
            oldest_lag: to
                .seconds("oldest_lag", "How long ago the oldest undelivered event became due"),
            next_overdue: to
                .seconds("next_overdue", "How long the next event has been due that nobody has"),
            parked_keys: to.add("parked_keys", "Keys that are parked behind a dead event"),
            unavailable: to.add("unavailable", "1 for a handler whose target is unavailable"),
            oldest_in_flight: to
                .seconds("oldest_in_flight", "How long the oldest event has been in work"),

            batch_duration: to.timed("batch_duration", "How long batches of a relay took", batches),
            processed: to.add("processed", "Events a relay delivered"),
            errors: to.add("errors", "Attempts, fetches and commits of a relay that failed"),
            retries: to.add("retries", "Events a relay will try again"),
            pending: to.add("pending", "Events that are pending, where a relay counts them"),

            pairs_led: to.add("pairs_led", "Pairs this node leads"),
            pair_taken: to.add("pair_taken", "Times this node began to lead a pair"),
            pair_failovers: to.add("pair_failovers", "Times it did because the leader was dead"),
            pair_released: to.add("pair_released", "Times this node ceased to lead a pair"),
            pair_published: to.add("pair_published", "Facts that were published"),
            pair_errors: to.add("pair_errors", "Batches and facts that could not be published"),
            pair_parked: to.add("pair_parked", "Facts that were parked"),
            pair_fenced: to
                .add("pair_fenced", "Cursors that were not moved: another leads the pair"),
            pair_lag: to
                .add("pair_lag", "Positions from a pair this node leads to the journal's end"),

            handler_duration: to.timed(
                "handler_duration",
                "How long handlers took for an event",
                runs,
            ),
            handler_attempts: to.registered("handler_attempts", "Which attempt it was", attempts),

            event_types: EventTypes::default(),
            handlers: Handlers::default(),
            pairs: Labels::default(),
        }))
    }

    /// The labels of a pair, unless there are too many.
    fn known(&self, pair: &PairId) -> Option<Named<2>> {
        let known = self.0.pairs.has(pair);
        known.then(|| labels(pair.topic(), pair.publisher()))
    }

    /// The labels of a pair for what can be added up.
    fn pair(&self, pair: &PairId) -> Named<2> {
        self.known(pair).unwrap_or_else(|| labels(OTHER, OTHER))
    }
}

fn labels(topic: &str, publisher: &str) -> Named<2> {
    [("topic", topic.to_owned()), ("publisher", publisher.to_owned())]
}

/// Where families are registered.
struct To<'r>(&'r mut Registry);

impl To<'_> {
    fn registered<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register(name, help, metric.clone());
        metric
    }

    fn timed<M: Metric + Clone>(&mut self, name: &str, help: &str, metric: M) -> M {
        self.0.register_with_unit(name, help, Unit::Seconds, metric.clone());
        metric
    }

    fn add<M: Metric + Clone + Default>(&mut self, name: &str, help: &str) -> M {
        self.registered(name, help, M::default())
    }

    fn seconds(&mut self, name: &str, help: &str) -> Seconds {
        self.timed(name, help, Seconds::default())
    }
}

/// A gauge's value; nothing we count reaches the end of it.
fn gauge(value: impl TryInto<i64>) -> i64 {
    value.try_into().unwrap_or(i64::MAX)
}

impl Metrics for PrometheusMetrics {
    fn handler_ran(&self, run: &HandlerRun<'_>) {
        let event_type = self.0.event_types.name(run.event_type).to_owned();
        let labels = [("event_type", event_type), ("outcome", run.outcome.as_str().to_owned())];
        self.0.handler_duration.get_or_create(&labels).observe(run.took.as_secs_f64());
        self.0.handler_attempts.get_or_create(&labels).observe(f64::from(run.attempt));
    }

    fn paused(&self, scopes: &[PauseScope]) {
        self.0.paused.clear();
        for scope in scopes {
            let (_, name) = scope.stored();
            let labels = [("scope", scope.kind().to_owned()), ("name", name.to_owned())];
            self.0.paused.get_or_create(&labels).set(1);
        }
    }

    fn dead(&self, count: u64) {
        self.0.dead.inc_by(count);
    }

    fn fenced(&self, count: u64) {
        self.0.fenced.inc_by(count);
    }

    fn written(&self, count: u64) {
        self.0.written.inc_by(count);
    }

    fn hot_enqueued(&self) {
        self.0.hot_enqueued.inc();
    }

    fn hot_dropped(&self) {
        self.0.hot_dropped.inc();
    }

    fn cold_enqueued(&self) {
        self.0.cold_enqueued.inc();
    }

    fn succeeded(&self) {
        self.0.success.inc();
    }

    fn failed(&self) {
        self.0.failure.inc();
    }

    fn unreleased(&self, count: u64) {
        self.0.unreleased.inc_by(count);
    }

    fn lane_depths(&self, depths: LaneDepths) {
        for (lane, depth) in [("hot", depths.hot), ("cold", depths.cold)] {
            self.0.lane_depth.get_or_create(&[("lane", lane.to_owned())]).set(gauge(depth));
        }
    }

    fn oldest_lag(&self, lag: Duration) {
        self.0.oldest_lag.set(lag.as_secs_f64());
    }

    fn next_overdue(&self, lag: Duration) {
        self.0.next_overdue.set(lag.as_secs_f64());
    }

    fn parked_keys(&self, keys: u64) {
        self.0.parked_keys.set(gauge(keys));
    }

    fn target_unavailable(&self, handler: &str, unavailable: bool) {
        let labels = [("handler", self.0.handlers.name(handler).to_owned())];
        self.0.unavailable.get_or_create(&labels).set(unavailable.into());
    }

    fn oldest_in_flight(&self, age: Duration) {
        self.0.oldest_in_flight.set(age.as_secs_f64());
    }

    fn batch_duration(&self, time: Duration) {
        self.0.batch_duration.observe(time.as_secs_f64());
    }

    fn processed(&self, count: u64) {
        self.0.processed.inc_by(count);
    }

    fn errors(&self, count: u64) {
        self.0.errors.inc_by(count);
    }

    fn retries(&self, count: u64) {
        self.0.retries.inc_by(count);
    }

    fn pending(&self, count: u64) {
        self.0.pending.set(gauge(count));
    }

    fn pairs_led(&self, pairs: usize) {
        self.0.pairs_led.set(gauge(pairs));
    }

    fn pair_taken(&self, pair: &PairId, failover: bool) {
        let labels = self.pair(pair);
        self.0.pair_taken.get_or_create(&labels).inc();
        self.0.pair_failovers.get_or_create(&labels).inc_by(u64::from(failover));
    }

    /// Its lag is gone with it: whoever leads it now says how large it is.
    fn pair_released(&self, pair: &PairId) {
        let labels = self.pair(pair);
        self.0.pair_released.get_or_create(&labels).inc();
        self.0.pair_lag.remove(&labels);
    }

    fn pair_published(&self, pair: &PairId, facts: usize) {
        self.0.pair_published.get_or_create(&self.pair(pair)).inc_by(facts as u64);
    }

    fn pair_failed(&self, pair: &PairId) {
        self.0.pair_errors.get_or_create(&self.pair(pair)).inc();
    }

    fn pair_parked(&self, pair: &PairId, facts: usize) {
        self.0.pair_parked.get_or_create(&self.pair(pair)).inc_by(facts as u64);
    }

    fn pair_fenced(&self, pair: &PairId) {
        self.0.pair_fenced.get_or_create(&self.pair(pair)).inc();
    }

    /// Of pairs beyond the bound it is not told: their lags have no sum that means something.
    fn pair_lag(&self, pair: &PairId, positions: u64) {
        if let Some(labels) = self.known(pair) {
            self.0.pair_lag.get_or_create(&labels).set(gauge(positions));
        }
    }
}

impl fmt::Debug for PrometheusMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PrometheusMetrics").finish_non_exhaustive()
    }
}
