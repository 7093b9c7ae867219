//! The journal in a file.

mod publish;
mod torture;

use std::time::Duration;

use rusqlite::TransactionBehavior;
use sendoff_core::Ident;
use sendoff_core::journal::{Fact, Position, Query, Unsafe};
use sendoff_engine::capture::JoinBlocking;
use sendoff_engine::journal::publish::SettleInError;
use sendoff_engine::journal::{AppendError, AppendInBlocking, Journal, TailError, TailOptions};
use sendoff_engine::store::StoreError;
use sendoff_sqlite::{SqliteJournal, SqliteOptions};
use sendoff_testkit::journal::{
    Answers, Deed, Ending, JournalHarness, Projecting, PublishHarness, async_trait,
};
use tempfile::TempDir;

pub(crate) struct File {
    pub(crate) journal: Journal<SqliteJournal>,
    pub(crate) folder: TempDir,
}

impl File {
    pub(crate) async fn open() -> Self {
        let folder = TempDir::new().unwrap();
        let journal = in_folder(&folder).await;
        Self { journal, folder }
    }
}

/// SQLite keeps no queue of those who wait to write, so on a busy machine somebody waits for long.
async fn in_folder(folder: &TempDir) -> Journal<SqliteJournal> {
    let options =
        SqliteOptions { busy_timeout: Duration::from_secs(60), ..SqliteOptions::default() };
    Journal::new(SqliteJournal::open_with(folder.path().join("a.db"), options).await.unwrap())
}

/// rusqlite's transactions.
impl JournalHarness for File {
    type Store = SqliteJournal;

    fn journal(&self) -> &Journal<SqliteJournal> {
        &self.journal
    }

    async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
        let (store, steps) = (self.journal.store().clone(), steps.to_vec());
        let carrying_out = move || {
            let mut conn = store.connect().unwrap();
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            let mut answers = Vec::new();
            for step in &steps {
                match step {
                    Deed::Append(append) => answers.push(store.append_in_blocking(&tx, append)),
                    Deed::Sql(sql) => tx.execute_batch(sql).unwrap(),
                    Deed::Move(moving) => {
                        let moved = store.join_blocking(&tx, &moving.part());
                        moving.told.send(moved).unwrap();
                    }
                    Deed::Wait(time) => std::thread::sleep(*time),
                }
            }
            match ending {
                Ending::Commit => tx.commit().unwrap(),
                Ending::RollBack => tx.rollback().unwrap(),
            }
            answers
        };
        tokio::task::spawn_blocking(carrying_out).await.unwrap()
    }
}

#[async_trait]
impl PublishHarness for File {
    async fn elsewhere(&self) -> Journal<SqliteJournal> {
        in_folder(&self.folder).await
    }

    async fn settle_in(&self, projecting: &Projecting) -> Result<(), SettleInError> {
        let (journal, projecting) = (self.journal.clone(), projecting.clone());
        let settling = move || {
            let Projecting { facts, effect, ending } = projecting;
            let mut conn = journal.store().connect().unwrap();
            let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).unwrap();
            journal.store().append_in_blocking(&tx, &effect).unwrap();
            let settled = journal.settle_in_blocking(&facts, &tx);
            match ending {
                Ending::Commit if settled.is_ok() => tx.commit().unwrap(),
                _ => tx.rollback().unwrap(),
            }
            settled
        };
        tokio::task::spawn_blocking(settling).await.unwrap()
    }

    async fn sql(&self, statement: &str) -> bool {
        self.journal.store().connect().unwrap().execute_batch(statement).unwrap();
        true
    }

    async fn lose_after(&self, position: Position) {
        let lose = format!(
            "begin immediate;
             delete from journal_event where position > {position};
             delete from journal_tag where position > {position};
             update journal_cursor set last_position = {position} where last_position > {position};
             update sqlite_sequence set seq = {position} where name = 'journal_event';
             commit"
        );
        self.sql(&lose).await;
    }
}

mod retention {
    use super::*;

    sendoff_testkit::journal_retain_suite!(File::open().await);
}

/// Holds J1, J2, J6 and J13.
mod suite {
    use super::*;

    sendoff_testkit::journal_suite!(File::open().await);

    /// Holds J3, J4, J5, J6, J7, J8, J9, J11 and J12.
    mod publish {
        use super::*;

        sendoff_testkit::publish_suite!(File::open().await);
    }
}

/// Holds J1.
mod rusqlite_transactions {
    use super::*;

    sendoff_testkit::journal_suite!(transactions: File::open().await);
}

/// Holds J1.
#[cfg(feature = "sqlx")]
mod sqlx_transactions {
    use std::future::Future;
    use std::task::Poll;
    use std::time::Instant;

    use ::sqlx::sqlite::{SqliteConnectOptions, SqlitePool};
    use ::sqlx::{Connection, Executor, SqliteConnection};
    use sendoff_engine::journal::AppendIn;
    use sendoff_testkit::carry_out;

    use super::*;

    struct Sqlx(File);

    impl Sqlx {
        async fn open() -> Self {
            Self(File::open().await)
        }

        fn options(&self) -> SqliteConnectOptions {
            SqliteConnectOptions::new().filename(self.0.folder.path().join("a.db"))
        }

        async fn conn(&self) -> SqliteConnection {
            SqliteConnection::connect_with(&self.options()).await.unwrap()
        }
    }

    impl JournalHarness for Sqlx {
        type Store = SqliteJournal;

        fn journal(&self) -> &Journal<SqliteJournal> {
            &self.0.journal
        }

        async fn transact(&self, steps: &[Deed], ending: Ending) -> Answers {
            let mut conn = self.conn().await;
            let mut tx = conn.begin_with("begin immediate").await.unwrap();
            let store = self.0.journal.store();
            carry_out!(steps, ending, store, tx, |sql| tx.execute(*sql))
        }
    }

    sendoff_testkit::journal_suite!(transactions: Sqlx::open().await);

    /// A ROLLBACK sent as text is invisible to sqlx.
    #[tokio::test]
    async fn without_a_transaction_nothing_is_appended() {
        let through = Sqlx::open().await;
        let mut conn = through.conn().await;
        let mut tx = conn.begin().await.unwrap();
        tx.execute("rollback").await.unwrap();
        let answer = through.0.journal.append_in(&mut tx, [fact("a")], None).await;
        assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
        assert!(tail(&through.0).await.is_empty());
    }

    /// Holds J1: a transaction that began by reading cannot write what it could not check.
    #[tokio::test]
    async fn an_old_snapshot_cannot_append() {
        let through = Sqlx::open().await;
        let pool = SqlitePool::connect_with(through.options()).await.unwrap();
        let mut tx = pool.begin().await.unwrap();
        tx.fetch_all("select count(*) from journal_event").await.unwrap();
        let journal = &through.0.journal;
        journal.append([fact("a")]).await.unwrap();
        let condition = Query::of_type("a").none_after(Position::START);
        let answer = journal.append_in(&mut tx, [fact("b")], Some(condition)).await;
        assert!(matches!(answer, Err(AppendError::Busy(_))), "{answer:?}");
    }

    /// Whoever stops waiting for an append half-way has appended nothing; or all of it, where it had
    /// ended by then and only the answer was on its way.
    #[tokio::test]
    async fn an_append_that_nobody_waited_for_leaves_nothing_behind() {
        let through = Sqlx::open().await;
        let journal = &through.0.journal;
        let deadline = Instant::now() + Duration::from_secs(30);
        let (mut cut, mut there, mut in_between) = (1, 0, false);
        loop {
            let mut conn = through.conn().await;
            let mut tx = conn.begin_with("begin immediate").await.unwrap();
            let ended = {
                let facts = [fact("a"), fact("b"), fact("c")];
                let mut appending = std::pin::pin!(journal.append_in(&mut tx, facts, None));
                let mut polls = 0;
                std::future::poll_fn(|cx| {
                    polls += 1;
                    match appending.as_mut().poll(cx) {
                        Poll::Ready(answer) => Poll::Ready(Some(answer)),
                        Poll::Pending if polls == cut => Poll::Ready(None),
                        Poll::Pending => Poll::Pending,
                    }
                })
                .await
            };
            if let Some(answer) = ended {
                answer.unwrap();
                tx.rollback().await.unwrap();
                if in_between {
                    break;
                }
                // sqlx's thread was so quick that nothing had to be waited for; it is not always.
                assert!(Instant::now() < deadline, "it was never dropped in between");
                cut = 2;
                continue;
            }
            // Whether the rest of the transaction can commit is sqlx's to say; ours is not in it.
            let _ = tx.commit().await;
            let now = tail(&through.0).await.len();
            assert!(
                [there, there + 3].contains(&now),
                "dropped at poll {cut}: {there}, then {now}"
            );
            there = now;
            in_between |= cut > 1;
            cut += 1;
        }
    }
}

fn fact(event_type: &str) -> Fact {
    Fact::builder((event_type, "{}")).tag("w", 1).build().unwrap()
}

async fn tail(file: &File) -> Vec<u64> {
    let mut tail = file.journal.tail(Position::START, TailOptions::default()).await.unwrap();
    let batch = tail.look().await.unwrap();
    batch.rows.iter().map(|row| row.position.get()).collect()
}

/// Savepoints end as the caller ends them, and leave no gap.
#[tokio::test]
async fn what_is_undone_to_a_savepoint_was_never_there() {
    let file = File::open().await;
    let mut conn = file.journal.store().connect().unwrap();
    let mut tx = conn.transaction().unwrap();
    file.journal.append_in_blocking(&tx, [fact("a")], None).unwrap();
    let mut savepoint = tx.savepoint().unwrap();
    file.journal.append_in_blocking(&savepoint, [fact("b")], None).unwrap();
    savepoint.rollback().unwrap();
    savepoint.commit().unwrap();
    file.journal.append_in_blocking(&tx, [fact("c")], None).unwrap();
    tx.commit().unwrap();
    assert_eq!(tail(&file).await, [1, 2]);
}

#[tokio::test]
async fn without_a_transaction_nothing_is_appended() {
    let file = File::open().await;
    let conn = file.journal.store().connect().unwrap();
    let answer = file.journal.append_in_blocking(&conn, [fact("a")], None);
    assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
    assert!(tail(&file).await.is_empty());
}

/// Holds J1: a transaction that began by reading cannot write what it could not check.
#[tokio::test]
async fn an_old_snapshot_cannot_append() {
    let file = File::open().await;
    let mut conn = file.journal.store().connect().unwrap();
    let tx = conn.transaction_with_behavior(TransactionBehavior::Deferred).unwrap();
    tx.query_row("select count(*) from journal_event", [], |row| row.get::<_, i64>(0)).unwrap();
    file.journal.append([fact("a")]).await.unwrap();
    let condition = Query::of_type("a").none_after(Position::START);
    let answer = file.journal.append_in_blocking(&tx, [fact("b")], Some(condition));
    assert!(matches!(answer, Err(AppendError::Busy(_))), "{answer:?}");
}

/// A file that was replaced by an older copy of itself is not read as if nothing had happened.
#[tokio::test]
async fn positions_that_went_back_are_noticed() {
    let file = File::open().await;
    file.journal.append([fact("a"), fact("b")]).await.unwrap();
    let mut tail = file.journal.tail(Position::START, TailOptions::default()).await.unwrap();
    tail.look().await.unwrap();
    let conn = file.journal.store().connect().unwrap();
    conn.execute_batch(
        "delete from journal_event where position = 2; update sqlite_sequence set seq = 1
          where name = 'journal_event'",
    )
    .unwrap();
    let refused = tail.look().await.map(|_| ());
    assert!(matches!(refused, Err(TailError::Unsafe(Unsafe::WentBack { .. }))), "{refused:?}");
}

#[tokio::test]
async fn journals_with_different_prefixes_live_side_by_side() {
    let file = File::open().await;
    let path = file.folder.path().join("a.db");
    let prefix = Some(Ident::new("billing_").unwrap());
    let options = SqliteOptions { prefix, ..SqliteOptions::default() };
    let other = Journal::new(SqliteJournal::open_with(&path, options).await.unwrap());
    other.append([fact("a")]).await.unwrap();
    assert!(tail(&file).await.is_empty());
    let again = SqliteJournal::open(&path).await.unwrap();
    again.close().await;
    let closed = Journal::new(again).append([fact("a")]).await;
    assert!(matches!(closed, Err(AppendError::Store(StoreError::Closed))), "{closed:?}");
}
