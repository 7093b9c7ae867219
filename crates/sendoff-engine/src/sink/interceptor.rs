//! Code of the application that runs around every delivery.

use std::sync::Arc;

use sendoff_core::{BoxError, Delivery, Failure, Verdict};
use tracing::warn;

use super::shield::{last_words, shielded};

/// Runs around every delivery: for audit, tracing, measuring.
///
/// `before` runs in the order of registration; an error ends the attempt as if the handler had
/// failed. `after` runs in reverse order, with the failure or none; its own error is logged and
/// swallowed.
pub trait Interceptor: Send + Sync + 'static {
    /// Before the event is delivered.
    fn before(&self, delivery: &Delivery) -> Result<(), Failure> {
        let _ = delivery;
        Ok(())
    }

    /// After the attempt.
    fn after(&self, delivery: &Delivery, failure: Option<&Failure>) -> Result<(), BoxError> {
        let _ = (delivery, failure);
        Ok(())
    }
}

impl<I: Interceptor + ?Sized> Interceptor for Arc<I> {
    fn before(&self, delivery: &Delivery) -> Result<(), Failure> {
        (**self).before(delivery)
    }

    fn after(&self, delivery: &Delivery, failure: Option<&Failure>) -> Result<(), BoxError> {
        (**self).after(delivery, failure)
    }
}

/// An interceptor that only looks before: `Before(|delivery| …)`.
#[derive(Debug)]
pub struct Before<F>(pub F);

impl<F> Interceptor for Before<F>
where
    F: Fn(&Delivery) -> Result<(), Failure> + Send + Sync + 'static,
{
    fn before(&self, delivery: &Delivery) -> Result<(), Failure> {
        (self.0)(delivery)
    }
}

/// An interceptor that only looks after: `After(|delivery, failure| …)`.
#[derive(Debug)]
pub struct After<F>(pub F);

impl<F> Interceptor for After<F>
where
    F: Fn(&Delivery, Option<&Failure>) -> Result<(), BoxError> + Send + Sync + 'static,
{
    fn after(&self, delivery: &Delivery, failure: Option<&Failure>) -> Result<(), BoxError> {
        (self.0)(delivery, failure)
    }
}

/// All of them, in the order of registration. Cheap to clone.
#[derive(Clone, Default)]
pub(crate) struct Interceptors(Arc<[Arc<dyn Interceptor>]>);

impl Interceptors {
    pub(crate) fn of(all: Vec<Arc<dyn Interceptor>>) -> Self {
        Self(all.into())
    }

    /// The deliveries up to the first that one of them refuses, and why.
    pub(super) fn before<'d>(
        &self,
        deliveries: &'d [Delivery],
    ) -> (&'d [Delivery], Option<Failure>) {
        for (at, delivery) in deliveries.iter().enumerate() {
            for interceptor in self.0.iter() {
                if let Err(failure) = shielded(|| interceptor.before(delivery)).flatten() {
                    return (&deliveries[..at], Some(failure));
                }
            }
        }
        (deliveries, None)
    }

    /// Tells them of every verdict.
    pub(super) fn after(&self, deliveries: &[Delivery], verdicts: &[Verdict]) {
        for (delivery, verdict) in deliveries.iter().zip(verdicts) {
            let failure = verdict.as_ref().err();
            for interceptor in self.0.iter().rev() {
                let after = || interceptor.after(delivery, failure).map_err(Failure::retry);
                if let Err(error) = shielded(after).flatten() {
                    // Before the log, which may be off and would drop the error as it is.
                    let error = last_words(error);
                    warn!(error, "interceptor failed after");
                }
            }
        }
    }
}
