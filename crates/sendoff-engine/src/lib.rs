//! Moves events from a committed transaction to their handlers.
//!
//! Promise: a handler runs only for a row this process holds, and a row is settled only by who holds
//! it. The folders are the way of an event: `capture`, `handover`, `dispatch`, `settle`, `operate`.
//!
//! Not here: SQL (see the store crates), pure decisions (see `sendoff-core`).

pub mod capture;
mod clock;
pub mod memory;
pub mod store;

pub use clock::{Clock, SystemClock, TokioClock};
