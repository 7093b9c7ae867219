//! The journal's vocabulary and its pure decisions.
//!
//! A journal is a log: facts are appended and never changed, and each has a [`Position`]. What is
//! appended is a [`Fact`], what is read is [`Recorded`]; a [`Query`] says which, a [`Condition`]
//! what must not have happened since, a [`Topic`] what a publisher wants to see.
//!
//! Two decisions are made here and carried out by stores: which locks keep appends apart that
//! exclude one another ([`Locks`]), and when a position that is missing will never be there
//! ([`Tail`]). What concerns publishers is in [`publish`], what may go in [`retain`], and when
//! something is wrong in [`doctor`].

mod append;
pub mod doctor;
mod fact;
mod invalid;
mod lock;
mod position;
pub mod publish;
mod query;
pub mod retain;
mod run;
mod tag;
mod tail;
mod topic;

pub use append::Append;
pub use fact::{Fact, FactBuilder, IntoFact, Recorded};
pub use invalid::Invalid;
pub use lock::{Lock, Locks, Mode, Slot};
pub use position::{InvalidPosition, Position};
pub use query::{Condition, Item, Query};
pub use run::Run;
pub use tag::{Tag, Tags};
pub use tail::{Ask, Holder, HolderId, Look, Seen, Sequence, Server, Tail, Unsafe};
pub use topic::{Topic, TopicBuilder};
