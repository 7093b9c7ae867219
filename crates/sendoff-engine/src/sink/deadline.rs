//! What becomes of a run that takes longer than it may.

use std::time::Duration;

use sendoff_core::{Failure, Sink};
use tokio::time::timeout;

use super::shield::{Shield, shielded};
use crate::options::{LONGEST, OptionsError, SHORTEST, check_times};

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
