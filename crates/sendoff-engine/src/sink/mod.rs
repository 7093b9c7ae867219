//! The one door to code that is not ours: where events go, what is around it, and the shield.
//!
//! Promise: whatever that code does, its caller goes on with a verdict. Handlers, functions over batches
//! and blocking code are sinks by adapter ([`HandlerSink`], [`BatchSink`], [`blocking()`]).

mod batch;
mod blocking;
mod circuit;
mod deadline;
mod door;
mod fan_out;
mod handler;
mod included;
mod interceptor;
mod limited;
mod outage;
mod paced;
mod policy;
mod reaction;
mod shield;
mod tracer;
mod typed;

pub use batch::BatchSink;
pub use blocking::{Blocking, blocking};
pub use fan_out::{FanOut, fan_out};
pub use handler::{AnyHandler, Handler, HandlerResult, HandlerSink};
pub use included::{LogSink, Seen, StatisticsSink};
pub use interceptor::{After, Before, Interceptor};
pub use limited::{Limited, at_most, deadline};
pub use paced::{Paced, Rate, paced};
pub use tracer::Tracer;
pub use typed::EventHandler;

pub(crate) use circuit::{Began, Circuit, Learned};
pub(crate) use deadline::check_deadline;
pub(crate) use door::Door;
pub(crate) use interceptor::Interceptors;
pub(crate) use outage::{Outage, Pauses};
pub(crate) use policy::shielded_policy;
pub(crate) use reaction::Reactions;
pub(crate) use shield::{discard, error_text, last_words, shield, shielded};
pub(crate) use tracer::Traces;
pub(crate) use typed::Typed;
