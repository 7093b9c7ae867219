use sendoff_core::{BoxError, Delivery, Failure};

/// Runs around every delivery: for audit, tracing, measuring.
///
/// `before` runs in the order of registration; an error ends the attempt as if the handler had
/// failed. `after` runs in reverse order, with the failure or none; its own error is logged and
/// swallowed.
pub trait Interceptor: Send + Sync + 'static {
    /// Before the listener is found and run.
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
