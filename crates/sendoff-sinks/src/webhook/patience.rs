//! How long a receiver that takes nothing is asked.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use tokio::time::Instant;

/// Since when a receiver has taken nothing of what it was sent, as far as this process knows.
#[derive(Debug)]
pub(super) struct Patience {
    most: Duration,
    since: Mutex<Option<Instant>>,
}

impl Patience {
    pub(super) fn new(most: Duration) -> Self {
        Self { most, since: Mutex::default() }
    }

    /// It took one.
    pub(super) fn taken(&self) {
        *self.since.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }

    /// It did not take one. Where that has gone on for too long, for how long; then it begins anew, so that a sink that is
    /// resumed has as much time again.
    pub(super) fn not_taken(&self) -> Option<Duration> {
        let mut since = self.since.lock().unwrap_or_else(PoisonError::into_inner);
        let lasted = since.get_or_insert_with(Instant::now).elapsed();
        let is_over = lasted >= self.most;
        if is_over {
            *since = None;
        }
        is_over.then_some(lasted)
    }
}

/// A receiver has taken nothing for too long.
#[derive(Debug, thiserror::Error)]
#[error("the receiver has taken no event for {lasted:.0?}, and `webhook.disable_after` is over")]
pub(super) struct Exhausted {
    pub(super) lasted: Duration,
    #[source]
    pub(super) last: sendoff_core::BoxError,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_success_in_five_days_is_enough() {
        let (day, most) = (Duration::from_secs(86_400), Duration::from_secs(5 * 86_400));
        let patience = Patience::new(most);
        for _ in 0..3 {
            assert_eq!(patience.not_taken(), None);
            tokio::time::advance(4 * day).await;
            assert_eq!(patience.not_taken(), None);
            patience.taken();
        }
        assert_eq!(patience.not_taken(), None);
        tokio::time::advance(most).await;
        assert_eq!(patience.not_taken(), Some(most));
        assert_eq!(patience.not_taken(), None, "after that it begins anew");
    }
}
