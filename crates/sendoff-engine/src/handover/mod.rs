//! From a committed row to a worker: the two lanes, and what this node holds.

mod alarm;
mod confirm;
mod deadline;
mod holds;
mod intake;
mod lanes;
mod poller;
mod ticket;

pub(crate) use alarm::Alarm;
pub(crate) use confirm::Confirmer;
pub(crate) use deadline::Deadline;
pub(crate) use holds::{Admission, Holds};
pub(crate) use intake::{Drops, Handover, HotRow};
pub(crate) use lanes::{Lanes, Parcel};
pub(crate) use poller::Poller;
pub(crate) use ticket::Ticket;

use holds::Run;

pub use lanes::LaneDepths;
