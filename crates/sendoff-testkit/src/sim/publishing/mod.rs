//! The journal's side of a world: several publishing nodes on virtual time, over one journal and a bad
//! network.
//!
//! One seed decides what is appended, what the targets of three pairs do, when a node is killed, closed,
//! added, stopped for a while or for good, which cursors a foreign session locks, which targets are
//! unavailable for a while, and which statements are lost, late or carried out twice. Each pair has a history of its own; the
//! [checker](crate::history) judges them: every fact that was committed reaches every pair it is for, in
//! the order of positions, and nothing comes twice without a fault.
//!
//! Not here: appends that overlap and leave gaps, and facts that are parked.

mod line;
mod node;
mod store;
mod target;
mod world;

pub use world::Published;
pub(super) use world::publish;
