use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{
    Attempt, Failure, FailureClass, Jitter, Next, RetryPolicy, Unroutable, after_failure,
    after_unroutable,
};

use super::NoHandler;
use crate::lock::lock;
use crate::sink::error_text;
use crate::store::Outcome;

/// Decides what follows a failed run.
#[derive(Clone)]
pub(crate) struct FollowUp {
    /// Behind the shield.
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) max_attempts: u32,
    pub(crate) unroutable: Unroutable,
    pub(crate) random: Arc<Mutex<fastrand::Rng>>,
}

impl FollowUp {
    /// What a failure is about: that an event of this age has no handler is no failure of one.
    pub(crate) fn class(&self, failure: &Failure, age: Duration) -> FailureClass {
        match unroutable(failure) {
            true => after_unroutable(self.unroutable, age),
            false => failure.class(),
        }
    }

    /// What a failure of this class leads to.
    pub(crate) fn after(
        &self,
        attempt: Attempt,
        failure: &Failure,
        class: FailureClass,
    ) -> Outcome {
        let error = error_text(failure);
        let jitter = Jitter::new(lock(&self.random).f64());
        match after_failure(attempt, class, &*self.retry, self.max_attempts, jitter) {
            Next::Retry { delay, attempts } => Outcome::Retry { delay, attempts, error },
            Next::Dead { attempts } => Outcome::Dead { attempts, error },
        }
    }
}

/// Whether there is no handler.
pub(crate) fn unroutable(failure: &Failure) -> bool {
    failure.error().is::<NoHandler>()
}
