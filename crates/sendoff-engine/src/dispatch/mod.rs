//! Running handlers: who listens, what wraps a run, and what follows it.

mod attempt;
mod blocking;
mod handler;
mod interceptor;
mod listeners;
mod shield;
mod supervise;
mod watch;
mod worker;

pub use blocking::{Blocking, blocking};
pub use handler::{AnyHandler, Handler, HandlerResult};
pub use interceptor::{After, Before, Interceptor};
pub use listeners::{DuplicateListener, Listeners, NoListener};

pub(crate) use attempt::attempt;
pub(crate) use shield::{discard, error_text, last_words, shield, shielded};
pub(crate) use supervise::{Restarts, supervise};
pub(crate) use watch::{Slots, Watch};
pub(crate) use worker::Worker;
