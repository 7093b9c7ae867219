//! What an application says of failures, over every face: outbox, relay, topic worker and publishers.

use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::journal::Topic;
use sendoff_core::{Delivery, Failure, FailureClass, Status};
use sendoff_engine::journal::publish::{PairOptions, Publishing};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::relay::{Relay, RelayOptions, TopicWorker};
use sendoff_engine::sink::HandlerSink;
use sendoff_engine::{
    Counters, Handler, HandlerOptions, HandlerResult, Interceptor, Outbox, OutboxOptions,
    RunOutcome,
};
use sendoff_testkit::wait::within;

use super::metrics::publish_one;
use super::{EVENT, SECOND, options};

/// A topic worker waits a minute before its second try.
const PLENTY: Duration = Duration::from_secs(600);

/// What was seen of one face.
#[derive(Clone, Default)]
struct Seen {
    counters: Arc<Counters>,
    runs: Arc<AtomicUsize>,
    heard: Arc<Mutex<Vec<String>>>,
    around: Arc<AtomicUsize>,
}

impl Interceptor for Seen {
    fn before(&self, _: &Delivery) -> Result<(), Failure> {
        self.around.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

impl Seen {
    /// Hangs, then fails, then succeeds.
    fn handler(&self) -> impl Handler + use<> {
        let runs = self.runs.clone();
        move |_: Delivery| {
            let run = runs.fetch_add(1, Ordering::Relaxed);
            async move {
                match run {
                    0 => pending().await,
                    1 => Err(Failure::dead("no such host")),
                    _ => HandlerResult::Ok(()),
                }
            }
        }
    }

    fn hook(&self) -> impl Fn(&Delivery, &Failure) + use<> {
        let heard = self.heard.clone();
        move |_, failure| heard.lock().unwrap().push(failure.report())
    }

    fn is_as_it_should_be(&self) {
        let heard = self.heard.lock().unwrap();
        assert_eq!(*heard, ["handler did not finish within 1s", "no such host"]);
        assert_eq!(self.around.load(Ordering::Relaxed), 3);
        let runs = &self.counters.values().runs[EVENT];
        let told: Vec<_> = runs.iter().map(|(outcome, run)| (*outcome, run.count)).collect();
        let outcomes = [RunOutcome::Done, RunOutcome::Retry, RunOutcome::Unavailable];
        assert_eq!(told, outcomes.map(|outcome| (outcome, 1)));
    }
}

/// Sees event and failure: what would be dead is the target's fault.
fn classify(delivery: &Delivery, failure: &Failure) -> FailureClass {
    match (delivery.event_type(), failure.class()) {
        (EVENT, FailureClass::Dead) => FailureClass::Unavailable { delay: SECOND },
        (_, class) => class,
    }
}

fn limited() -> HandlerOptions {
    HandlerOptions { timeout: Some(SECOND), ..HandlerOptions::default() }
}

async fn stored() -> MemoryStore {
    let store = MemoryStore::new();
    super::commit(&Outbox::writer_only(store.clone()), &super::event()).await;
    store
}

async fn delivered(store: &MemoryStore) {
    let done = async || store.rows().iter().all(|row| row.status == Status::Done);
    within(PLENTY, "the delivery", done).await;
}

async fn outbox(seen: Seen) {
    let store = MemoryStore::new();
    let outbox = Outbox::builder(store.clone())
        .options(OutboxOptions { handler: limited(), ..options() })
        .metrics(seen.counters.clone())
        .classify(classify)
        .on_failure(seen.hook())
        .intercept(seen.clone())
        .on(EVENT, seen.handler());
    let outbox = outbox.start().await.unwrap();
    super::commit(&outbox, &super::event()).await;
    delivered(&store).await;
    outbox.close().await;
}

async fn relay(seen: Seen) {
    let store = stored().await;
    let relay = Relay::builder(store.clone())
        .options(RelayOptions { handler: limited(), ..RelayOptions::default() })
        .metrics(seen.counters.clone())
        .classify(classify)
        .on_failure(seen.hook())
        .intercept(seen.clone());
    relay.build(seen.handler()).unwrap().run(delivered(&store)).await;
}

async fn topic_worker(seen: Seen) {
    let store = stored().await;
    let worker = TopicWorker::builder(store.clone())
        .options(RelayOptions { handler: limited(), ..RelayOptions::for_topics() })
        .metrics(seen.counters.clone())
        .classify(classify)
        .on_failure(seen.hook())
        .intercept(seen.clone())
        .on(EVENT, seen.handler());
    worker.build().unwrap().run(delivered(&store)).await;
}

async fn publisher(seen: Seen) {
    let journal = Journal::new(MemoryJournal::new());
    let everything = Topic::builder("everything").build().unwrap();
    let sink = Arc::new(HandlerSink::new("target", seen.handler()));
    let options = PairOptions { publish_timeout: SECOND, ..PairOptions::default() };
    let node = Publishing::builder(&journal)
        .metrics(seen.counters.clone())
        .classify(classify)
        .on_failure(seen.hook())
        .intercept(seen.clone())
        .pair_with(&everything, sink, options);
    publish_one(&journal, node).await;
}

/// Holds L3.
#[tokio::test(start_paused = true)]
async fn every_worker_has_a_time_limit_a_classifier_a_failure_hook_and_interceptors() {
    let seen: [Seen; 4] = Default::default();
    let [first, second, third, fourth] = seen.clone();
    tokio::join!(outbox(first), relay(second), topic_worker(third), publisher(fourth));
    seen.iter().for_each(Seen::is_as_it_should_be);
}
