use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Jitter, RetryPolicy};
use tracing::error;

use super::shield::shielded;

/// A retry policy behind the shield: where it panics, `instead` is waited.
#[derive(Debug)]
struct Shielded {
    policy: Arc<dyn RetryPolicy>,
    instead: Duration,
}

pub(crate) fn shielded_policy(
    policy: Arc<dyn RetryPolicy>,
    instead: Duration,
) -> Arc<dyn RetryPolicy> {
    Arc::new(Shielded { policy, instead })
}

impl RetryPolicy for Shielded {
    fn delay(&self, attempt: u32, jitter: Jitter) -> Duration {
        shielded(|| self.policy.delay(attempt, jitter)).unwrap_or_else(|panic| {
            error!(error = panic.report(), "the retry policy failed; waiting for its maximum");
            self.instead
        })
    }
}
