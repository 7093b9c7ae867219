//! The suite every store passes.
//!
//! A store joins with a [`StoreHarness`] and one line; every case becomes a test of its own, named
//! after the behaviour it holds:
//!
//! ```
//! use std::sync::Arc;
//! use std::time::Duration;
//!
//! use sendoff_core::Timestamp;
//! use sendoff_engine::Clock;
//! use sendoff_engine::capture::{CommitError, CaptureBlocking, CommitBlocking, WriteError};
//! use sendoff_engine::memory::MemoryStore;
//! use sendoff_engine::store::{Born, NewRow};
//! use sendoff_testkit::clock::ManualClock;
//! use sendoff_testkit::conformance::{StoreHarness, async_trait};
//!
//! struct InMemory {
//!     clock: ManualClock,
//!     store: MemoryStore,
//! }
//!
//! impl InMemory {
//!     async fn fresh() -> Self {
//!         let clock = ManualClock::new();
//!         Self { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
//!     }
//! }
//!
//! #[async_trait]
//! impl StoreHarness for InMemory {
//!     type Store = MemoryStore;
//!
//!     fn store(&self) -> &MemoryStore {
//!         &self.store
//!     }
//!
//!     async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
//!         let tx = self.store.transaction().map_err(|_| WriteError::Closed)?;
//!         self.store.commit_blocking(tx, rows).map_err(|error| match error {
//!             CommitError::Refused(refused) => refused,
//!             other => WriteError::Driver(other.into()),
//!         })
//!     }
//!
//!     async fn roll_back(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
//!         let tx = self.store.transaction().map_err(|_| WriteError::Closed)?;
//!         let born = self.store.insert_blocking(&tx, rows)?;
//!         tx.rollback();
//!         Ok(born)
//!     }
//!
//!     async fn now(&self) -> Timestamp {
//!         self.clock.now()
//!     }
//!
//!     async fn pass(&self, time: Duration) {
//!         self.clock.advance(time);
//!     }
//! }
//!
//! sendoff_testkit::store_suite!(InMemory::fresh().await);
//! ```

pub mod cases;
mod harness;
pub(crate) mod probe;
mod suite;

pub use async_trait::async_trait;
pub use harness::{ClockHarness, ForeignLock, LateWrite, StoreHarness};
pub use probe::Probe;
pub use suite::{run, run_if_there};
