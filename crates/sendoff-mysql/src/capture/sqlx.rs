//! `sqlx`: its transactions, from a pool or a single connection, and its connection inside a
//! transaction begun by hand.
//!
//! sqlx may log every text it sends, so the values of an event are parameters. What goes before the
//! insert, the insert and COMMIT are a round trip each. Nothing can run in between, because whoever
//! commits has the transaction by value and with it the only way to its connection. A write that is
//! dropped during its insert ends its session (`unfinished.rs`).
//!
//! Compiled for each version of sqlx, which is the module around it: `sqlx_08.rs`, `sqlx_09.rs`.

use sendoff_core::BoxError;
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, InsertResult, Nest, Nesting,
    Release, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::driver::mysql::{MySql, MySqlConnection, MySqlDatabaseError, MySqlPool};
use super::driver::{Connection, Error, Executor, Row, Transaction, query, raw_sql};
use super::ours;
use crate::capture::draft::{Draft, Proof, UNDO, names_our_key, preamble, refused};
use crate::capture::inserted::{Inserted, undoes};
use crate::capture::unfinished::Unfinished;
use crate::error::code;
use crate::store::MysqlStore;
use crate::wire::{micros, time_text};

impl<'c> Capture<Transaction<'c, MySql>> for MysqlStore {
    async fn insert(&self, tx: &mut Transaction<'c, MySql>, rows: &[NewRow]) -> InsertResult {
        insert_all(self, tx, rows).await
    }
}

/// The type proves nothing here, and sqlx counts only the transactions it began itself. Outside a
/// transaction nothing is inserted, and the answer is [`WriteError::NoTransaction`].
impl Capture<MySqlConnection> for MysqlStore {
    async fn insert(&self, conn: &mut MySqlConnection, rows: &[NewRow]) -> InsertResult {
        insert_all(self, conn, rows).await
    }
}

/// Await it to its end: sqlx 0.9.0 returns a connection to the pool with the transaction open if its
/// own `begin` is dropped on the way.
impl Begin<&MySqlPool> for MysqlStore {
    type Tx = Transaction<'static, MySql>;

    async fn begin(&self, pool: &MySqlPool) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        pool.begin_with(ours(begin_text(self))).await.map_err(|error| BeginError(error.into()))
    }
}

impl<'c> Begin<&'c mut MySqlConnection> for MysqlStore {
    type Tx = Transaction<'c, MySql>;

    async fn begin(&self, conn: &'c mut MySqlConnection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        // It would be a savepoint, and its release no commit.
        if conn.is_in_transaction() {
            return Err(BeginError("a transaction is open on this connection already".into()));
        }
        conn.begin_with(ours(begin_text(self))).await.map_err(|error| BeginError(error.into()))
    }
}

/// The mark that `still_begun` looks for travels with the beginning.
fn begin_text(store: &MysqlStore) -> String {
    format!("start transaction; {}", store.sql().begun.text())
}

/// Only for what [`Begin`] returned, with no nested transaction leaked in it: to sqlx a savepoint has
/// the same type, and releasing one proves nothing.
impl<'c> Commit<Transaction<'c, MySql>> for MysqlStore {
    async fn commit(
        &self,
        mut tx: Transaction<'c, MySql>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let inserted = match insert_last(self, &mut tx, rows).await {
            Ok(inserted) => inserted,
            Err(error) => {
                // The first error is the one to tell.
                let _ = tx.rollback().await;
                return Err(error);
            }
        };
        inserted.committed(rows, tx.commit().await, number)
    }

    async fn rollback(&self, tx: Transaction<'c, MySql>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

impl<'t, 'c> Nest<'t, Transaction<'c, MySql>> for MysqlStore {
    type Nested = Transaction<'t, MySql>;

    fn savepoint(&'t self, tx: &'t mut Transaction<'c, MySql>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            // A savepoint whose future was dropped took the transaction with it. The next would be a
            // transaction of its own, and its release a commit.
            if !tx.is_in_transaction() {
                return Err(BeginError(WriteError::NoTransaction.into()));
            }
            tx.begin().await.map_err(|error| BeginError(error.into()))
        })
    }
}

impl<'t> Release<'t, Transaction<'t, MySql>> for MysqlStore {
    fn release(&'t self, nested: Transaction<'t, MySql>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.commit().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(
        &'t self,
        nested: Transaction<'t, MySql>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }
}

/// Whatever makes the COMMIT after it a proof.
async fn insert_last(
    store: &MysqlStore,
    tx: &mut Transaction<'_, MySql>,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    // Where by its own count nothing is open, sqlx answers `Ok` to a commit and sends nothing.
    if !tx.is_in_transaction() {
        return Err(CommitError::RolledBack(WriteError::NoTransaction.into()));
    }
    let drafts = Draft::all(rows).map_err(CommitError::Refused)?;
    let lost = |error: Error| CommitError::RolledBack(error.into());
    if drafts.is_empty() {
        let proof = store.sql().still_begun.text();
        // Safe: our own file.
        tx.execute(ours(proof)).await.map_err(|error| match number(&error) {
            Some(code::DOES_NOT_EXIST) => CommitError::RolledBack(WriteError::NoTransaction.into()),
            _ => lost(error),
        })?;
        return Ok(Inserted { born: Vec::new(), session: None });
    }
    send(store, tx, Proof::Begun, &drafts).await.map_err(|error| match number(&error) {
        // COMMIT was not sent: whatever it was, the transaction ends without.
        None => lost(error),
        Some(number) if undoes(number) => lost(error),
        Some(_) => CommitError::Refused(write_error(store, error)),
    })
}

/// Inserts all rows in one statement, in a transaction that somebody else ends.
async fn insert_all(
    store: &MysqlStore,
    conn: &mut MySqlConnection,
    rows: &[NewRow],
) -> InsertResult {
    let sent = send(store, conn, Proof::Open, &Draft::written(store, rows)?).await;
    sent.map(|inserted| inserted.born).map_err(|error| write_error(store, error))
}

/// Inserts the drafts one after the other; where one fails, those before it are undone.
async fn send(
    store: &MysqlStore,
    conn: &mut MySqlConnection,
    proof: Proof,
    drafts: &[Draft<'_>],
) -> Result<Inserted, Error> {
    let mut inserted = Inserted { born: Vec::new(), session: None };
    for (at, draft) in drafts.iter().enumerate() {
        let preamble = preamble(store, proof, drafts, at);
        match send_one(store, conn, preamble, draft).await {
            Ok((created_at, session)) => {
                inserted.born.extend(draft.born(created_at));
                inserted.session = Some(session);
            }
            Err(error) => {
                if at > 0 && number(&error).is_some() {
                    // Fails only where the transaction is gone, and they with it.
                    let _ = conn.execute(UNDO).await;
                }
                return Err(error);
            }
        }
    }
    Ok(inserted)
}

/// When it was inserted, in microseconds, and the session's number.
async fn send_one(
    store: &MysqlStore,
    conn: &mut MySqlConnection,
    preamble: String,
    draft: &Draft<'_>,
) -> Result<(i64, u64), Error> {
    let before = preamble + store.sql().inserted.text();
    // Safe: our own files, with checked names and hexadecimal ids in them.
    let answer = conn.fetch_all(raw_sql(ours(before.as_str()))).await?;
    let answer = answer.first().ok_or(Error::RowNotFound)?;
    let (created_at, session) = (answer.try_get_unchecked(0)?, answer.try_get_unchecked(1)?);
    // Safe: our own file, with checked names and question marks in it. Kept prepared only for one row,
    // or every number of rows would be a statement to keep.
    let text = draft.text_with_marks(store);
    let mut insert = query(ours(text.as_str())).persistent(draft.rows.len() == 1);
    // Texts travel as bytes: the server would take them for the session's character set, which is the
    // application's to change.
    for row in &draft.rows {
        insert = insert.bind(row.id.as_bytes().as_slice());
        for name in row.names {
            insert = insert.bind(name.map(str::as_bytes));
        }
        insert = insert
            .bind(row.shard)
            .bind(row.content_type.as_bytes())
            .bind(time_text(row.occurred_at))
            .bind(micros(row.after))
            .bind(row.locked_by.map(str::as_bytes))
            .bind(row.headers.as_deref().map(str::as_bytes))
            .bind(row.payload)
            .bind(row.delay().map(micros));
    }
    let unfinished = Unfinished::new(store, session);
    let answer = insert.execute(&mut *conn).await;
    unfinished.answered();
    answer?;
    Ok((created_at, session))
}

fn refusal(error: &Error) -> Option<&MySqlDatabaseError> {
    error.as_database_error()?.try_downcast_ref()
}

/// The server's number, where it was the server that refused.
pub(crate) fn number(error: &Error) -> Option<u16> {
    refusal(error).map(MySqlDatabaseError::number)
}

fn write_error(store: &MysqlStore, error: Error) -> WriteError {
    let is_our_key = refusal(&error).is_some_and(|refusal| names_our_key(store, refusal.message()));
    refused(number(&error), is_our_key, BoxError::from(error))
}
