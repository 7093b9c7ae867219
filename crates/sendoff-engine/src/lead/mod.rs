//! Who works on what: being one of the nodes, and sharing seats with the others.
//!
//! Promise: a node, not a seat, says that it is alive, so that leading a thousand seats costs what
//! leading ten does; and a node begins nothing once others may believe that it is dead.
//!
//! `member` says that the node is alive, and looks at the tables once a round; `roster` is what this node
//! makes of the others, and of the seats that nobody leads. What a seat is, how it is taken and given up,
//! and what was done when it changes hands, is for whoever has seats: a pair's is in
//! [`journal::publish`](crate::journal::publish).
//!
//! Not here: who should lead what (see [`sendoff_core::lead`]).

mod member;
mod membership;
mod roster;

pub use membership::{Beat, Membership, NodeCard, NodeSeen};

pub(crate) use member::{Alive, Look, Member, Round};
pub(crate) use roster::{Roster, SeatSeen, Terms};
