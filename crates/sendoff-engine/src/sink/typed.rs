//! Handlers that get an event as the type it is of.

use std::future::Future;
use std::marker::PhantomData;
use std::num::NonZeroUsize;
use std::time::Duration;

use sendoff_core::Delivery;
use serde::de::DeserializeOwned;

use super::{Handler, HandlerResult};

/// Receives events of one type, already read, one at a time.
///
/// Async functions and closures that take the event and its [`Delivery`] are such handlers; a type can
/// implement it with a plain `async fn`. A payload that cannot be read as `E` never reaches it: such an
/// event is a dead letter at once, whose error names the field and what was expected there.
///
/// ```
/// use sendoff_core::Delivery;
/// use sendoff_engine::{EventHandler, HandlerResult};
///
/// async fn ship(order: u64, delivery: Delivery) -> HandlerResult {
///     println!("attempt {} to ship {order}", delivery.attempt);
///     Ok(())
/// }
///
/// struct Mailer;
/// impl EventHandler<String> for Mailer {
///     async fn handle(&self, _address: String, _: Delivery) -> HandlerResult {
///         Ok(())
///     }
/// }
///
/// fn takes<E>(_: impl EventHandler<E>) {}
/// takes::<u64>(ship);
/// takes::<String>(Mailer);
/// takes(|_: u64, _: Delivery| async { Ok(()) });
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no handler of `{E}`",
    label = "takes no `({E}, Delivery)`, or answers no `HandlerResult`",
    note = "a handler is an `async fn({E}, Delivery) -> HandlerResult`, a closure like that, or a type with `impl EventHandler<{E}>`",
    note = "a handler of the `Delivery` alone is registered with `on_raw`"
)]
pub trait EventHandler<E>: Send + Sync + 'static {
    /// Handles one event. `Ok` means the effect is durable: the event will be marked DONE.
    fn handle(&self, event: E, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send;

    /// How many runs of it may go on at once; see [`at_most`](super::at_most()).
    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        None
    }

    /// How long one run of it may take; see [`deadline`](super::deadline()).
    fn deadline(&self) -> Option<Duration> {
        None
    }
}

impl<E, F, Fut> EventHandler<E> for F
where
    F: Fn(E, Delivery) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = HandlerResult> + Send,
{
    fn handle(&self, event: E, delivery: Delivery) -> impl Future<Output = HandlerResult> + Send {
        self(event, delivery)
    }
}

/// A handler of `E` as one of deliveries.
pub(crate) struct Typed<E, H> {
    handler: H,
    event: PhantomData<fn(E)>,
}

impl<E, H> Typed<E, H> {
    pub(crate) fn new(handler: H) -> Self {
        Self { handler, event: PhantomData }
    }
}

impl<E, H> Handler for Typed<E, H>
where
    E: DeserializeOwned + Send + 'static,
    H: EventHandler<E>,
{
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        let event = delivery.read_json()?;
        self.handler.handle(event, delivery).await
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.handler.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        self.handler.deadline()
    }
}
