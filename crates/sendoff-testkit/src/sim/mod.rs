//! SimWorld: several real engines on virtual time, over one table and a bad network.
//!
//! One seed makes one world: which nodes there are (outboxes, and relays that hold or lock their
//! rows), what their writers write, what their handlers do, when a node is killed, stopped for a
//! while or for good, cut off or added, which rows a foreign session locks, what an operator does about
//! dead events and deletes of what is old, when the database's clock jumps, and which statements are lost, late or carried out twice. Beside them, over a journal and a
//! network of their own, nodes publish to pairs (`publishing`). Everything runs on one thread with paused
//! time, so the same seed gives the same world, to the last step. The
//! [history checker](crate::history) judges it.
//!
//! Not here: real sockets, real processes, real clocks. Those have their own tests.

mod bug;
mod capture;
mod clock;
mod gate;
mod keys;
mod node;
mod operator;
mod publishing;
mod script;
mod session;
mod weather;
mod wire;
mod world;

pub use bug::Bug;
pub use node::SCRIPTED_PANIC;
pub use publishing::Published;
pub use world::{Report, simulate, simulate_with};
