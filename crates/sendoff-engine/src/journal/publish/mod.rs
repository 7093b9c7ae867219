//! Publishing: every (topic, publisher) pair gets what its topic selects, in the order of positions.
//!
//! Promise: nothing is skipped; a pair is worked by one node at a time, as far as nodes can know, and
//! its cursor is moved only by who leads it, from where it is: an old leader moves nothing, and an
//! operator's SQL wins. A publisher that fails touches no other pair, and an outage of its target
//! ends by itself.
//!
//! The way of a fact: `feed` reads the journal's end once for all pairs into a `window`; `node`
//! decides which pair works when, and writes their cursors together; `work` is one pair's batch.
//! `look` is what it sees of nodes and cursors each round.
//!
//! Not here: SQL (see the store crates), being one of the nodes and who should lead what (see
//! [`lead`](crate::lead)), when a fact is poison and how idle pairs slow down (see
//! [`sendoff_core::journal::publish`]).

mod caught_up;
mod complaint;
mod feed;
mod look;
mod memory;
mod node;
mod operate;
mod options;
mod pair;
mod past;
mod service;
mod settle_in;
mod statistics;
mod store;
mod tries;
mod window;
mod work;

pub(super) use caught_up::Surveys;
pub(super) use memory::Desk;
pub(crate) use memory::LockedCursor;
pub(super) use settle_in::SettlingRuns;

pub use caught_up::PairCaughtUp;
pub use operate::{Publishers, To};
pub use options::{Mode, PairOptions, ParkedOptions, PublishOptions, Start, UnavailableOptions};
pub use service::{PublishOptionsError, Publishing, PublishingBuilder};
pub use settle_in::{JoinJournal, SettleInError};
pub use statistics::Statistics;
pub use store::{
    Change, ChangeParked, Cursor, Move, Moved, Park, Parked, ParkedChange, ParkedPage,
    PublishStore, Retried, Seen, Survey, TriedAgain, Which,
};
