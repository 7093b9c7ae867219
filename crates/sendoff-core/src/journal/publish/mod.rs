//! Publishing a journal: the pure decisions behind who works which pair, when, and what follows a
//! failure.

mod balance;
mod idle;
mod pair;
mod poison;

pub use balance::{Lead, Leadership, Node, Plan, Seat, Standing, balance};
pub use idle::IdleBackoff;
pub use pair::{CursorStatus, PairId, UnknownCursorStatus};
pub use poison::{Poison, Run, Step, after_failed_run};
