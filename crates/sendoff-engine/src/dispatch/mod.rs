//! Between a source and a sink: which handler, one run at a time, and what follows it.

mod alone;
mod due;
mod follow_up;
mod handlers;
mod runs;
mod supervise;
mod unknown;
mod watch;
mod worker;

pub use handlers::{DuplicateHandler, Handlers, NoHandler};

pub(crate) use alone::{Company, Place, comes_to, is_company};
pub(crate) use due::Due;
pub(crate) use follow_up::{FollowUp, unroutable};
pub(crate) use handlers::{Route, demand, name_of};
pub(crate) use runs::{Run, Runs, say_if_alone};
pub(crate) use supervise::{Restarts, supervise};
pub(crate) use unknown::{Elsewhere, Kind, Strange, Unknown};
pub(crate) use watch::Watch;
pub(crate) use worker::Worker;
