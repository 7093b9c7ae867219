//! Between a source and a sink: which handler, one run at a time, and what follows it.

mod alone;
mod disable;
mod due;
mod follow_up;
mod handlers;
mod missing;
mod registration;
mod roster;
mod runs;
mod seen;
mod supervise;
mod unknown;
mod watch;
mod worker;

pub use handlers::Handlers;
pub use missing::NoHandler;
pub use registration::{DuplicateHandler, RegisterError, Registration};

pub(crate) use alone::{Company, Place, comes_to, is_company};
pub(crate) use disable::{Disabled, class_of};
pub(crate) use due::Due;
pub(crate) use follow_up::{DID_NOT_COMMIT, FollowUp, unroutable};
pub(crate) use handlers::{Removed, Route, check_sink, demand, name_of};
pub(crate) use roster::{Now, Roster};
pub(crate) use runs::{Run, Runs, say_if_alone};
pub(crate) use supervise::{Restarts, supervise};
pub(crate) use unknown::{Elsewhere, Kind, Strange, Unknown, deferred_for};
pub(crate) use watch::Watch;
pub(crate) use worker::Worker;
