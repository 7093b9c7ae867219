//! Handlers of single events, and how they become sinks.

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Failure, Sink, Verdict};

/// What a handler answers. Any error becomes a retry with `?`; [`Failure`] says more.
pub type HandlerResult = Result<(), Failure>;

/// Receives events, one at a time.
///
/// Delivery is at least once: a handler may see an event again after a crash, and must be able to
/// tell by its id. Async functions and closures that take a [`Delivery`] are handlers; a type can
/// implement it with a plain `async fn`; [`blocking`](super::blocking()) wraps a function that blocks.
///
/// ```
/// use sendoff_core::{Delivery, Failure};
/// use sendoff_engine::{AnyHandler, Handler, HandlerResult, blocking};
///
/// async fn mail(delivery: Delivery) -> HandlerResult {
///     let address: String = delivery.read_json()?;
///     # let _ = address;
///     Ok(())
/// }
///
/// struct Shop;
/// impl Handler for Shop {
///     async fn handle(&self, _: Delivery) -> HandlerResult {
///         Ok(())
///     }
/// }
///
/// let handlers: Vec<AnyHandler> = vec![
///     AnyHandler::new(mail),
///     AnyHandler::new(Shop),
///     AnyHandler::new(|_: Delivery| async { Err(Failure::dead("never")) }),
///     AnyHandler::new(blocking(|_| Ok(()))),
/// ];
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Handles one delivery. `Ok` means the effect is durable: the event will be marked DONE.
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send;

    /// How many runs of it may go on at once; see [`at_most`](super::at_most()). By itself a handler may
    /// have half of an outbox's workers while there are others, and all of them where it is the only one.
    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        None
    }

    /// How long one run of it may take; see [`deadline`](super::deadline()). By itself it has the time limit that all
    /// handlers have.
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

impl<F, Fut> Handler for F
where
    F: Fn(Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send,
{
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self(delivery)
    }
}

/// A handler of any type, cheap to clone.
#[derive(Clone)]
pub struct AnyHandler(Arc<dyn Erased>);

type Running<'a> = Pin<Box<dyn Future<Output = HandlerResult> + Send + 'a>>;

/// [`Handler`] in a form that can be a trait object.
trait Erased: Send + Sync {
    fn run(&self, delivery: Delivery) -> Running<'_>;
    fn limit(&self) -> Option<NonZeroUsize>;
    fn time(&self) -> Option<Duration>;
}

impl<H: Handler> Erased for H {
    fn run(&self, delivery: Delivery) -> Running<'_> {
        Box::pin(self.handle(delivery))
    }

    fn limit(&self) -> Option<NonZeroUsize> {
        self.runs_at_most()
    }

    fn time(&self) -> Option<Duration> {
        self.deadline()
    }
}

impl AnyHandler {
    /// Wraps a handler.
    pub fn new(handler: impl Handler) -> Self {
        Self(Arc::new(handler))
    }

    /// A run as it is; the handler's own code may begin with this call.
    fn run(&self, delivery: Delivery) -> Running<'_> {
        self.0.run(delivery)
    }
}

impl Handler for AnyHandler {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        self.run(delivery).await
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.0.limit()
    }

    fn deadline(&self) -> Option<Duration> {
        self.0.time()
    }
}

impl fmt::Debug for AnyHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AnyHandler")
    }
}

/// Any handler as a sink: it gets one event at a time.
#[derive(Debug, Clone)]
pub struct HandlerSink {
    name: String,
    handler: AnyHandler,
}

impl HandlerSink {
    /// A sink of this name.
    pub fn new(name: impl Into<String>, handler: impl Handler) -> Self {
        Self { name: name.into(), handler: AnyHandler::new(handler) }
    }
}

#[async_trait]
impl Sink for HandlerSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        match deliveries.first() {
            Some(delivery) => vec![self.handler.run(delivery.clone()).await],
            None => Vec::new(),
        }
    }

    fn batch_size(&self) -> usize {
        1
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.handler.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        self.handler.deadline()
    }
}
