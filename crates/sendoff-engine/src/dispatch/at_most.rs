use std::num::NonZeroUsize;

use sendoff_core::Delivery;

use super::{Handler, HandlerResult};

/// A handler with a limit of its own; see [`at_most`].
#[derive(Debug, Clone)]
pub struct AtMost<H> {
    limit: NonZeroUsize,
    handler: H,
}

/// Lets at most `limit` runs of a handler go on at once, on each node: fewer than it would have, for a
/// target that bears no more, or more, up to all of an outbox's workers.
///
/// ```
/// use std::num::NonZeroUsize;
///
/// use sendoff_core::Delivery;
/// use sendoff_engine::{Handler, at_most};
///
/// let one_at_a_time = at_most(NonZeroUsize::MIN, |_: Delivery| async { Ok(()) });
/// assert_eq!(one_at_a_time.limit(), Some(1));
/// ```
pub fn at_most<H: Handler>(limit: NonZeroUsize, handler: H) -> AtMost<H> {
    AtMost { limit, handler }
}

impl<H: Handler> Handler for AtMost<H> {
    fn handle(&self, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self.handler.handle(delivery)
    }

    fn limit(&self) -> Option<usize> {
        Some(self.limit.get())
    }
}
