//! The suites every store and every driver passes.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use sendoff_core::Timestamp;
use sendoff_engine::Clock;
use sendoff_engine::capture::InsertResult;
use sendoff_engine::store::NewRow;
use sendoff_sqlite::{Retention, SqliteOptions, SqliteStore};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::conformance::{ClockHarness, StoreHarness, async_trait};
use sendoff_testkit::steps::{commit_blocking_on, roll_back_blocking_on};
use tempfile::TempDir;

pub(crate) struct File {
    clock: ManualClock,
    store: SqliteStore,
    options: SqliteOptions,
    folder: TempDir,
}

impl File {
    async fn with(retention: Retention) -> Self {
        let clock = ManualClock::new();
        let options =
            SqliteOptions { retention, clock: Arc::new(clock.clone()), ..Default::default() };
        Self::open(clock, options).await
    }

    /// One with the index for fair claims.
    async fn shared() -> Self {
        let clock = ManualClock::new();
        let options = SqliteOptions {
            clock: Arc::new(clock.clone()),
            tenant_index: true,
            ..Default::default()
        };
        Self::open(clock, options).await
    }

    /// One whose time passes by itself.
    pub(crate) async fn in_time() -> Self {
        Self::open(ManualClock::new(), SqliteOptions::default()).await
    }

    async fn open(clock: ManualClock, options: SqliteOptions) -> Self {
        let folder = TempDir::new().unwrap();
        let path = folder.path().join("a.db");
        let store = SqliteStore::open_with(path, options.clone()).await.unwrap();
        Self { clock, store, options, folder }
    }

    fn connect(&self) -> Connection {
        self.store.connect().unwrap()
    }
}

#[async_trait]
impl StoreHarness for File {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> InsertResult {
        commit_blocking_on(&self.store, &mut self.connect(), rows)
    }

    async fn roll_back(&self, rows: &[NewRow]) -> InsertResult {
        roll_back_blocking_on(&self.store, &mut self.connect(), rows)
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }

    async fn beside(&self) -> Option<SqliteStore> {
        let path = self.folder.path().join("a.db");
        Some(SqliteStore::open_with(path, self.options.clone()).await.unwrap())
    }
}

#[async_trait]
impl ClockHarness for File {
    async fn step_back(&self, time: Duration) {
        self.clock.step_back(time);
    }
}

mod fair {
    use super::*;

    sendoff_testkit::fair_suite!(File::shared().await);
}

mod keeping_what_is_done {
    use super::*;

    sendoff_testkit::store_suite!(File::with(Retention::Keep(Duration::from_secs(60))).await);
}

mod deleting_what_is_done {
    use super::*;

    sendoff_testkit::store_suite!(File::with(Retention::DeleteWhenDone).await);
}

mod a_clock_that_steps_back {
    use super::*;

    sendoff_testkit::clock_suite!(Some(File::with(Retention::default()).await));
}

mod letters {
    use super::*;

    sendoff_testkit::letters_suite!(File::in_time().await);
}

mod order_keeping_what_is_done {
    use super::*;

    sendoff_testkit::order_suite!(File::with(Retention::Keep(Duration::from_secs(60))).await);
}

mod order_deleting_what_is_done {
    use super::*;

    sendoff_testkit::order_suite!(File::with(Retention::DeleteWhenDone).await);
}

mod relaying {
    use super::*;

    sendoff_testkit::relay_suite!(File::with(Retention::Keep(Duration::from_secs(60))).await);
}
