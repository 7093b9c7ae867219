//! The relay: workers that take batches, deliver them and commit what became of them.

use std::fmt;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, EventId, Failure, FailureClass, RetryPolicy, Sink, report};
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep, timeout};
use tokio_util::sync::CancellationToken;
use tracing::{Instrument, debug, error, info_span, warn};

use super::batch::{BatchReport, Source};
use super::consumer::{Consumer, RelayStore};
use super::options::RelayOptions;
use crate::dispatch::{Due, FollowUp, Handlers, Nobody, Restarts, supervise, unroutable};
use crate::lock::lock;
use crate::operate::{Metrics, NoMetrics, Observer};
use crate::options::OptionsError;
use crate::sink::{
    Door, Handler, HandlerSink, Interceptor, Interceptors, discard, error_text, shielded,
};
use crate::source::{Alarm, HeldRows, Locked};
use crate::store::{Outcome, StoreError};
use crate::told::told;

/// Who handles an event.
pub(super) type Route = Arc<dyn Fn(&Delivery) -> Option<Arc<dyn Sink>> + Send + Sync>;
type Classify = Arc<dyn Fn(&Failure) -> FailureClass + Send + Sync>;
type Hook = Arc<dyn Fn(&Delivery, &Failure) + Send + Sync>;

/// Fetches batches and runs a handler for each event. Cheap to clone; clones are one relay.
///
/// An error of the database never ends a worker: it waits, for longer each time, and goes on. A
/// handler that fails or panics costs its event one attempt, and nobody else anything.
///
/// ```
/// use sendoff_core::Delivery;
/// use sendoff_engine::HandlerResult;
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::relay::Relay;
///
/// async fn publish(delivery: Delivery) -> HandlerResult {
///     println!("{} {}", delivery.id(), delivery.event_type());
///     Ok(())
/// }
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let relay = Relay::builder(MemoryStore::new()).build(publish)?;
/// relay.run(async { /* for example a signal */ }).await;
/// assert_eq!(relay.process_once().await?, None, "nothing is due");
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Relay(Arc<Inner>);

struct Inner {
    consumer: Consumer,
    route: Route,
    /// Where every event goes, if there is one such place.
    only: Option<Arc<dyn Sink>>,
    door: Door,
    classify: Option<Classify>,
    hook: Option<Hook>,
    observer: Observer,
    restarts: Restarts,
    alarm: Alarm,
    /// Whether writers were told to ring.
    armed: AtomicBool,
    pending_at: Mutex<Option<Instant>>,
}

/// The parts of a batch that its delivery is about.
struct Work<'b> {
    records: &'b [Due],
    hold: Hold<'b>,
    follow_up: &'b FollowUp,
    /// How many of them were begun, or passed over.
    begun: &'b AtomicUsize,
}

enum Hold<'b> {
    Held(&'b HeldRows),
    Locked(&'b Locked),
}

impl Hold<'_> {
    /// I1: whether the row is ours, as far as we can know.
    fn keeps(&self, id: EventId) -> bool {
        match self {
            Self::Held(held) => held.is_held(id),
            Self::Locked(locked) => locked.is_open(),
        }
    }
}

/// Failed fetches in a row wait this long at first, then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl Relay {
    /// A relay of this store.
    pub fn builder(store: impl RelayStore) -> RelayBuilder {
        RelayBuilder::new(store)
    }

    /// Works until `stop` is ready. Running handlers then get
    /// [`drain_timeout`](crate::NodeOptions::drain_timeout) to finish; what was not finished is put back
    /// exactly as it was, which is no attempt.
    ///
    /// Dropped half-way, it rolls back the batches it has open.
    pub async fn run(&self, stop: impl Future<Output = ()>) {
        let told = CancellationToken::new();
        let mut workers = JoinSet::new();
        for _ in 0..self.0.consumer.options().workers {
            let (inner, told, restarts) = (self.0.clone(), told.clone(), self.0.restarts.clone());
            // A batch that a panic ends is rolled back.
            workers.spawn(supervise("relay worker", restarts, told.clone(), move || {
                let (inner, told) = (inner.clone(), told.clone());
                async move { inner.work(&told).await }
            }));
        }
        stop.await;
        told.cancel();
        while let Some(ended) = workers.join_next().await {
            if let Err(error) = ended {
                error!(%error, "a worker of the relay ended badly");
            }
        }
    }

    /// One batch: fetched, handled and committed. `None` if nothing was due.
    ///
    /// Dropped half-way, the batch is rolled back.
    pub async fn process_once(&self) -> Result<Option<BatchReport>, StoreError> {
        self.process_once_until(std::future::pending()).await
    }

    /// Like [`process_once`](Self::process_once), and ends early, as [`run`](Self::run) does, when
    /// `stop` is ready.
    pub async fn process_once_until(
        &self,
        stop: impl Future<Output = ()>,
    ) -> Result<Option<BatchReport>, StoreError> {
        let processed = told(stop, |told| async move { self.0.process(&told).await }).await;
        self.0.sample_pending().await;
        Ok(processed?.map(|(report, _)| report))
    }

    /// How often a worker panicked and was begun again, which the log says at ERROR. Code of yours
    /// cannot make it so: whatever is not zero is a mistake of ours, and worth a report.
    pub fn restarts(&self) -> u64 {
        self.0.restarts.count()
    }

    pub(super) fn consumer(&self) -> &Consumer {
        &self.0.consumer
    }
}

impl Inner {
    fn options(&self) -> &RelayOptions {
        self.consumer.options()
    }

    async fn work(&self, stop: &CancellationToken) {
        let mut pause = FIRST_PAUSE;
        while !stop.is_cancelled() {
            let processed = self.process(stop).await;
            if !stop.is_cancelled() {
                self.sample_pending().await;
            }
            let waited = match processed {
                Ok(Some((report, full))) => {
                    pause = FIRST_PAUSE;
                    if report.untouched > 0 {
                        // It could not begin them in time: others look first.
                        let wait = sleep(self.options().poll_interval);
                        let _ = stop.run_until_cancelled(wait).await;
                    }
                    if full { self.busy().await } else { Ok(()) }
                }
                Ok(None) => {
                    pause = FIRST_PAUSE;
                    self.idle(stop).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = waited {
                error!(error = report(&error), "the relay could not fetch or commit");
                self.armed.store(false, Ordering::Relaxed);
                let wait = sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
                let _ = stop.run_until_cancelled(wait).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    /// There is more than a batch: nobody has to ring, and nobody has to sleep.
    async fn busy(&self) -> Result<(), StoreError> {
        self.alarm.ring();
        if self.armed.swap(false, Ordering::Relaxed) {
            self.consumer.bounded(self.consumer.store().disarm()).await?;
        }
        Ok(())
    }

    /// Waits until there may be work. The bell is armed before a last look.
    async fn idle(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        if let Some(later) = self.consumer.hidden_for() {
            self.alarm.ring_after(later);
        }
        let store = self.consumer.store();
        if !self.armed.load(Ordering::Relaxed)
            && self.consumer.bounded(store.arm()).await?
            && !self.armed.swap(true, Ordering::Relaxed)
        {
            return Ok(());
        }
        let wait = async {
            tokio::select! {
                biased;
                () = self.alarm.wait() => {}
                () = store.rung() => {}
            }
        };
        let _ = stop.run_until_cancelled(wait).await;
        Ok(())
    }

    /// One batch, and whether it was a full one.
    async fn process(
        &self,
        stop: &CancellationToken,
    ) -> Result<Option<(BatchReport, bool)>, StoreError> {
        // Whatever was claimed would only be put back.
        if self
            .only
            .as_ref()
            .is_some_and(|sink| matches!(shielded(|| sink.is_healthy()), Ok(false)))
        {
            return Ok(None);
        }
        let began = Instant::now();
        let counted = |error| {
            self.observer.tell(|metrics| metrics.errors(1));
            Err(error)
        };
        let mut batch = match self.consumer.fetch().await {
            Ok(Some(batch)) => batch,
            Ok(None) => return Ok(None),
            Err(error) => return counted(error),
        };
        let full = batch.full;
        let (records, follow_up, begun) = (&*batch.records, &batch.follow_up, &AtomicUsize::new(0));
        let mut released = 0;
        let answers = match &batch.source {
            Source::Held(held) => {
                let work = Work { records, follow_up, begun, hold: Hold::Held(held) };
                self.deliver_held(work, held, stop, &mut released).await
            }
            Source::Locked(locked) => {
                let work = Work { records, follow_up, begun, hold: Hold::Locked(locked) };
                locked.awake_while(self.deliver(work, stop)).await
            }
        };
        batch.answers.extend(answers);
        let retries: Vec<Duration> = batch.answers.values().filter_map(retry_of).collect();
        let mut report = match batch.commit().await {
            Ok(report) => report,
            Err(error) => return counted(error),
        };
        report.untouched += released;
        retries.into_iter().for_each(|delay| self.alarm.ring_after(delay));
        self.observer.tell(|metrics| {
            metrics.batch_duration(began.elapsed());
            metrics.processed(report.done as u64);
            metrics.retries(report.retried as u64);
            metrics.dead(report.dead as u64);
            metrics.fenced(report.fenced as u64);
        });
        Ok(Some((report, full)))
    }

    /// Delivers a batch, and keeps its holds while that takes; those of events that wait too long for
    /// the ones before them are released, and `released` says how many.
    async fn deliver_held(
        &self,
        work: Work<'_>,
        held: &HeldRows,
        stop: &CancellationToken,
        released: &mut usize,
    ) -> Vec<(EventId, Outcome)> {
        let (records, begun, limit) =
            (work.records, work.begun, self.options().handler.start_within);
        let waiting = || {
            let waiting = records.iter().skip(begun.load(Ordering::Relaxed));
            waiting.map(|record| record.delivery.id()).collect()
        };
        let work = self.deliver(work, stop);
        let (answers, rows) = held.held_while(work, Instant::now() + limit, waiting).await;
        if rows > 0 {
            warn!(?limit, rows, "no worker was free for too long: released to others");
        }
        *released = rows;
        answers
    }

    /// One event after the other, for as long as the rest may wait. Told to stop, it lets the one in
    /// work finish for a while. What it does not come to is left unanswered.
    async fn deliver(&self, work: Work<'_>, stop: &CancellationToken) -> Vec<(EventId, Outcome)> {
        let mut answers = Vec::with_capacity(work.records.len());
        let since = Instant::now();
        for (at, record) in work.records.iter().enumerate() {
            let id = record.delivery.id();
            let late = at > 0 && since.elapsed() >= self.options().handler.start_within;
            if late || stop.is_cancelled() {
                break;
            }
            work.begun.store(at + 1, Ordering::Relaxed);
            // What waited too long may have become somebody else's.
            if !work.hold.keeps(id) {
                debug!(event.id = %id, "lost before the delivery began");
                continue;
            }
            let span =
                info_span!("deliver", event.id = %id, event.r#type = record.delivery.event_type());
            let mut run = pin!(self.run(work.follow_up, record).instrument(span));
            let ended = tokio::select! {
                biased;
                outcome = &mut run => Some(outcome),
                () = stop.cancelled() => {
                    timeout(self.options().node.drain_timeout, run).await.ok()
                }
            };
            match ended {
                Some(outcome) => answers.push((id, outcome)),
                None => warn!(event.id = %id, "cut off by a stop: put back, and not counted"),
            }
        }
        answers
    }

    async fn run(&self, follow_up: &FollowUp, due: &Due) -> Outcome {
        let delivery = &due.delivery;
        let verdict = match shielded(|| (self.route)(delivery)) {
            Ok(Some(sink)) => self.door.deliver_one(&*sink, delivery).await,
            Ok(None) => self.door.deliver_one(&Nobody, delivery).await,
            Err(panic) => Err(panic),
        };
        let Err(failure) = verdict else { return Outcome::Done };
        self.observer.tell(|metrics| metrics.errors(1));
        let (id, attempt) = (delivery.id(), delivery.attempt);
        warn!(event.id = %id, attempt, error = error_text(&failure), "delivery failed");
        let class = self.class_of(follow_up, &failure, due.age);
        if let Some(hook) = &self.hook
            && let Err(panic) = shielded(|| hook(delivery, &failure))
        {
            warn!(error = panic.report(), "the failure hook failed");
        }
        let outcome = follow_up.after(due.attempt, &failure, class);
        discard(failure);
        outcome
    }

    fn class_of(&self, follow_up: &FollowUp, failure: &Failure, age: Duration) -> FailureClass {
        let own = || follow_up.class(failure, age);
        match &self.classify {
            Some(classify) if !unroutable(failure) => shielded(|| classify(failure))
                .unwrap_or_else(|panic| {
                    warn!(error = panic.report(), "the failure classifier failed");
                    own()
                }),
            _ => own(),
        }
    }

    /// Counts what is pending, if that was asked for and the last time is long enough ago.
    async fn sample_pending(&self) {
        let Some(interval) = self.options().pending_interval else { return };
        {
            let mut at = lock(&self.pending_at);
            if at.is_some_and(|at| at.elapsed() < interval) {
                return;
            }
            *at = Some(Instant::now());
        }
        match self.consumer.bounded(self.consumer.store().topics()).await {
            Ok(topics) => {
                let pending = topics.iter().map(|topic| topic.counts.pending()).sum();
                self.observer.tell(|metrics| metrics.pending(pending));
            }
            Err(error) => warn!(error = report(&error), "could not count what is pending"),
        }
    }
}

fn retry_of(outcome: &Outcome) -> Option<Duration> {
    match outcome {
        Outcome::Retry { delay, .. } => Some(*delay),
        _ => None,
    }
}

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("consumer", &self.0.consumer).finish_non_exhaustive()
    }
}

/// Puts a relay together.
#[must_use = "there is no relay before `build`"]
pub struct RelayBuilder {
    store: Arc<dyn RelayStore>,
    options: RelayOptions,
    retry: Option<Arc<dyn RetryPolicy>>,
    classify: Option<Classify>,
    hook: Option<Hook>,
    interceptors: Vec<Box<dyn Interceptor>>,
    metrics: Arc<dyn Metrics>,
}

impl RelayBuilder {
    fn new(store: impl RelayStore) -> Self {
        Self::of(Arc::new(store))
    }

    pub(super) fn of(store: Arc<dyn RelayStore>) -> Self {
        Self {
            store,
            options: RelayOptions::default(),
            retry: None,
            classify: None,
            hook: None,
            interceptors: Vec::new(),
            metrics: Arc::new(NoMetrics),
        }
    }

    /// Sets every parameter.
    pub fn options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// Waits between attempts as `policy` says; the default doubles from
    /// [`base`](crate::RetryOptions::base) to [`max`](crate::RetryOptions::max).
    pub fn retry(self, policy: impl RetryPolicy + 'static) -> Self {
        self.retry_by(Arc::new(policy))
    }

    pub(super) fn retry_by(mut self, policy: Arc<dyn RetryPolicy>) -> Self {
        self.retry = Some(policy);
        self
    }

    /// Decides what follows a failed attempt, in place of the failure's own class.
    pub fn classify(
        mut self,
        classify: impl Fn(&Failure) -> FailureClass + Send + Sync + 'static,
    ) -> Self {
        self.classify = Some(Arc::new(classify));
        self
    }

    /// Calls `hook` after every failed attempt, before it is stored.
    pub fn on_failure(
        mut self,
        hook: impl Fn(&Delivery, &Failure) + Send + Sync + 'static,
    ) -> Self {
        self.hook = Some(Arc::new(hook));
        self
    }

    /// Adds an interceptor.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Box::new(interceptor));
        self
    }

    /// Counts into `metrics`.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// A relay with one handler for every event.
    pub fn build(self, handler: impl Handler) -> Result<Relay, OptionsError> {
        self.build_to(HandlerSink::new("handler", handler))
    }

    /// A relay that gives every event to a sink, one at a time. While the sink is not healthy, nothing
    /// is taken.
    pub fn build_to(self, sink: impl Sink) -> Result<Relay, OptionsError> {
        let sink: Arc<dyn Sink> = Arc::new(sink);
        let only = sink.clone();
        self.build_as(Arc::new(move |_| Some(sink.clone())), Some(only))
    }

    /// A relay that gives each event to its handler; what has no handler follows
    /// [`unroutable`](crate::HandlerOptions::unroutable).
    pub fn build_routed(self, handlers: Handlers) -> Result<Relay, OptionsError> {
        self.build_with(Arc::new(move |delivery| {
            handlers.find(delivery.aggregate_type(), delivery.event_type()).cloned()
        }))
    }

    pub(super) fn build_with(self, route: Route) -> Result<Relay, OptionsError> {
        self.build_as(route, None)
    }

    fn build_as(self, route: Route, only: Option<Arc<dyn Sink>>) -> Result<Relay, OptionsError> {
        let Self { store, options, retry, classify, hook, interceptors, metrics } = self;
        let retry = retry.unwrap_or_else(|| Arc::new(options.retry));
        let alarm = Alarm::new(options.poll_interval);
        let patience = options.hold / 2;
        let observer = Observer::new(metrics);
        let door = Door {
            interceptors: Interceptors::of(interceptors),
            limit: options.handler.timeout,
            unhealthy_for: options.poll_interval,
            observer: observer.clone(),
        };
        let consumer = Consumer::with(store, options, retry, patience)?;
        Ok(Relay(Arc::new(Inner {
            consumer,
            route,
            only,
            door,
            classify,
            hook,
            observer,
            restarts: Restarts::default(),
            alarm,
            armed: AtomicBool::new(false),
            pending_at: Mutex::new(None),
        })))
    }
}

impl fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
