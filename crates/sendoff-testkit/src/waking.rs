//! How soon a node that sleeps begins with what somebody else wrote, and how quiet one is that has nothing
//! to do: on every store.
//!
//! Affects latency only (I7), so that nothing here is about what is delivered: the other suites are.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]
#![allow(clippy::print_stderr, reason = "figures are what a soak is for")]

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Delivery, Event, Sink};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{PublishStore, Publishing};
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, RelayStore, TopicWorker};
use sendoff_engine::sink::{BatchSink, StatisticsSink};
use sendoff_engine::{Handler, HandlerResult, Outbox};
use serde_json::json;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use tokio::time::{Instant, sleep, timeout};

use crate::soak;

/// A machine that is busy with other tests is given so much.
const PLENTY: Duration = Duration::from_secs(20);

/// From a commit to the moment that a handler or a publisher begins.
#[derive(Debug, Clone, Copy)]
pub struct Bounds {
    /// Half of them are as soon as that.
    pub median: Duration,
    /// All but one of a hundred.
    pub p99: Duration,
}

impl Bounds {
    /// Where nobody rings, and whoever claims looks.
    pub const LOOKS: Self =
        Self { median: Duration::from_millis(300), p99: Duration::from_millis(500) };
    /// Where nobody rings, and a publishing node sees the journal's end in its rounds.
    pub const ROUNDS: Self =
        Self { median: Duration::from_millis(750), p99: Duration::from_millis(1_000) };
    /// Where writers ring.
    pub const RINGS: Self =
        Self { median: Duration::from_millis(2), p99: Duration::from_millis(20) };

    /// What holds on a machine that is busy with other tests as well: a ring that is not heard at all
    /// would take longer.
    fn eased(self) -> Self {
        let eased =
            |bound: Duration, least| soak::lasting(bound.max(Duration::from_millis(least)), bound);
        Self { median: eased(self.median, 400), p99: eased(self.p99, 1_500) }
    }
}

/// When each arrived.
type Arrivals = UnboundedReceiver<Instant>;

/// Writes at moments of chance, one after the other, and measures how soon each is begun with.
async fn delays(
    what: &str,
    bounds: Bounds,
    events: u64,
    mut arrivals: Arrivals,
    mut write: impl AsyncFnMut(u64),
) {
    let mut random = soak::random(11);
    // The first finds a node that has just begun.
    write(0).await;
    timeout(PLENTY, arrivals.recv()).await.expect("the first one");
    let mut delays = Vec::new();
    for number in 1..=events {
        sleep(Duration::from_millis(random.u64(20..soak::amount(120, 700)))).await;
        write(number).await;
        let committed = Instant::now();
        let begun = timeout(PLENTY, arrivals.recv()).await.expect("it comes").unwrap();
        delays.push(begun.saturating_duration_since(committed));
    }
    delays.sort_unstable();
    let at = |percent: usize| delays[(delays.len() * percent).div_ceil(100) - 1];
    let (median, p99, longest) = (at(50), at(99), delays[delays.len() - 1]);
    eprintln!("{what}: p50 {median:?}, p99 {p99:?}, longest {longest:?} of {events}");
    let bounds = bounds.eased();
    assert!(median <= bounds.median, "{what}: p50 is {median:?}");
    assert!(p99 <= bounds.p99, "{what}: p99 is {p99:?}");
}

/// An outbox, a relay and a topic worker on a store of their own begin with what somebody else commits.
pub async fn nodes_are_woken<S: RelayStore + Clone>(
    store: S,
    bounds: Bounds,
    mut commit: impl AsyncFnMut(Event),
) {
    let mut write = async |n| commit(Event::json("waking", &n).unwrap()).await;
    let (handler, arrivals) = telling();
    let outbox = Outbox::builder(store.clone()).on("waking", handler).start().await.unwrap();
    delays("outbox", bounds, soak::amount(20, 300), arrivals, &mut write).await;
    outbox.close().await;
    // The same claims: a few of them show that somebody wakes these as well.
    let events = soak::amount(3, 100);
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let (handler, arrivals) = telling();
        let options = RelayOptions { mode, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options).build(handler).unwrap();
        let relay = relay.start().await.unwrap();
        delays(&format!("relay ({mode:?})"), bounds, events, arrivals, &mut write).await;
        relay.close().await;
    }
    let (handler, arrivals) = telling();
    let write = async |n: u64| commit(Event::json("waking", &json!({ "n": n })).unwrap()).await;
    let worker = TopicWorker::builder(store).on("waking", handler).build().unwrap();
    let worker = worker.start().await.unwrap();
    delays("topic worker", bounds, events, arrivals, write).await;
    worker.close().await;
}

/// A handler that tells when it began.
fn telling() -> (impl Handler, Arrivals) {
    let (tell, arrivals) = unbounded_channel();
    let handler = move |_: Delivery| {
        let _ = tell.send(Instant::now());
        async { HandlerResult::Ok(()) }
    };
    (handler, arrivals)
}

/// A publishing node begins with what another process appends.
pub async fn a_publisher_is_woken<S: PublishStore>(
    node: &Journal<S>,
    other: &Journal<S>,
    bounds: Bounds,
) {
    let (tell, arrivals) = unbounded_channel();
    let publisher = BatchSink::new("p", move |facts: Vec<Delivery>| {
        let now = Instant::now();
        facts.iter().for_each(|_| {
            let _ = tell.send(now);
        });
        async { Ok(()) }
    });
    let node = publishing(node, Arc::new(publisher)).await;
    delays("publisher", bounds, soak::amount(20, 300), arrivals, async |n: u64| {
        other.append([Fact::builder(("waking", &*n.to_string()))]).await.unwrap();
    })
    .await;
    node.close().await;
}

async fn publishing<S: PublishStore>(journal: &Journal<S>, sink: Arc<dyn Sink>) -> Publishing {
    let topic = |name: &str| Topic::builder(name).build().unwrap();
    let builder = Publishing::builder(journal).pair(&topic("first"), Arc::clone(&sink));
    builder.start().await.unwrap()
}

/// How often a second an idle node may ask its server for something.
#[derive(Debug, Clone, Copy)]
pub struct Quiet {
    /// An outbox, a relay, a topic worker.
    pub outbox: f64,
    /// A publishing node.
    pub publishing: f64,
}

/// By then what a node does at its start is over. A publishing node takes longer: its pairs look once a second at
/// first, and then less and less often.
const STARTED: Duration = Duration::from_secs(2);

/// Counts what a server is asked while nothing happens. `asked` says how often it was asked up to now, by
/// anybody: nobody else may use it.
async fn idle(what: &str, most: f64, settled: Duration, asked: &impl AsyncFn() -> u64) {
    sleep(settled).await;
    let (before, began) = (asked().await, Instant::now());
    sleep(soak::lasting(Duration::from_secs(5), Duration::from_secs(30))).await;
    // The counting is one of them.
    let asked = asked().await.saturating_sub(before + 1);
    let rate = asked as f64 / began.elapsed().as_secs_f64();
    eprintln!("idle {what}: asks {rate:.1} times a second");
    assert!(rate <= most, "an idle {what} asks {rate:.1} times a second");
}

/// What an idle outbox, relay and topic worker cost: each for itself in a soak, and all together every day.
pub async fn idle_nodes_are_quiet<S: RelayStore + Clone>(
    store: &S,
    quiet: Quiet,
    asked: impl AsyncFn() -> u64,
) {
    let handler = |_: Delivery| async { HandlerResult::Ok(()) };
    let outbox = async || {
        let outbox = Outbox::builder(store.clone()).on("waking", handler);
        outbox.start().await.unwrap()
    };
    let relay = async |mode| {
        let options = RelayOptions { mode, workers: 32, ..RelayOptions::default() };
        let relay = Relay::builder(store.clone()).options(options).build(handler).unwrap();
        relay.start().await.unwrap()
    };
    let worker = async || {
        let worker = TopicWorker::builder(store.clone()).on("waking", handler).build().unwrap();
        worker.start().await.unwrap()
    };
    if !soak::is_one() {
        let (outbox, worker) = (outbox().await, worker().await);
        let relays = [relay(ClaimMode::Held).await, relay(ClaimMode::Locked).await];
        idle("node of four", 4.0 * quiet.outbox, STARTED, &asked).await;
        outbox.close().await;
        for relay in relays.iter().chain([&worker]) {
            relay.close().await;
        }
        return;
    }
    let node = outbox().await;
    idle("outbox", quiet.outbox, STARTED, &asked).await;
    node.close().await;
    for mode in [ClaimMode::Held, ClaimMode::Locked] {
        let node = relay(mode).await;
        idle(&format!("relay ({mode:?})"), quiet.outbox, STARTED, &asked).await;
        node.close().await;
    }
    let node = worker().await;
    idle("topic worker", quiet.outbox, STARTED, &asked).await;
    node.close().await;
}

/// What an idle publishing node costs.
pub async fn an_idle_publisher_is_quiet<S: PublishStore>(
    journal: &Journal<S>,
    quiet: Quiet,
    asked: impl AsyncFn() -> u64,
) {
    let mut builder = Publishing::builder(journal);
    for name in ["first", "second", "third"] {
        let topic = Topic::builder(name).build().unwrap();
        builder = builder.pair(&topic, Arc::new(StatisticsSink::default()));
    }
    let node = builder.start().await.unwrap();
    journal.append([Fact::builder(("waking", "{}"))]).await.unwrap();
    idle("publishing node", quiet.publishing, 4 * STARTED, &asked).await;
    node.close().await;
}
