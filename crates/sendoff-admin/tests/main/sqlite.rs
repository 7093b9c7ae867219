//! A journal in a file of its own.

use sendoff_engine::journal::Journal;
use sendoff_sqlite::SqliteJournal;

/// With the folder it is in, which goes last.
pub(crate) async fn journal() -> (Journal<SqliteJournal>, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = SqliteJournal::open(folder.path().join("journal.db")).await.unwrap();
    (Journal::new(store), folder)
}
