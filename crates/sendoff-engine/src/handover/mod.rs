//! From a committed row to a worker: the two lanes, and what this node holds.

mod alarm;
mod confirm;
mod holds;
mod intake;
mod lanes;
mod poller;

pub(crate) use alarm::Alarm;
pub(crate) use confirm::Confirmer;
pub(crate) use holds::{Admission, Holds, Run};
pub(crate) use intake::{Handover, HotRow};
pub(crate) use lanes::{Lanes, Parcel};
pub(crate) use poller::Poller;

pub use lanes::LaneDepths;
