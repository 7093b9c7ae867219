//! The suite of the batch relay and the topic worker.
//!
//! A store that passes [`conformance`](crate::conformance) joins with the same harness and one line;
//! every case runs in both claim modes:
//!
//! ```
//! # use std::sync::Arc;
//! # use std::time::Duration;
//! # use sendoff_core::Timestamp;
//! # use sendoff_engine::Clock;
//! # use sendoff_engine::capture::{CommitBlocking, WriteError};
//! # use sendoff_engine::memory::MemoryStore;
//! # use sendoff_engine::store::{Born, NewRow};
//! # use sendoff_testkit::clock::ManualClock;
//! # use sendoff_testkit::conformance::{StoreHarness, async_trait};
//! # struct InMemory { clock: ManualClock, store: MemoryStore }
//! # impl InMemory {
//! #     async fn fresh() -> Self {
//! #         let clock = ManualClock::new();
//! #         Self { store: MemoryStore::with_clock(Arc::new(clock.clone())), clock }
//! #     }
//! # }
//! # #[async_trait]
//! # impl StoreHarness for InMemory {
//! #     type Store = MemoryStore;
//! #     fn store(&self) -> &MemoryStore { &self.store }
//! #     async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
//! #         let tx = self.store.transaction().map_err(|_| WriteError::Closed)?;
//! #         self.store.commit_blocking(tx, rows).map_err(|error| WriteError::Driver(error.into()))
//! #     }
//! #     async fn roll_back(&self, _: &[NewRow]) -> Result<Vec<Born>, WriteError> { Ok(Vec::new()) }
//! #     async fn now(&self) -> Timestamp { self.clock.now() }
//! #     async fn pass(&self, time: Duration) { self.clock.advance(time); }
//! # }
//! sendoff_testkit::relay_suite!(InMemory::fresh().await);
//! ```

#![allow(clippy::unwrap_used, reason = "a case is a test")]

mod batches;
mod programs;
mod runs;
mod suite;
mod topics;

pub use batches::*;
pub use programs::*;
pub use runs::*;
pub use topics::*;

use std::time::Duration;

use sendoff_core::{EventId, Jitter, RetryPolicy, Status, Timestamp};
use sendoff_engine::relay::{ClaimMode, Consumer, RelayOptions};

use crate::conformance::{Probe, StoreHarness};

/// A probe whose store can be given to a relay.
pub trait Relayed: StoreHarness<Store: Clone> {}

impl<H: StoreHarness<Store: Clone>> Relayed for H {}

/// Short waits, and holds that last as long as a test may take.
fn options(mode: ClaimMode) -> RelayOptions {
    RelayOptions {
        mode,
        workers: 2,
        poll_interval: Duration::from_millis(10),
        ..RelayOptions::default()
    }
}

fn consumer<H: Relayed>(probe: &Probe<H>, options: RelayOptions) -> Consumer {
    Consumer::new(probe.store().clone(), options).expect("the configuration is good")
}

/// The same delay every time.
#[derive(Debug, Clone, Copy)]
struct Every(Duration);

impl RetryPolicy for Every {
    fn delay(&self, _: u32, _: Jitter) -> Duration {
        self.0
    }
}

/// What must be as it was when an event is put back.
type Content = (Status, u32, u32, Timestamp, Option<String>, Option<String>);

async fn content<H: StoreHarness>(probe: &Probe<H>, id: EventId) -> Content {
    let row = probe.row(id).await;
    (row.status, row.attempts, row.losses, row.due_at, row.last_error, row.locked_by)
}

async fn contents<H: StoreHarness>(probe: &Probe<H>, ids: &[EventId]) -> Vec<Content> {
    let mut contents = Vec::new();
    for id in ids {
        contents.push(content(probe, *id).await);
    }
    contents
}

/// The status of each; DONE where the store keeps nothing.
async fn statuses<H: StoreHarness>(probe: &Probe<H>, ids: &[EventId]) -> Vec<Status> {
    let mut statuses = Vec::new();
    for id in ids {
        statuses.push(probe.find(*id).await.map_or(Status::Done, |row| row.status));
    }
    statuses
}
