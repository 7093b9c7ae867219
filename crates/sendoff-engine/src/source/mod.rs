//! From a committed row to a worker: the two lanes, and what this node holds.

mod alarm;
mod asking;
mod beside;
mod breadth;
mod confirm;
mod fair;
mod floor;
mod handover;
mod held_keys;
mod held_rows;
mod holds;
mod key_looks;
mod key_turn;
mod keys;
mod lanes;
mod locked_rows;
mod looks;
mod pauses;
mod poller;
mod portion;
mod register;
mod ticket;
mod turns;
mod walk;

pub(crate) use alarm::Alarm;
pub(crate) use asking::{Ask, Asking};
pub(crate) use breadth::{Breadth, is_cut};
pub(crate) use confirm::Confirmer;
pub(crate) use fair::Fair;
pub(crate) use handover::{Drops, Handover, HotRow, Stamp};
pub(crate) use held_keys::HeldKeys;
pub(crate) use held_rows::HeldRows;
pub(crate) use holds::{Admission, Holds, Joined, Joining};
pub(crate) use key_looks::KeyLooks;
pub(crate) use key_turn::KeyTurn;
pub(crate) use keys::{KeyEnd, Keys, Link, Next, Taken, ended_without_run};
pub(crate) use lanes::{
    Bound, Capacity, Demand, Drawn, Lanes, Parcel, Run as HandlerRun, Speed, Wanted,
};
pub(crate) use locked_rows::Locked;
pub(crate) use looks::{Looks, Mark};
pub(crate) use pauses::{PauseWatch, Pauses};
pub(crate) use poller::Poller;
pub(crate) use register::{Mine, Register};
pub(crate) use ticket::{Deadline, Ticket};
pub(crate) use turns::Turns;
pub(crate) use walk::Walk;

use holds::Run;

pub use lanes::LaneDepths;
