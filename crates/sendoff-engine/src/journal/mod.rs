//! The journal: facts are appended, never changed, and read in the order of their positions.
//!
//! Promise: an append stores all of its facts or none, and none where its condition does not hold; of
//! appends that exclude one another one succeeds. A decision misses nothing that its condition would
//! not find. A tail skips nothing, however late it commits. [`publish`] carries it to publishers,
//! and [`retain`] lets go what all of them have passed.
//!
//! Not here: SQL (see the store crates); which locks, and when a gap is one (see
//! [`sendoff_core::journal`]).

mod books;
mod doctor;
mod error;
mod execute;
mod handle;
mod lending;
mod locked;
mod memory;
mod model;
mod pages;
pub mod publish;
pub mod retain;
mod shelf;
mod store;
mod tail;
mod times;
mod turns;
mod vigil;

pub use books::{Books, MemoryKey, Remembered};
pub use error::{AppendError, Conflict, DecideError, ExecuteError, TailError};
pub use execute::{Decision, Executed};
pub use handle::Journal;
pub use lending::{Lending, Lent, Patience, Purpose};
pub use memory::MemoryJournal;
pub use model::{Decided, Fold, Model, fold};
pub use store::{
    AppendIn, AppendInBlocking, Armed, Basis, Found, JournalStore, LOCK_TRIES, Locked,
    LockedDecision, Mark, Page, Receipt, TailLook, TailRow, TailSource, Undecided,
};
pub use tail::{Batch, TailOptions, TailReader};
