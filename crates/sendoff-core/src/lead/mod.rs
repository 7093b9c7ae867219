//! Who works on what: the pure decisions behind nodes that share work.
//!
//! A *seat* is whatever one node at a time works on, named by a key; a pair of a journal is one. Every
//! node sees the same nodes and seats, decides the same by [`balance`], and carries out its own part.
//!
//! Not here: saying that a node is alive, and looking at the others (see `sendoff_engine::lead`); what
//! is done with a seat, and the epoch that fences who led it before (whoever has seats).

mod balance;
mod standing;

pub use balance::{Lead, Node, Plan, Seat, Sharing, balance};
pub use standing::Standing;
