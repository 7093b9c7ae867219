//! A relay at work: starting its workers, and closing them in order.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use futures_util::future::join;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout_at};
use tokio_util::sync::CancellationToken;

use super::runner::Relay;
use crate::dispatch::{say_if_alone, supervise};
use crate::engine::{Closed, LAST_WORDS, cut_off, ended};
use crate::store::Contact;

/// A relay, or a topic worker, at work. Cheap to clone; clones are one.
///
/// [`close`](Self::close) ends it in order. When the last handle is dropped without that, everything stops
/// where it is, and the batches that are open are rolled back.
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
/// let relaying = Relay::builder(MemoryStore::new()).build(publish)?.start().await?;
/// // … until the process ends …
/// let closed = relaying.close().await;
/// assert!(!closed.cut_off && !closed.unsettled);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Relaying(Arc<Life>);

struct Life {
    relay: Relay,
    stop: Arc<Stop>,
    /// Whoever closes has it to himself. It stays here while he waits: when he stops waiting, the next
    /// caller goes on.
    running: tokio::sync::Mutex<Running>,
}

struct Running {
    workers: JoinSet<()>,
    /// Until when they may take, once somebody closed.
    drained: Option<Instant>,
    /// How closing went, once it did.
    closed: Option<Closed>,
}

/// Tells work to stop, and hears what that cost.
#[derive(Debug, Default)]
pub(super) struct Stop {
    pub(super) told: CancellationToken,
    cut_off: AtomicBool,
    unsettled: AtomicBool,
}

impl Stop {
    pub(super) fn new(told: CancellationToken) -> Self {
        Self { told, ..Self::default() }
    }

    /// A handler did not finish in time.
    pub(super) fn has_cut_off(&self) {
        self.cut_off.store(true, Ordering::Relaxed);
    }

    /// Answers were not recorded; which matters once there is nobody to try again.
    pub(super) fn left_unsettled(&self) {
        if self.told.is_cancelled() {
            self.unsettled.store(true, Ordering::Relaxed);
        }
    }
}

impl Relaying {
    /// Workers of a relay, on the current runtime.
    pub(super) fn start(relay: &Relay, contact: Contact) -> Self {
        let stop = Arc::new(Stop::default());
        let mut workers = JoinSet::new();
        let count = relay.0.options().workers;
        say_if_alone(count, relay.0.routing.handlers());
        for _ in 0..count {
            let (inner, stop) = (relay.0.clone(), stop.clone());
            let (restarts, told) = (relay.0.restarts.clone(), stop.told.clone());
            // A batch that a panic ends is rolled back.
            workers.spawn(supervise("relay worker", restarts, told, move || {
                let (inner, stop) = (inner.clone(), stop.clone());
                async move { inner.work(&stop, contact).await }
            }));
        }
        let watch = relay.0.pause_watch();
        watch.begin();
        let (restarts, told) = (relay.0.restarts.clone(), stop.told.clone());
        let register = relay.0.register.clone();
        let watching = move || {
            let (watch, register, told) = (watch.clone(), register.clone(), told.clone());
            async move {
                let look = join(watch.run(), register.run());
                let _ = told.run_until_cancelled(look).await;
            }
        };
        workers.spawn(supervise("pauses and register", restarts, stop.told.clone(), watching));
        let running = Running { workers, drained: None, closed: None };
        let running = tokio::sync::Mutex::new(running);
        Self(Arc::new(Life { relay: relay.clone(), stop, running }))
    }

    /// Stops in order: takes nothing new, gives handlers that run
    /// [`drain_timeout`](crate::NodeOptions::drain_timeout) to finish, stores what became of their events,
    /// and puts back the rest exactly as it was, which is no attempt.
    ///
    /// Dropped half-way, nothing is taken any more, and what is left to do waits for the next call. A call
    /// after the last one hears what that one did.
    pub async fn close(&self) -> Closed {
        let Life { relay, stop, running } = &*self.0;
        stop.told.cancel();
        let mut running = running.lock().await;
        if let Some(closed) = running.closed {
            return closed;
        }
        let options = relay.0.options();
        // A claim may wait for a suspect, and a settlement for the database, each as long as holds last.
        let limit = options.node.drain_timeout + 2 * options.hold + LAST_WORDS;
        let drained = *running.drained.get_or_insert_with(|| Instant::now() + limit);
        let in_time = timeout_at(drained, ended(&mut running.workers)).await.is_ok();
        if !in_time {
            stop.has_cut_off();
        }
        cut_off(&mut running.workers).await;
        let heard = |told: &AtomicBool| told.load(Ordering::Relaxed);
        let closed = Closed { cut_off: heard(&stop.cut_off), unsettled: heard(&stop.unsettled) };
        closed.say();
        running.closed = Some(closed);
        closed
    }

    /// As [`Relay::restarts`].
    pub fn restarts(&self) -> u64 {
        self.0.relay.restarts()
    }
}

impl fmt::Debug for Relaying {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Relaying").field("relay", &self.0.relay).finish_non_exhaustive()
    }
}
