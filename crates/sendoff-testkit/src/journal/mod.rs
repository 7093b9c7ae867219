//! The suite every journal passes; [`publish`] has the one for those that can publish.
//!
//! A journal joins with a [`JournalHarness`] and one line; every case becomes a test of its own:
//!
//! ```
//! use std::time::Duration;
//!
//! use sendoff_core::journal::Append;
//! use sendoff_engine::journal::{AppendError, Journal, JournalStore, MemoryJournal, Receipt};
//! use sendoff_testkit::journal::{Ending, JournalHarness, async_trait};
//!
//! struct InMemory(Journal<MemoryJournal>);
//!
//! #[async_trait]
//! impl JournalHarness for InMemory {
//!     type Store = MemoryJournal;
//!
//!     fn journal(&self) -> &Journal<MemoryJournal> {
//!         &self.0
//!     }
//!
//!     // It has no transactions of others: what is rolled back was never there.
//!     async fn append_in(
//!         &self,
//!         append: &Append,
//!         _: Duration,
//!         ending: Ending,
//!     ) -> Result<Vec<Receipt>, AppendError> {
//!         match ending {
//!             Ending::Commit => self.0.append_as(append).await,
//!             Ending::RollBack => Ok(Vec::new()),
//!         }
//!     }
//! }
//!
//! sendoff_testkit::journal_suite!(InMemory(Journal::new(MemoryJournal::new())));
//! ```

pub mod cases;
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
pub use harness::{Deed, Ending, JournalHarness, RetainHarness, TransactionHarness};
pub use latch::Latch;
pub use outages::all_is_published_through_outages;
pub use publish::{PublishHarness, Rounds};
pub use suite::run;
pub use torture::{Script, Step, Torture, TortureHarness, Tortured, Writer, torture};
