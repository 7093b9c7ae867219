//! Puts a relay together.

use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use sendoff_core::{RetryPolicy, Sink};

use super::consumer::{Consumer, RelayStore};
use super::options::RelayOptions;
use super::routing::Routing;
use super::runner::{Inner, RUNG_INTERVAL, Relay};
use crate::builder::Builder;
use crate::dispatch::{Handlers, Restarts};
use crate::operate::Observer;
use crate::options::OptionsError;
use crate::sink::{Door, Handler, HandlerSink};
use crate::source::Alarm;

/// Puts a relay together.
pub type RelayBuilder = Builder<RelayOptions, RelayParts>;

/// What only a relay is put together from.
#[expect(missing_debug_implementations, reason = "its builder shows the options")]
pub struct RelayParts {
    pub(super) store: Arc<dyn RelayStore>,
    pub(super) retry: Option<Arc<dyn RetryPolicy>>,
}

impl RelayBuilder {
    pub(super) fn new(store: impl RelayStore) -> Self {
        Self::of(RelayOptions::default(), RelayParts { store: Arc::new(store), retry: None })
    }

    /// Waits between attempts as `policy` says; the default doubles from
    /// [`base`](crate::RetryOptions::base) to [`max`](crate::RetryOptions::max).
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.parts.retry = Some(Arc::new(policy));
        self
    }

    /// A relay with one handler for every event.
    pub fn build(self, handler: impl Handler) -> Result<Relay, OptionsError> {
        self.build_to(HandlerSink::new("handler", handler))
    }

    /// A relay that gives every event to a sink, one at a time. While the sink is not healthy, nothing
    /// is taken.
    pub fn build_to(self, sink: impl Sink) -> Result<Relay, OptionsError> {
        let routing =
            Routing::only(Arc::new(sink), self.options.workers, self.options.handler.circuit);
        self.build_by(Arc::new(routing))
    }

    /// A relay that gives each event to its handler; what has no handler follows
    /// [`unroutable`](crate::HandlerOptions::unroutable).
    ///
    /// Where several handlers are registered, each has half of the workers at most, or what it says itself
    /// ([`at_most`](crate::at_most)): one that hangs or is slow takes no worker from the others, nothing is
    /// taken for it while it has all its runs, and what came in one batch with its events does not wait for
    /// them.
    pub fn build_routed(self, handlers: Handlers) -> Result<Relay, OptionsError> {
        let routing =
            Routing::by_pair(handlers, self.options.workers, self.options.handler.circuit);
        self.build_by(Arc::new(routing))
    }

    pub(super) fn build_by(self, routing: Arc<Routing>) -> Result<Relay, OptionsError> {
        let Self { options, around, parts: RelayParts { store, retry } } = self;
        routing.check()?;
        let retry = retry.unwrap_or_else(|| Arc::new(options.retry));
        let alarm = Alarm::new(options.poll_interval.max(RUNG_INTERVAL));
        let patience = options.hold / 2;
        let observer = Observer::new(around.metrics.clone());
        let door = Door {
            interceptors: around.interceptors(),
            reactions: around.reactions,
            traces: around.traces,
            limit: options.handler.timeout,
            unhealthy_for: options.poll_interval,
            observer: observer.clone(),
        };
        let consumer = Consumer::with(store, options, retry, patience)?;
        let register = consumer.register({
            let routing = routing.clone();
            Arc::new(move || routing.kinds())
        });
        Ok(Relay(Arc::new(Inner {
            consumer,
            register,
            routing,
            door,
            observer,
            restarts: Restarts::default(),
            alarm,
            lookout: tokio::sync::Mutex::default(),
            streak: Mutex::default(),
            armed: AtomicBool::new(false),
            pending_at: Mutex::new(None),
            ready: tokio::sync::OnceCell::new(),
        })))
    }
}
