//! How soon sleeping nodes begin with what others write to the same file.

use sendoff_engine::capture::CommitBlocking;
use sendoff_engine::journal::Journal;
use sendoff_sqlite::{SqliteJournal, SqliteStore};
use sendoff_testkit::steps::due;
use sendoff_testkit::waking::{Bounds, a_publisher_is_woken, nodes_are_woken};
use tempfile::TempDir;

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_hears_of_events_of_others() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let store = SqliteStore::open(&file).await.unwrap();
    let other = SqliteStore::open(&file).await.unwrap();
    let mut conn = other.connect().unwrap();
    let commit = async |event| {
        let tx = conn.transaction().unwrap();
        other.commit_blocking(tx, &[due(event)]).unwrap();
    };
    nodes_are_woken(store, Bounds::LOOKS, commit).await;
}

/// Holds I7.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publisher_hears_of_facts_of_others() {
    let folder = TempDir::new().unwrap();
    let file = folder.path().join("a.db");
    let open = async || Journal::new(SqliteJournal::open(&file).await.unwrap());
    a_publisher_is_woken(&open().await, &open().await, Bounds::ROUNDS).await;
}
