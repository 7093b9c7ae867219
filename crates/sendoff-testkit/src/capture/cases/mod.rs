//! The promises, by what they are about. Each takes a fresh harness and one way to write.
#![allow(clippy::unwrap_used, clippy::missing_panics_doc, reason = "test code, in a library")]

mod dropped;
mod hooks;
mod once;
mod open;
mod refused;
mod savepoint;
mod settled_in;
mod written;

pub use dropped::*;
pub use hooks::*;
pub use once::*;
pub use open::*;
pub use refused::*;
pub use savepoint::*;
pub use settled_in::*;
pub use written::*;
