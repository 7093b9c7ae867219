//! What the log says of a pair whose facts fail: a line at the first failure, no more than one a minute
//! after it, and one when it goes on.

use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use tokio::time::Instant;
use tracing::{info, warn};

use crate::rarely::Rarely;

/// What was said of a pair, and what was not yet.
#[derive(Debug, Default)]
pub(super) struct Complaint(Rarely);

/// A failure after which a pair waits.
pub(super) struct Waits<'a> {
    pub(super) pair: &'a PairId,
    /// The fact that failed, or the first of the batch that did.
    pub(super) position: Position,
    /// For how long nothing was published.
    pub(super) lasted: Duration,
    pub(super) next_try: Duration,
    pub(super) error: &'a str,
}

impl Complaint {
    pub(super) fn waits(&mut self, waits: &Waits<'_>, now: Instant) {
        let Some(failures) = self.0.again(now) else { return };
        let &Waits { pair, position, lasted, next_try, error } = waits;
        warn!(%pair, %position, failures, ?lasted, ?next_try, error,
              "a fact could not be published: the pair waits at it, and tries again");
    }

    /// Something was published.
    pub(super) fn goes_on(&mut self, pair: &PairId, position: Position, now: Instant) {
        if let Some(after) = self.0.over(now) {
            info!(%pair, %position, ?after, "the pair goes on");
        }
    }
}
