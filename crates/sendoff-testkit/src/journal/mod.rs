//! The suite every journal passes; [`publish`] has the one for those that can publish.
//!
//! A journal joins with a [`JournalHarness`] and one line; every case becomes a test of its own:
//!
//! ```
//! use sendoff_engine::journal::{Journal, JournalStore, MemoryJournal};
//! use sendoff_testkit::journal::{Answers, Deed, Ending, JournalHarness};
//!
//! struct InMemory(Journal<MemoryJournal>);
//!
//! impl JournalHarness for InMemory {
//!     type Store = MemoryJournal;
//!
//!     fn journal(&self) -> &Journal<MemoryJournal> {
//!         &self.0
//!     }
//!
//!     // It has no transactions of others: what is rolled back was never there.
//!     async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
//!         let mut answers = Vec::new();
//!         for step in steps {
//!             answers.push(match (step, ending) {
//!                 (Deed::Append(append), Ending::Commit) => self.0.append_as(append).await,
//!                 _ => Ok(Vec::new()),
//!             });
//!         }
//!         answers
//!     }
//! }
//!
//! sendoff_testkit::journal_suite!(InMemory(Journal::new(MemoryJournal::new())));
//! ```

pub mod busy;
pub mod by_sql;
pub mod cases;
pub mod facts;
mod harness;
pub mod large;
mod latch;
pub mod limits;
mod outages;
pub mod publish;
pub mod race;
mod suite;
mod torture;

pub use async_trait::async_trait;
pub use harness::{Answers, Appended, Deed, Ending, JournalHarness, Moving, RetainHarness};
pub use latch::Latch;
pub use outages::all_is_published_through_outages;
pub use publish::{Projecting, PublishHarness, Rounds};
pub use suite::run;
pub use torture::{Script, Step, Torture, TortureHarness, Tortured, Writer, torture};
