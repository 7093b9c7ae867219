//! A store that is any of them, chosen by the URL.

use std::sync::Arc;
use std::time::Duration;

use sendoff::any::{AnyOptions, AnyStore, DatabaseKind, OpenError};
use sendoff::capture::InsertResult;
use sendoff::clock::Clock;
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::store::{InspectStore, Layout, NewRow, Payloads};
use sendoff::{Delivery, Ident, Outbox, Timestamp, partition};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::conformance::{StoreHarness, async_trait};
use sendoff_testkit::steps::{commit_blocking_on, roll_back_blocking_on};
use sendoff_testkit::wait::eventually;
use tempfile::TempDir;

struct Harness {
    clock: ManualClock,
    file: SqliteStore,
    store: AnyStore,
    _folder: TempDir,
}

impl Harness {
    async fn open() -> Self {
        let (clock, folder) = (ManualClock::new(), TempDir::new().unwrap());
        let options = SqliteOptions { clock: Arc::new(clock.clone()), ..Default::default() };
        let file = SqliteStore::open_with(folder.path().join("a.db"), options).await.unwrap();
        Self { clock, store: AnyStore::Sqlite(file.clone()), file, _folder: folder }
    }
}

#[async_trait]
impl StoreHarness for Harness {
    type Store = AnyStore;

    fn store(&self) -> &AnyStore {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> InsertResult {
        commit_blocking_on(&self.file, &mut self.file.connect().unwrap(), rows)
    }

    async fn roll_back(&self, rows: &[NewRow]) -> InsertResult {
        roll_back_blocking_on(&self.file, &mut self.file.connect().unwrap(), rows)
    }

    async fn now(&self) -> Timestamp {
        self.clock.now()
    }

    async fn pass(&self, time: Duration) {
        self.clock.advance(time);
    }
}

/// Holds S8 and S11: whatever is asked of it reaches the store that it is.
mod suite {
    use super::*;

    sendoff_testkit::store_suite!(Harness::open().await);
}

/// Holds S8: made, migrated, written through a driver, delivered and looked at, by nothing but a URL.
#[tokio::test]
async fn an_outbox_works_on_the_store_that_a_url_names() {
    let folder = TempDir::new().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let missing = AnyStore::connect_existing(&url, &AnyOptions::default()).await;
    assert!(missing.unwrap_err().to_string().contains("no file"));
    let store = AnyStore::connect(&url).await.unwrap();
    store.migrate().await.unwrap();
    assert_eq!((store.kind(), store.table().as_str()), (DatabaseKind::Sqlite, "outbox_event"));

    let outbox = Outbox::builder(store.clone())
        .on("order.placed", |_: Delivery| async { Ok(()) })
        .start()
        .await
        .unwrap();
    let through = AnyStore::through_sqlite(&outbox).unwrap();
    let mut conn = through.store().connect().unwrap();
    let mut tx = through.begin_blocking(&mut conn).unwrap();
    tx.emit(("order.placed", r#"{"order":4711}"#)).unwrap();
    tx.commit().unwrap();
    outbox.send(("order.placed", r#"{"order":4712}"#)).await.unwrap();
    eventually("both are delivered", async || store.counts().await.unwrap().done == 2).await;
    outbox.close().await;
}

/// Holds S8: what the database has not is refused before anything is made.
#[tokio::test]
async fn what_a_database_has_not_is_refused() {
    let folder = TempDir::new().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let ident = Ident::new("shop").unwrap();
    let layout = Layout::Partitioned(partition::Period::Hour);
    for (options, said) in [
        (
            AnyOptions { schema: Some(ident), ..Default::default() },
            "a schema is for PostgreSQL, not for SQLite",
        ),
        (AnyOptions { layout, ..Default::default() }, "partitions are for PostgreSQL, MySQL"),
        (
            AnyOptions { payloads: Payloads::Json, ..Default::default() },
            "for MySQL and MariaDB, not for SQLite",
        ),
    ] {
        let refused = AnyStore::connect_with(&url, &options).await.unwrap_err();
        let unfit = matches!(refused, OpenError::Unfit { kind: DatabaseKind::Sqlite, .. });
        assert!(unfit, "{refused:?}");
        assert!(refused.to_string().contains(said), "{refused}");
    }
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let refused = AnyStore::connect("tidb://app:tiger@db/shop").await.unwrap_err().to_string();
    assert!(refused.contains("TiDB") && !refused.contains("tiger"), "{refused}");
}

/// Holds S8: where its store is not in the build, a URL says which feature it wants.
#[cfg(not(feature = "postgres"))]
#[tokio::test]
async fn a_store_that_is_switched_off_is_named_with_its_feature() {
    let refused = AnyStore::connect("postgres://app@localhost/shop").await.unwrap_err();
    assert!(refused.to_string().contains("the feature `postgres`"), "{refused}");
}

/// Holds S8: on a server that is there, by its URL alone.
#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_server_is_reached_by_its_url() {
    let Ok(url) = std::env::var("SENDOFF_POSTGRES_URL") else {
        assert!(std::env::var("CI").is_err(), "SENDOFF_POSTGRES_URL is not set");
        return;
    };
    let schema = Ident::new(format!("any_{}", fastrand::u32(..))).ok();
    let options = AnyOptions { schema, ..Default::default() };
    let missing = AnyStore::connect_existing(&url, &options).await.unwrap_err();
    assert!(missing.to_string().contains("sendoff migrate"), "{missing}");
    let store = AnyStore::connect_with(&url, &options).await.unwrap();
    assert_eq!(store.kind(), DatabaseKind::Postgres);
    store.migrate().await.unwrap();
    let found = AnyStore::connect_existing(&url, &options).await.unwrap();
    assert_eq!(found.counts().await.unwrap().pending(), 0);
    found.close().await;
    store.close().await;
}
