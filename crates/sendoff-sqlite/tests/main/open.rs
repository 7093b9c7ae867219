//! Opening SQLite files by path and URL, and what is refused.

use std::error::Error;
use std::io::{Seek, SeekFrom, Write};
use std::time::Duration;

use sendoff_core::EventId;
use sendoff_engine::capture::{BeginBlocking, CaptureBlocking, WriteError};
use sendoff_engine::store::{
    ClaimStore, Cutoff, InspectStore, OutboxStore, Purge, RetainStore, SettleStore, StoreError,
};
use sendoff_sqlite::{SqliteOptions, SqliteStore};

use crate::outbox::{Outbox, by, due};

/// Holds S8.
#[tokio::test]
async fn a_url_opens_its_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("my shop.db");
    let url = format!("sqlite://{}", path.display().to_string().replace(' ', "%20"));
    let store = SqliteStore::open_url(&url).await.unwrap();
    assert_eq!(store.path(), path);
    assert!(path.exists());
}

/// Holds S8.
#[tokio::test]
async fn a_database_in_memory_is_refused_with_the_reason_and_the_way_out() {
    for path in [":memory:", "", "file::memory:?cache=shared"] {
        let error = SqliteStore::open(path).await.unwrap_err();
        let StoreError::Misconfigured { reason } = &error else { panic!("{path:?}: {error:?}") };
        assert!(reason.contains("memory") && reason.contains("path"), "{reason}");
    }
    let error = SqliteStore::open_url("sqlite::memory:").await.unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error:?}");
}

#[tokio::test]
async fn options_out_of_bounds_are_refused_by_name() {
    let dir = tempfile::tempdir().unwrap();
    let options = SqliteOptions { busy_timeout: Duration::from_secs(301), ..Default::default() };
    let error = SqliteStore::open_with(dir.path().join("a.db"), options).await.unwrap_err();
    assert!(error.to_string().contains("busy_timeout"), "{error}");
    let options = SqliteOptions { busy_timeout: Duration::from_secs(300), ..Default::default() };
    SqliteStore::open_with(dir.path().join("a.db"), options).await.unwrap();
}

#[tokio::test]
async fn a_file_that_cannot_be_opened_is_unavailable_and_one_that_is_no_database_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let error = SqliteStore::open(dir.path().join("no/such/dir.db")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(error.source().unwrap().is::<rusqlite::Error>(), "the source is kept");

    let path = dir.path().join("poem.txt");
    std::fs::write(&path, "shall I compare thee to a summer's day? ".repeat(100)).unwrap();
    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Refused(_)), "{error:?}");
}

#[tokio::test]
async fn a_read_only_file_is_unavailable() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("outbox.db");
    rusqlite::Connection::open(&path).unwrap().execute("create table t (x)", []).unwrap();
    // A write version from the future makes a file read-only for anybody, root included.
    let mut file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.seek(SeekFrom::Start(18)).unwrap();
    file.write_all(&[3]).unwrap();

    let error = SqliteStore::open(&path).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
}

#[tokio::test]
async fn a_lock_held_too_long_is_unavailable_and_passes() {
    let options =
        SqliteOptions { busy_timeout: Duration::from_millis(20), ..SqliteOptions::default() };
    let outbox = Outbox::with(options).await;
    let id = outbox.write_due();
    let mut conn = outbox.store.connect().unwrap();
    let lock = outbox.store.begin_blocking(&mut conn).unwrap();

    let mut other = outbox.store.connect().unwrap();
    assert!(outbox.store.begin_blocking(&mut other).is_err());
    let error = outbox.store.claim(&by("a")).await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(outbox.store.find(id).await.unwrap().is_some(), "reading waits for no writer");

    drop(lock);
    assert_eq!(outbox.claim("a").await.len(), 1);
}

#[tokio::test]
async fn a_closed_store_says_so_to_every_call() {
    fn closed<T: std::fmt::Debug>(answer: &Result<T, StoreError>) {
        assert!(matches!(answer, Err(StoreError::Closed)), "{answer:?}");
    }
    let outbox = Outbox::new().await;
    let mut conn = outbox.store.connect().unwrap();
    let store: SqliteStore = outbox.store.clone();
    store.close().await;
    store.close().await;

    let store = &outbox.store;
    closed(&store.claim(&by("a")).await);
    closed(&store.confirm(&[]).await);
    closed(&store.rescue(Duration::ZERO).await);
    closed(&store.settle(&[]).await);
    closed(&store.extend(&[], Duration::ZERO).await);
    closed(&store.find(EventId::generate()).await);
    closed(&store.counts().await);
    closed(&store.lateness().await);
    let purge = Purge { cutoff: Cutoff::Age(Duration::ZERO), limit: 1, dead: true };
    closed(&store.purge(&purge).await);
    closed(&store.purgeable(&purge).await);
    closed(&store.connect());
    assert!(store.begin_blocking(&mut conn).is_err());
    let tx = conn.transaction().unwrap();
    assert!(matches!(store.insert_blocking(&tx, &[due()]), Err(WriteError::Closed)));
}

#[tokio::test]
async fn a_dropped_call_leaves_the_store_working() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    let mut conn = outbox.store.connect().unwrap();
    let lock = outbox.store.begin_blocking(&mut conn).unwrap();
    // The first waits for the lock on the store's thread, the second for the thread.
    let claim = by("a");
    let mut first = Box::pin(outbox.store.claim(&claim));
    let mut second = Box::pin(outbox.store.claim(&claim));
    assert!(poll_once(first.as_mut()).await.is_none());
    assert!(poll_once(second.as_mut()).await.is_none());
    drop((first, second));
    drop(lock);

    assert_eq!(outbox.store.counts().await.unwrap().new, 1);
    // Whether or not the first had begun, its row comes back when its hold is over, uncounted.
    outbox.clock.advance(crate::outbox::HOLD);
    let claimed = outbox.claim_one("a").await;
    assert_eq!((claimed.attempts, claimed.lost), (0, false));
}

async fn poll_once<F: Future>(mut future: std::pin::Pin<&mut F>) -> Option<F::Output> {
    std::future::poll_fn(|cx| match future.as_mut().poll(cx) {
        std::task::Poll::Ready(output) => std::task::Poll::Ready(Some(output)),
        std::task::Poll::Pending => std::task::Poll::Ready(None),
    })
    .await
}

#[tokio::test]
async fn the_store_is_all_the_engine_asks_for() {
    fn engine_takes(store: &(impl OutboxStore + Clone)) -> &dyn RetainStore {
        store
    }
    let outbox = Outbox::new().await;
    assert_eq!(engine_takes(&outbox.store).keeps(), Some(Duration::from_secs(7 * 24 * 60 * 60)));
}
