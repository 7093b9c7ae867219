//! The write-ahead log, which a long reader makes grow.

use std::fs;
use std::path::Path;

use sendoff_core::Event;
use sendoff_core::journal::Fact;
use sendoff_engine::journal::Journal;
use sendoff_engine::store::{Birth, NewRow};
use sendoff_sqlite::SqliteJournal;
use sendoff_testkit::wait::eventually;
use tempfile::TempDir;

use crate::outbox::Outbox;

const MEGABYTE: usize = 1024 * 1024;
const LARGE: u64 = 20 * MEGABYTE as u64;

fn log_size(path: &Path) -> u64 {
    fs::metadata(format!("{}-wal", path.display())).unwrap().len()
}

/// Reads until it is dropped.
fn reader(path: &Path) -> rusqlite::Connection {
    let conn = rusqlite::Connection::open(path).unwrap();
    conn.execute_batch("begin; select count(*) from sqlite_schema").unwrap();
    conn
}

fn event() -> Event {
    Event::builder("order.placed").bytes(vec![7; MEGABYTE]).build().unwrap()
}

#[tokio::test]
async fn the_log_is_small_again_when_a_long_reader_has_gone() {
    let outbox = Outbox::new().await;
    let path = outbox.store.path();
    let reads = reader(path);
    for _ in 0..24 {
        outbox.write(&[NewRow { event: event(), birth: Birth::Due }]);
    }
    assert!(log_size(path) > LARGE, "nobody can empty it yet");
    // Nobody waits for the reader: neither who looks nor who writes.
    outbox.claim("a").await;
    outbox.write_due();
    assert!(log_size(path) > LARGE);
    drop(reads);
    eventually("the log is small", async || {
        outbox.claim("a").await;
        log_size(path) < LARGE
    })
    .await;
    outbox.write_due();
    assert_eq!(outbox.claim("a").await.len(), 1);
}

#[tokio::test]
async fn so_is_that_of_a_journal() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    let journal = Journal::new(SqliteJournal::open(&path).await.unwrap());
    let reads = reader(&path);
    for _ in 0..24 {
        journal.append([Fact::builder(event())]).await.unwrap();
    }
    assert!(log_size(&path) > LARGE, "nobody can empty it yet");
    drop(reads);
    eventually("the log is small", async || {
        journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
        log_size(&path) < LARGE
    })
    .await;
}
