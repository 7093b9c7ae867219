//! Running handlers: who listens, what wraps a run, and what follows it.

mod attempt;
mod handler;
mod interceptor;
mod listeners;
mod worker;

pub use handler::{AnyHandler, Blocking, Handler, HandlerResult, blocking};
pub use interceptor::{After, Before, Interceptor};
pub use listeners::{DuplicateListener, Listeners, NoListener};

pub(crate) use attempt::{attempt, error_text, shielded};
pub(crate) use worker::Worker;
