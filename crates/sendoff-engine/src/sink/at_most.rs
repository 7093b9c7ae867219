//! How many runs of a handler go on at once.

use std::num::NonZeroUsize;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Sink, Verdict};

use super::handler::{Handler, HandlerResult};
use super::typed::EventHandler;

/// A handler or a sink with a limit of its own; see [`at_most`].
#[derive(Debug, Clone)]
pub struct AtMost<T> {
    limit: NonZeroUsize,
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
pub fn at_most<T>(limit: NonZeroUsize, of: T) -> AtMost<T> {
    AtMost { limit, of }
}

impl<H: Handler> Handler for AtMost<H> {
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.of.handle(delivery)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        Some(self.limit)
    }

    fn deadline(&self) -> Option<Duration> {
        self.of.deadline()
    }
}

impl<E, H: EventHandler<E>> EventHandler<E> for AtMost<H> {
    fn handle(&self, event: E, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.of.handle(event, delivery)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        Some(self.limit)
    }

    fn deadline(&self) -> Option<Duration> {
        self.of.deadline()
    }
}

#[async_trait]
impl<S: Sink> Sink for AtMost<S> {
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
        Some(self.limit)
    }

    fn deadline(&self) -> Option<Duration> {
        self.of.deadline()
    }

    fn identity(&self) -> Option<usize> {
        self.of.identity()
    }
}
