//! Limits of a handler's or a sink's own: how many runs of it go on at once, and how long one may take.

use std::num::NonZeroUsize;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Sink, Verdict};

use super::handler::{Handler, HandlerResult};
use super::typed::EventHandler;

/// A handler or a sink with a limit of its own; see [`at_most`] and [`deadline`].
#[derive(Debug, Clone)]
pub struct Limited<T> {
    runs: Option<NonZeroUsize>,
    deadline: Option<Duration>,
    of: T,
}

/// Lets at most `limit` runs of a handler or a sink go on at once, on each node: fewer than it would have,
/// for a target that bears no more, or more, up to all workers of an outbox or a relay.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use sendoff_core::Delivery;
/// use sendoff_engine::{Handler, at_most};
///
/// let one_at_a_time = at_most(NonZeroUsize::MIN, |_: Delivery| async { Ok(()) });
/// assert_eq!(one_at_a_time.runs_at_most(), Some(NonZeroUsize::MIN));
/// ```
pub fn at_most<T>(limit: NonZeroUsize, of: T) -> Limited<T> {
    Limited { runs: Some(limit), deadline: None, of }
}

/// Gives a handler or a sink a time limit of its own, shorter or longer than the one that it has by itself:
/// [`handler.timeout`](crate::HandlerOptions::timeout) of an outbox, a relay or a topic worker,
/// [`publish_timeout`](crate::journal::publish::PairOptions::publish_timeout) of a publisher's pair. A run that takes longer
/// is a failed attempt. Holds are extended while it runs, however long that is.
///
/// The limit is for one event of a handler, and for one batch of a sink that takes several at once. A handler or a sink
/// whose limit is not from 1 ms to ten years is refused when it is registered.
///
/// ```
/// use std::time::Duration;
///
/// use sendoff_core::Delivery;
/// use sendoff_engine::{Handler, HandlerResult, deadline};
///
/// let quick = deadline(Duration::from_secs(2), |_: Delivery| async { HandlerResult::Ok(()) });
/// assert_eq!(quick.deadline(), Some(Duration::from_secs(2)));
/// ```
pub fn deadline<T>(limit: Duration, of: T) -> Limited<T> {
    Limited { runs: None, deadline: Some(limit), of }
}

impl<H: Handler> Handler for Limited<H> {
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.of.handle(delivery)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.runs.or_else(|| self.of.runs_at_most())
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline.or_else(|| self.of.deadline())
    }
}

impl<E, H: EventHandler<E>> EventHandler<E> for Limited<H> {
    fn handle(&self, event: E, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.of.handle(event, delivery)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.runs.or_else(|| self.of.runs_at_most())
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline.or_else(|| self.of.deadline())
    }
}

#[async_trait]
impl<S: Sink> Sink for Limited<S> {
    fn name(&self) -> &str {
        self.of.name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        self.of.deliver(deliveries).await
    }

    fn is_healthy(&self) -> bool {
        self.of.is_healthy()
    }

    fn batch_size(&self) -> usize {
        self.of.batch_size()
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.runs.or_else(|| self.of.runs_at_most())
    }

    fn deadline(&self) -> Option<Duration> {
        self.deadline.or_else(|| self.of.deadline())
    }

    fn identity(&self) -> Option<usize> {
        self.of.identity()
    }
}
