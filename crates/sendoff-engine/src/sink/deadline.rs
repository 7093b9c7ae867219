//! How long one run of a handler may take.

use std::num::NonZeroUsize;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Failure, Sink, Verdict};
use tokio::time::timeout;

use super::handler::{Handler, HandlerResult};
use super::shield::{Shield, shielded};
use super::typed::EventHandler;
use crate::options::{LONGEST, OptionsError, SHORTEST, check_times};

/// A handler or a sink with a time limit of its own; see [`deadline`].
#[derive(Debug, Clone)]
pub struct Deadline<T> {
    limit: Duration,
    of: T,
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
pub fn deadline<T>(limit: Duration, of: T) -> Deadline<T> {
    Deadline { limit, of }
}

impl<H: Handler> Handler for Deadline<H> {
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.of.handle(delivery)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.of.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.limit)
    }
}

impl<E, H: EventHandler<E>> EventHandler<E> for Deadline<H> {
    fn handle(&self, event: E, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.of.handle(event, delivery)
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.of.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.limit)
    }
}

#[async_trait]
impl<S: Sink> Sink for Deadline<S> {
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
        self.of.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        Some(self.limit)
    }

    fn identity(&self) -> Option<usize> {
        self.of.identity()
    }
}

/// Ends a run at its limit, which is a failed attempt.
pub(super) async fn in_time<F>(
    limit: Option<Duration>,
    run: Shield<F>,
) -> Result<F::Output, Failure>
where
    F: Future + ?Sized,
{
    match limit {
        None => run.await,
        Some(limit) => {
            timeout(limit, run).await.unwrap_or_else(|_| Err(Failure::retry(TooSlow(limit))))
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("handler did not finish within {0:?}")]
struct TooSlow(Duration);

/// The time limit of a sink's own, if it has one.
pub(crate) fn deadline_of(sink: &dyn Sink) -> Option<Duration> {
    shielded(|| sink.deadline()).unwrap_or_default()
}

/// Whether that is within the bounds that hold for all of them.
pub(crate) fn check_deadline(sink: &dyn Sink) -> Result<(), OptionsError> {
    check_times(&[("deadline", deadline_of(sink).unwrap_or(SHORTEST), SHORTEST, LONGEST)])
}
