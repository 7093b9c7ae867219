//! Publishing a journal: the pure decisions behind when a pair works, and what follows a failure. Who
//! works which pair is in [`lead`](crate::lead).

mod idle;
mod leadership;
mod pair;
mod poison;

pub use idle::IdleBackoff;
pub use leadership::Leadership;
pub use pair::{CursorStatus, PairId, PublishRun, UnknownCursorStatus, WaitsAt};
pub use poison::{AfterFailure, Poison, Probes, Run, Step};
