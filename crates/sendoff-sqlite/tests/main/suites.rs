//! The suites every store and every driver passes.

use std::sync::Arc;
use std::time::Duration;

use rusqlite::Connection;
use sendoff_core::{Event, EventId, Timestamp};
use sendoff_engine::capture::{CaptureBlocking, CommitBlocking, CommitError, WriteError};
use sendoff_engine::store::{Born, NewRow};
use sendoff_engine::{Clock, Outbox};
use sendoff_sqlite::{Retention, SqliteOptions, SqliteStore};
use sendoff_testkit::acceptance::{End, Face, OutboxHarness};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::conformance::{ClockHarness, StoreHarness, async_trait};
use tempfile::TempDir;

struct File {
    clock: ManualClock,
    store: SqliteStore,
    _folder: TempDir,
}

impl File {
    async fn with(retention: Retention) -> Self {
        let (folder, clock) = (TempDir::new().unwrap(), ManualClock::new());
        let options =
            SqliteOptions { retention, clock: Arc::new(clock.clone()), ..Default::default() };
        let store = SqliteStore::open_with(folder.path().join("a.db"), options).await.unwrap();
        Self { clock, store, _folder: folder }
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

    async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut conn = self.connect();
        let tx = conn.transaction().unwrap();
        self.store.commit_blocking(tx, rows).map_err(|error| match error {
            CommitError::Refused(refused) => refused,
            other => WriteError::Driver(other.into()),
        })
    }

    async fn roll_back(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut conn = self.connect();
        let tx = conn.transaction().unwrap();
        let born = self.store.insert_blocking(&tx, rows)?;
        tx.rollback().unwrap();
        Ok(born)
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

#[async_trait]
impl ClockHarness for File {
    async fn step_back(&self, time: Duration) {
        self.clock.step_back(time);
    }
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

mod relaying {
    use super::*;

    sendoff_testkit::relay_suite!(File::with(Retention::Keep(Duration::from_secs(60))).await);
}

/// A file by the host's clock, and the application's own connection to it.
struct Shop {
    store: SqliteStore,
    #[cfg_attr(not(feature = "sqlx"), expect(dead_code, reason = "only sqlx asks where it is"))]
    folder: TempDir,
}

impl Shop {
    async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let store = SqliteStore::open(folder.path().join("shop.db")).await.unwrap();
        Self { store, folder }
    }
}

mod through_rusqlite {
    use super::*;

    struct Rusqlite(Shop);

    #[async_trait]
    impl OutboxHarness for Rusqlite {
        type Store = SqliteStore;

        fn store(&self) -> SqliteStore {
            self.0.store.clone()
        }

        async fn write(
            &self,
            outbox: &Outbox<SqliteStore>,
            face: Face,
            events: &[Event],
            end: End,
        ) -> Vec<EventId> {
            let mut conn = self.0.store.connect().unwrap();
            match face {
                Face::Guard => {
                    let mut tx = outbox.begin_blocking(&mut conn).unwrap();
                    let ids = events.iter().map(|event| tx.emit(event).unwrap()).collect();
                    match end {
                        End::RollBack => tx.rollback().unwrap(),
                        End::Commit | End::Forget => tx.commit().unwrap(),
                    }
                    ids
                }
                Face::Own => {
                    let tx = conn.transaction().unwrap();
                    let staged = outbox.write_all_blocking(&tx, events).unwrap();
                    if end.commits() {
                        tx.commit().unwrap();
                    } else {
                        tx.rollback().unwrap();
                    }
                    end.receipt(staged)
                }
            }
        }
    }

    sendoff_testkit::acceptance_suite!(Rusqlite(Shop::open().await));
}

#[cfg(feature = "sqlx")]
mod through_sqlx {
    use sqlx::SqlitePool;
    use sqlx::sqlite::SqliteConnectOptions;

    use super::*;

    struct Sqlx {
        shop: Shop,
        pool: SqlitePool,
    }

    async fn open() -> Sqlx {
        let shop = Shop::open().await;
        let options = SqliteConnectOptions::new()
            .filename(shop.folder.path().join("shop.db"))
            .busy_timeout(Duration::from_secs(10));
        Sqlx { pool: SqlitePool::connect_with(options).await.unwrap(), shop }
    }

    #[async_trait]
    impl OutboxHarness for Sqlx {
        type Store = SqliteStore;

        fn store(&self) -> SqliteStore {
            self.shop.store.clone()
        }

        async fn write(
            &self,
            outbox: &Outbox<SqliteStore>,
            face: Face,
            events: &[Event],
            end: End,
        ) -> Vec<EventId> {
            match face {
                Face::Guard => end.guard(outbox.begin(&self.pool).await.unwrap(), events).await,
                Face::Own => {
                    let mut tx = self.pool.begin_with("begin immediate").await.unwrap();
                    let staged = outbox.write_all(&mut tx, events).await.unwrap();
                    if end.commits() {
                        tx.commit().await.unwrap();
                    } else {
                        tx.rollback().await.unwrap();
                    }
                    end.receipt(staged)
                }
            }
        }
    }

    sendoff_testkit::acceptance_suite!(open().await);
}
