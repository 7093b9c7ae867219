//! Puts a relay together.

use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};

use sendoff_core::{Delivery, Failure, FailureClass, RetryPolicy, Sink};

use super::consumer::{Consumer, RelayStore};
use super::options::RelayOptions;
use super::routing::Routing;
use super::runner::{Inner, RUNG_INTERVAL, Relay};
use crate::dispatch::{Handlers, Restarts};
use crate::operate::{Metrics, NoMetrics, Observer};
use crate::options::OptionsError;
use crate::sink::{Door, Handler, HandlerSink, Interceptor, Interceptors, Reactions};
use crate::source::Alarm;

/// Puts a relay together.
#[must_use = "there is no relay before `build`"]
pub struct RelayBuilder {
    store: Arc<dyn RelayStore>,
    options: RelayOptions,
    retry: Option<Arc<dyn RetryPolicy>>,
    reactions: Reactions,
    interceptors: Vec<Box<dyn Interceptor>>,
    metrics: Arc<dyn Metrics>,
}

impl RelayBuilder {
    pub(super) fn new(store: impl RelayStore) -> Self {
        Self::of(Arc::new(store))
    }

    pub(super) fn of(store: Arc<dyn RelayStore>) -> Self {
        Self {
            store,
            options: RelayOptions::default(),
            retry: None,
            reactions: Reactions::default(),
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

    /// Decides what follows a failed attempt, in place of the failure's own class. An event that no
    /// handler is registered for is none.
    pub fn classify(
        mut self,
        classify: impl Fn(&Delivery, &Failure) -> FailureClass + Send + Sync + 'static,
    ) -> Self {
        self.reactions.classify(classify);
        self
    }

    /// Calls `hook` after every failed attempt, before it is stored.
    pub fn on_failure(
        mut self,
        hook: impl Fn(&Delivery, &Failure) + Send + Sync + 'static,
    ) -> Self {
        self.reactions.on_failure(hook);
        self
    }

    pub(super) fn reactions(mut self, reactions: Reactions) -> Self {
        self.reactions = reactions;
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
        let Self { store, options, retry, reactions, interceptors, metrics } = self;
        let retry = retry.unwrap_or_else(|| Arc::new(options.retry));
        let alarm = Alarm::new(options.poll_interval.max(RUNG_INTERVAL));
        let patience = options.hold / 2;
        let observer = Observer::new(metrics);
        let door = Door {
            interceptors: Interceptors::of(interceptors),
            reactions,
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

impl fmt::Debug for RelayBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RelayBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
