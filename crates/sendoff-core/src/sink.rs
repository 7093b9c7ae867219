//! The one way out: what takes a batch of deliveries and answers with a verdict for each.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::delivery::Delivery;
use crate::failure::Failure;

/// What became of one delivery: its effect is durable, or it failed.
pub type Verdict = Result<(), Failure>;

/// Where events go: a handler, a broker, whatever else can be told.
///
/// Delivery is at least once: a sink sees an event again after a crash and after a failure, and must be
/// able to tell by its id.
///
/// ```
/// use sendoff_core::{Delivery, Failure, Sink, Verdict, async_trait};
///
/// struct Printer;
///
/// #[async_trait]
/// impl Sink for Printer {
///     fn name(&self) -> &str {
///         "printer"
///     }
///
///     async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
///         deliveries.iter().map(|delivery| Ok(println!("{}", delivery.id()))).collect()
///     }
/// }
/// ```
#[async_trait]
pub trait Sink: Send + Sync + 'static {
    /// Its name. With a journal it is stored with its cursors, and must not change. Elsewhere it is what it is paused and
    /// resumed by, with all others of the name, on every node.
    fn name(&self) -> &str;

    /// Delivers events in order, and answers with a verdict for each, in the same order. One that has
    /// to stop leaves the verdicts of those out that it did not try.
    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict>;

    /// Whether its target can be reached, as far as it knows. While it cannot, nothing is delivered,
    /// and no attempt counts.
    fn is_healthy(&self) -> bool {
        true
    }

    /// How many events it takes at once, at most. Time limits are for one call: where it takes one, each
    /// event has the whole time.
    fn batch_size(&self) -> usize {
        usize::MAX
    }

    /// How many calls of it may go on at once. By itself it may have half of an outbox's workers while
    /// there are others, and all of them where it is the only one.
    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        None
    }

    /// How long one call of it may take, shorter or longer than the time limit that it has by itself:
    /// `handler.timeout` of an outbox, a relay or a topic worker, `publish_timeout` of a publisher's pair.
    fn deadline(&self) -> Option<Duration> {
        None
    }

    /// What tells sinks of one name apart: any number, the same for clones. Two of one name that answer differently have
    /// different targets, and are not registered side by side, since they would be paused together. None where it says
    /// nothing of that.
    fn identity(&self) -> Option<usize> {
        None
    }
}

#[async_trait]
impl<S: Sink + ?Sized> Sink for Arc<S> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        (**self).deliver(deliveries).await
    }

    fn is_healthy(&self) -> bool {
        (**self).is_healthy()
    }

    fn batch_size(&self) -> usize {
        (**self).batch_size()
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        (**self).runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        (**self).deadline()
    }

    fn identity(&self) -> Option<usize> {
        (**self).identity()
    }
}

/// A batch that was not delivered to its end.
#[derive(Debug)]
pub struct Stopped {
    /// So many of its events, from the first on, are durable all the same.
    pub done: usize,
    /// What stopped it.
    pub failure: Failure,
}

impl Stopped {
    /// Stopped after so many events.
    pub fn after(done: usize, failure: impl Into<Failure>) -> Self {
        Self { done, failure: failure.into() }
    }

    /// A verdict for each event of a batch of this length that was tried.
    pub fn verdicts(ended: Result<(), Self>, length: usize) -> Vec<Verdict> {
        match ended {
            Ok(()) => (0..length).map(|_| Ok(())).collect(),
            // Something of it failed, whatever it says.
            Err(Self { done, failure }) => {
                let done = done.min(length.saturating_sub(1));
                (0..done).map(|_| Ok(())).chain([Err(failure)]).collect()
            }
        }
    }
}

// Any failure is one of the whole batch, so that `?` works where batches are delivered.
impl<E: Into<Failure>> From<E> for Stopped {
    fn from(failure: E) -> Self {
        Self { done: 0, failure: failure.into() }
    }
}
