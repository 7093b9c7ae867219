//! The file is deleted, replaced or moved while nodes and writers have it open.
#![cfg(unix)]

use std::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

use sendoff_core::journal::{Append, Fact};
use sendoff_engine::capture::{BeginBlocking, CaptureBlocking, WriteError};
use sendoff_engine::journal::publish::PublishStore;
use sendoff_engine::journal::{AppendError, AppendInBlocking, Journal, JournalStore};
use sendoff_engine::store::{ClaimStore, InspectStore, Lock, LockStore, StoreError};
use sendoff_sqlite::{FileLost, SqliteJournal, SqliteStore};
use tempfile::TempDir;

use crate::outbox::{Outbox, by, due};

fn lost<'e>(error: &'e (dyn Error + 'static)) -> &'e FileLost {
    error.source().unwrap().downcast_ref().unwrap()
}

#[track_caller]
fn gone<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(matches!(lost(&error), FileLost::Gone { .. }), "{error:?}");
}

#[track_caller]
fn replaced<T: std::fmt::Debug>(answer: Result<T, StoreError>) {
    let error = answer.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(matches!(lost(&error), FileLost::Replaced { .. }), "{error:?}");
}

/// The file and what SQLite keeps beside it.
fn files(path: &Path) -> [PathBuf; 3] {
    ["", "-wal", "-shm"].map(|end| PathBuf::from(format!("{}{end}", path.display())))
}

fn delete(path: &Path) {
    files(path).iter().for_each(|file| fs::remove_file(file).unwrap());
}

#[tokio::test]
async fn a_file_that_was_deleted_or_made_anew_is_told_of_by_every_call() {
    let outbox = Outbox::new().await;
    let store = &outbox.store;
    outbox.write_due();
    let mut conn = store.connect().unwrap();
    delete(store.path());
    gone(store.claim(&by("a")).await);
    gone(store.connect());
    // Another process comes, and has a file of its own.
    let other = outbox.again().await;
    replaced(store.claim(&by("a")).await);
    replaced(store.counts().await);
    replaced(store.lock(&Lock::new(10)).await.map(|_| ()));
    replaced(store.connect());
    // What would be written to the old one would be delivered by nobody.
    let begun = store.begin_blocking(&mut conn).map(|_| ()).unwrap_err();
    assert!(begun.source().is_some_and(|error| error.is::<StoreError>()), "{begun:?}");
    let tx = conn.transaction().unwrap();
    let refused = store.insert_blocking(&tx, &[due()]).unwrap_err();
    assert!(matches!(refused, WriteError::Driver(_)), "{refused:?}");
    let text = sendoff_core::report(&refused);
    assert!(text.contains("was replaced") && text.contains("restart"), "{text}");
    assert!(matches!(lost(&refused), FileLost::Replaced { .. }));
    // Whoever opens it now has the new one, and it works.
    assert_eq!(other.counts().await.unwrap().new, 0);
}

#[tokio::test]
async fn a_file_that_is_back_is_worked_with_again() {
    let outbox = Outbox::new().await;
    outbox.write_due();
    let path = outbox.store.path();
    let aside = path.with_file_name("aside.db");
    for (from, to) in files(path).iter().zip(files(&aside)) {
        fs::rename(from, to).unwrap();
    }
    gone(outbox.store.claim(&by("a")).await);
    for (from, to) in files(&aside).iter().zip(files(path)) {
        fs::rename(from, to).unwrap();
    }
    assert_eq!(outbox.claim("a").await.len(), 1);
}

#[tokio::test]
async fn a_batch_that_was_locked_in_the_old_file_is_not_settled() {
    let folder = TempDir::new().unwrap();
    let store = SqliteStore::open(folder.path().join("a.db")).await.unwrap();
    let mut conn = store.connect().unwrap();
    let tx = store.begin_blocking(&mut conn).unwrap();
    store.insert_blocking(&tx, &[due()]).unwrap();
    tx.commit().unwrap();
    let mut batch = store.lock(&Lock::new(10)).await.unwrap().unwrap();
    assert_eq!(batch.take().len(), 1);
    delete(store.path());
    gone(batch.commit(&[]).await);
}

#[tokio::test]
async fn a_journal_whose_file_was_replaced_neither_appends_nor_reads() {
    let folder = TempDir::new().unwrap();
    let path = folder.path().join("a.db");
    let store = SqliteJournal::open(&path).await.unwrap();
    let journal = Journal::new(store.clone());
    let fact = || Fact::builder(("moved", "{}"));
    journal.append([fact()]).await.unwrap();
    let mut conn = store.connect().unwrap();
    delete(&path);
    let other = SqliteJournal::open(&path).await.unwrap();
    replaced(store.head().await);
    replaced(store.survey().await);
    replaced(store.connect());
    // The connection for cursors is not open yet: it must not be to the new file.
    replaced(store.register(&[]).await);
    let refused = journal.append([fact()]).await.unwrap_err();
    assert!(matches!(refused, AppendError::Store(StoreError::Unavailable(_))), "{refused:?}");
    let tx = conn.transaction().unwrap();
    let append = Append::new(vec![fact().build().unwrap()], None).unwrap();
    let refused = store.append_in_blocking(&tx, &append).unwrap_err();
    assert!(matches!(refused, AppendError::Store(StoreError::Unavailable(_))), "{refused:?}");
    assert_eq!(other.head().await.unwrap().get(), 0);
}
