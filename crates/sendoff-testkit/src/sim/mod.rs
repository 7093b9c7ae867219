//! SimWorld: several real engines on virtual time, over one table and a bad network.
//!
//! One seed makes one world: which nodes there are, what their writers write, what their handlers
//! do, when a node is killed, stopped, cut off or added, and which statements are lost, late or
//! carried out twice. Everything runs on one thread with paused time, so the same seed gives the
//! same world, to the last step. The [history checker](crate::history) judges it.
//!
//! Not here: real sockets, real processes, real clocks. Those have their own tests.

mod gate;
mod node;
mod script;
mod weather;
mod wire;
mod world;

pub use node::SCRIPTED_PANIC;
pub use wire::Bug;
pub use world::{Report, simulate, simulate_with};
