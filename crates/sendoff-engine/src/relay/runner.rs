//! The relay: workers that take batches, deliver them and commit what became of them.

use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::report;
use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use super::batch::BatchReport;
use super::builder::RelayBuilder;
use super::consumer::{Consumer, RelayStore};
use super::delivery::Processed;
use super::options::RelayOptions;
use super::routing::Routing;
use super::running::{Relaying, Stop};
use crate::dispatch::{Handlers, RegisterError, Registration, Restarts, deferred_for};
use crate::engine::Closed;
use crate::lock::lock;
use crate::operate::{Failed, Observer, Streak};
use crate::sink::Door;
use crate::source::{Alarm, PauseWatch, Register};
use crate::store::{Contact, StoreError, check_ready, contact_at_start, first_contact};
use crate::told::told;

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
pub struct Relay(pub(super) Arc<Inner>);

pub(super) struct Inner {
    pub(super) consumer: Consumer,
    /// Who handles what.
    pub(super) register: Register,
    pub(super) routing: Arc<Routing>,
    pub(super) door: Door,
    pub(super) observer: Observer,
    pub(super) restarts: Restarts,
    pub(super) alarm: Alarm,
    /// Whoever of the idle workers looks out for work.
    pub(super) lookout: tokio::sync::Mutex<()>,
    /// Whether the database fails.
    pub(super) streak: Mutex<Streak>,
    /// Whether writers were told to ring.
    pub(super) armed: AtomicBool,
    pub(super) pending_at: Mutex<Option<Instant>>,
    /// Where the database was not there at the start: once its tables were found as they should be.
    pub(super) ready: tokio::sync::OnceCell<()>,
}

/// Failed fetches in a row wait this long at first, then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often at most an idle relay looks that is rung for: what it looks for then is what nobody rings for,
/// such as rows of a node that died.
pub(super) const RUNG_INTERVAL: Duration = Duration::from_secs(5);

impl Relay {
    /// A relay of this store.
    pub fn builder(store: impl RelayStore) -> RelayBuilder {
        RelayBuilder::new(store)
    }

    /// Starts its workers on the current tokio runtime; the handle closes them.
    ///
    /// Looks at tables and rights once. A database that is unavailable is no reason not to start: it is
    /// looked at as soon as it answers.
    ///
    /// # Errors
    ///
    /// Tables that are missing, older, newer or changed, or a right that is missing; with what to do.
    pub async fn start(&self) -> Result<Relaying, StoreError> {
        Ok(Relaying::start(self, contact_at_start(self.0.look()).await?))
    }

    /// Works until `stop` is ready, then [closes](Relaying::close) and says how that went.
    ///
    /// Waits for tables and rights that are not as they should be, and says so in the log. Dropped half-way,
    /// it rolls back the batches it has open.
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Closed {
        let contact = contact_at_start(self.0.look()).await.unwrap_or_else(|error| {
            error!(error = report(&error), "the database cannot be worked with as it is");
            Contact::Pending
        });
        let relaying = Relaying::start(self, contact);
        stop.await;
        relaying.close().await
    }

    /// One batch: fetched, handled and committed. `None` if nothing was due that a handler has a free
    /// run for.
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
        let processed =
            told(stop, |told| async move { self.0.process(&Stop::new(told)).await }).await;
        self.0.sample_pending().await;
        Ok(processed?.map(|processed| processed.report))
    }

    /// Registers handlers while it runs, all of them or none. What waited for one of them in the table flows
    /// soon after; other nodes hear of them. A [route](Handlers::route) among them takes the place of the one
    /// before.
    ///
    /// # Errors
    ///
    /// [`OneForAll`](RegisterError::OneForAll) for a relay that was built with one handler for everything.
    pub fn register(&self, handlers: Handlers) -> Result<(), RegisterError> {
        self.0.routing.register(handlers)?;
        self.look_again();
        Ok(())
    }

    /// Removes a handler while it runs, as [`Outbox::unregister`](crate::Outbox::unregister), and says
    /// whether there was one.
    pub fn unregister(&self, of: &Registration) -> bool {
        let removed = self.0.routing.unregister(of);
        let there = removed.is_some();
        if let Some(removed) = removed {
            removed.tell(&self.0.observer);
            self.look_again();
        }
        there
    }

    /// There are other handlers.
    pub(super) fn look_again(&self) {
        let Inner { consumer, register, alarm, .. } = &*self.0;
        consumer.look_again();
        register.has_changed();
        alarm.ring();
        alarm.ring_after(deferred_for(consumer.options().handler.unroutable));
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
    pub(super) fn options(&self) -> &RelayOptions {
        self.consumer.options()
    }

    /// Whether tables and rights are as they should be; and what is paused.
    async fn look(&self) -> Result<(), StoreError> {
        let look = async {
            check_ready(&**self.consumer.store(), self.options().fair.is_some()).await?;
            self.consumer.pauses().look(&**self.consumer.store()).await.map(drop)
        };
        self.consumer.bounded(look).await
    }

    /// What sees to it that the relay knows what is paused.
    pub(super) fn pause_watch(self: &Arc<Self>) -> PauseWatch {
        let options = self.options();
        PauseWatch {
            store: self.consumer.store().clone(),
            pauses: self.consumer.pauses().clone(),
            observer: self.observer.clone(),
            interval: options.poll_interval.max(RUNG_INTERVAL),
            limit: options.statement_limit(),
            apply: {
                let relay = self.clone();
                Arc::new(move |_| {
                    relay.consumer.paused_anew();
                    relay.alarm.ring();
                })
            },
        }
    }

    pub(super) async fn work(&self, told: &Stop, contact: Contact) {
        let stop = &told.told;
        if contact == Contact::Pending {
            // Nothing is claimed from tables of which nobody knows what they are.
            let ready = self.ready.get_or_init(|| first_contact(|| self.look()));
            let _ = stop.run_until_cancelled(ready).await;
        }
        let mut pause = FIRST_PAUSE;
        let mut in_vain = 0;
        while !stop.is_cancelled() {
            let processed = self.process(told).await;
            if !stop.is_cancelled() {
                self.sample_pending().await;
            }
            let waited = match processed {
                Ok(Some(Processed { full, begun, late, .. })) => {
                    pause = FIRST_PAUSE;
                    self.database_answers();
                    in_vain = if begun { 0 } else { in_vain + 1 };
                    // It could not begin them in time: others look first. What it had no run for is left
                    // out by the next claim; should it come again all the same, that must not go on so.
                    if late || in_vain > 1 {
                        let wait = sleep(self.options().poll_interval);
                        let _ = stop.run_until_cancelled(wait).await;
                    }
                    if full { self.busy().await } else { Ok(()) }
                }
                Ok(None) => {
                    pause = FIRST_PAUSE;
                    self.database_answers();
                    self.idle(stop).await
                }
                Err(error) => Err(error),
            };
            if let Err(error) = waited {
                if let Some(Failed { since, failures }) = lock(&self.streak).failed(Instant::now())
                {
                    error!(
                        error = report(&error),
                        ?since,
                        failures,
                        "the relay could not fetch or commit"
                    );
                }
                self.armed.store(false, Ordering::Relaxed);
                let wait = sleep(pause.mul_f64(0.5 + fastrand::f64() / 2.0));
                let _ = stop.run_until_cancelled(wait).await;
                pause = (pause * 2).min(LONGEST_PAUSE);
            }
        }
    }

    fn database_answers(&self) {
        if let Some(after) = lock(&self.streak).over(Instant::now()) {
            info!(?after, "the database is back: events are claimed");
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

    /// Waits until there may be work. The bell is armed before a last look. Of the workers that have
    /// nothing to do one looks out, and the others wait for their turn to: a node looks as often as one
    /// worker would.
    async fn idle(&self, stop: &CancellationToken) -> Result<(), StoreError> {
        let Some(_lookout) = stop.run_until_cancelled(self.lookout.lock()).await else {
            return Ok(());
        };
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
        let limit = self.options().statement_limit();
        let longest = self.longest_wait(self.armed.load(Ordering::Relaxed));
        let wait = async {
            tokio::select! {
                biased;
                () = self.alarm.wait_for(longest) => Ok(()),
                rung = self.consumer.pauses().rung(&**store, &self.armed, limit) => rung,
            }
        };
        stop.run_until_cancelled(wait).await.unwrap_or(Ok(()))
    }

    /// How long to wait for a ring before looking all the same. Who is rung for what others write need not
    /// look for it: what becomes due without a ring are retries of others and delays.
    fn longest_wait(&self, armed: bool) -> Duration {
        let interval = self.options().poll_interval;
        if armed { interval.max(RUNG_INTERVAL) } else { interval }
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

impl fmt::Debug for Relay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relay").field("consumer", &self.0.consumer).finish_non_exhaustive()
    }
}
