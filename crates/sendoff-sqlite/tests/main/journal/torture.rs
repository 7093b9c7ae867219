//! Everything that can happen to an append, at once, for ten seconds (or as long as is said).

use std::thread;

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use sendoff_engine::journal::{AppendError, AppendInBlocking};
use sendoff_sqlite::SqliteJournal;
use sendoff_testkit::journal::{
    Ending, Script, Step, Torture, TortureHarness, Writer, async_trait, torture,
};

use super::File;

pub(crate) struct Handle {
    store: SqliteJournal,
    conn: Option<Connection>,
}

#[async_trait]
impl TortureHarness for File {
    type Writer = Handle;

    async fn writer(&self) -> Handle {
        let store = self.journal.store().clone();
        let conn = Some(store.connect().unwrap());
        Handle { store, conn }
    }
}

#[async_trait]
impl Writer for Handle {
    async fn run(&mut self, script: &Script) -> Result<(), AppendError> {
        let (store, script) = (self.store.clone(), script.clone());
        let mut conn = self.conn.take().unwrap();
        let running = tokio::task::spawn_blocking(move || {
            let ran = run(&store, &mut conn, &script);
            (conn, ran)
        });
        let (conn, ran) = running.await.unwrap();
        self.conn = Some(conn);
        ran
    }
}

fn run(store: &SqliteJournal, conn: &mut Connection, script: &Script) -> Result<(), AppendError> {
    assert_eq!(script.prepared_for, None, "there is one phase");
    let tx = match conn.transaction_with_behavior(TransactionBehavior::Immediate) {
        Ok(tx) => tx,
        // Twelve wait for one lock; nobody is owed it within the patience of one of them.
        Err(error) if error.sqlite_error_code() == Some(ErrorCode::DatabaseBusy) => {
            return Err(AppendError::Busy(error.into()));
        }
        Err(error) => panic!("{error}"),
    };
    for step in &script.steps {
        match step {
            Step::Pause(time) => thread::sleep(*time),
            Step::Append(append) => drop(store.append_in_blocking(&tx, append)?),
            Step::Savepoint => tx.execute_batch("savepoint s").unwrap(),
            Step::RollBackTo => tx.execute_batch("rollback to s; release s").unwrap(),
            Step::Release => tx.execute_batch("release s").unwrap(),
        }
    }
    match script.ending {
        Ending::Commit => tx.commit().unwrap(),
        Ending::RollBack => tx.rollback().unwrap(),
    }
    Ok(())
}

/// Holds J6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order() {
    let file = File::open().await;
    let tortured = torture(&file, Torture::default()).await;
    println!("{tortured}");
    let verdict = &tortured.verdict;
    // One writes at a time, and holds the file while it pauses; how many do is the machine's affair.
    assert!(verdict.rolled_back > 0 && verdict.written > 10, "{tortured}");
}
