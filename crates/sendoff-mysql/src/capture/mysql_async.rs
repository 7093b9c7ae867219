//! `mysql_async`: transactions that we begin, and its own transactions and connections.

use std::ops::{Deref, DerefMut};

use ::mysql_async::consts::StatusFlags;
use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Error, Pool, Transaction, TxOpts};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, Nest, Release,
    TornSavepoint, WriteError,
};
use sendoff_engine::store::{Born, NewRow};

use super::draft::{Draft, Proof, UNDO, insert_texts, names_our_key, refused};
use crate::error::{code, is_lost_race, number};
use crate::link::last_rows;
use crate::rows;
use crate::store::MysqlStore;

/// A transaction that the outbox began on a `mysql_async` connection. Dereferences to it.
///
/// A savepoint guard must be ended: one that is dropped cannot be rolled back on the spot, and nothing
/// of its transaction commits then.
#[derive(Debug)]
pub struct MysqlTransaction<'c> {
    tx: Transaction<'c>,
    proof: Proof,
    torn: bool,
}

impl<'c> Deref for MysqlTransaction<'c> {
    type Target = Transaction<'c>;

    fn deref(&self) -> &Self::Target {
        &self.tx
    }
}

impl DerefMut for MysqlTransaction<'_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        &mut self.tx
    }
}

/// A savepoint in a [`MysqlTransaction`]. Dereferences to it.
#[derive(Debug)]
pub struct MysqlSavepoint<'t, 'c> {
    tx: &'t mut MysqlTransaction<'c>,
    depth: u32,
    ended: bool,
}

impl<'c> Deref for MysqlSavepoint<'_, 'c> {
    type Target = MysqlTransaction<'c>;

    fn deref(&self) -> &Self::Target {
        self.tx
    }
}

impl DerefMut for MysqlSavepoint<'_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.tx
    }
}

impl Drop for MysqlSavepoint<'_, '_> {
    fn drop(&mut self) {
        self.tx.torn |= !self.ended;
    }
}

impl<'c> Capture<MysqlTransaction<'c>> for MysqlStore {
    async fn insert(
        &self,
        tx: &mut MysqlTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, WriteError> {
        insert_all(self, &mut tx.tx, rows).await
    }
}

impl<'c> Capture<Transaction<'c>> for MysqlStore {
    async fn insert(
        &self,
        tx: &mut Transaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, WriteError> {
        insert_all(self, tx, rows).await
    }
}

/// The type proves nothing here; outside a transaction the server inserts nothing, and the answer is
/// [`WriteError::NoTransaction`]. With autocommit off there is always a transaction.
impl Capture<Conn> for MysqlStore {
    async fn insert(&self, conn: &mut Conn, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        insert_all(self, conn, rows).await
    }
}

impl<'c> Begin<&'c mut Conn> for MysqlStore {
    type Tx = MysqlTransaction<'c>;

    async fn begin(&self, conn: &'c mut Conn) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        begun(self, conn.start_transaction(TxOpts::new()).await).await
    }
}

impl Begin<&Pool> for MysqlStore {
    type Tx = MysqlTransaction<'static>;

    async fn begin(&self, pool: &Pool) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        begun(self, pool.start_transaction(TxOpts::new()).await).await
    }
}

/// With autocommit on there is no transaction after one that the server ended, and the insert finds
/// out. With autocommit off there is a new one, so ours is marked.
async fn begun<'c>(
    store: &MysqlStore,
    tx: Result<Transaction<'c>, Error>,
) -> Result<MysqlTransaction<'c>, BeginError> {
    let mut tx = tx.map_err(|error| BeginError(error.into()))?;
    let proof = if is_autocommit(&tx) == Some(true) {
        Proof::Open
    } else {
        let begun = store.sql().begun.text();
        tx.query_drop(begun).await.map_err(|error| BeginError(error.into()))?;
        Proof::Begun
    };
    Ok(MysqlTransaction { tx, proof, torn: false })
}

/// What the server said with its last answer; `None` if that was an error.
fn is_autocommit(conn: &Conn) -> Option<bool> {
    let flags = conn.last_ok_packet()?.status_flags();
    Some(flags.contains(StatusFlags::SERVER_STATUS_AUTOCOMMIT))
}

impl<'c> Commit<MysqlTransaction<'c>> for MysqlStore {
    async fn commit(
        &self,
        tx: MysqlTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let MysqlTransaction { mut tx, proof, torn } = tx;
        let inserted = match insert_last(self, &mut tx, proof, torn, rows).await {
            Ok(inserted) => inserted,
            Err(error) => {
                // The first error is the one to tell.
                let _ = tx.rollback().await;
                return Err(error);
            }
        };
        let mark = CommitMark::new(rows.iter().map(|row| row.event.id()).collect());
        let mark = match inserted.session {
            Some(session) => mark.with_xid(session),
            None => mark,
        };
        match tx.commit().await {
            Ok(()) => Ok(inserted.born),
            // A few refusals are known to mean that it was rolled back.
            Err(error) if number(&error).is_some_and(undoes) => {
                Err(CommitError::RolledBack(error.into()))
            }
            Err(error) => Err(CommitError::Unknown { mark, source: error.into() }),
        }
    }

    async fn rollback(&self, tx: MysqlTransaction<'c>) -> Result<(), CommitError> {
        // One that fails here still cannot commit: the server undoes it when the connection closes.
        tx.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

/// Whether COMMIT answered with this number did not commit.
pub(super) fn undoes(number: u16) -> bool {
    is_lost_race(number) || number == code::GROUP_CONFLICT
}

impl<'t, 'c: 't> Nest<'t, MysqlTransaction<'c>> for MysqlStore {
    type Nested = MysqlSavepoint<'t, 'c>;

    fn savepoint(
        &'t self,
        tx: &'t mut MysqlTransaction<'c>,
    ) -> BoxFuture<'t, Result<Self::Nested, BeginError>> {
        Box::pin(set_savepoint(self, tx, 1))
    }
}

impl<'t, 'o: 't, 'c: 'o> Nest<'t, MysqlSavepoint<'o, 'c>> for MysqlStore {
    type Nested = MysqlSavepoint<'t, 'c>;

    fn savepoint(
        &'t self,
        outer: &'t mut MysqlSavepoint<'o, 'c>,
    ) -> BoxFuture<'t, Result<Self::Nested, BeginError>> {
        let depth = outer.depth + 1;
        Box::pin(set_savepoint(self, outer.tx, depth))
    }
}

async fn set_savepoint<'t, 'c>(
    store: &MysqlStore,
    tx: &'t mut MysqlTransaction<'c>,
    depth: u32,
) -> Result<MysqlSavepoint<'t, 'c>, BeginError> {
    // Outside a transaction it would be set and gone at once.
    let text = format!("{};\nsavepoint sendoff_{depth}", store.sql().in_transaction.text());
    tx.tx.query_drop(text).await.map_err(|error| match number(&error) {
        Some(code::DOES_NOT_EXIST) => BeginError(WriteError::NoTransaction.into()),
        _ => BeginError(error.into()),
    })?;
    Ok(MysqlSavepoint { tx, depth, ended: false })
}

impl<'t, 'c: 't> Release<'t, MysqlSavepoint<'t, 'c>> for MysqlStore {
    fn release(&'t self, nested: MysqlSavepoint<'t, 'c>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(end_savepoint(nested, "release savepoint"))
    }

    fn roll_back_to(
        &'t self,
        nested: MysqlSavepoint<'t, 'c>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(end_savepoint(nested, "rollback to savepoint"))
    }
}

async fn end_savepoint(mut nested: MysqlSavepoint<'_, '_>, end: &str) -> Result<(), CommitError> {
    let text = format!("{end} sendoff_{}", nested.depth);
    let answer = nested.tx.tx.query_drop(text).await;
    // A dropped future never comes here, and the transaction is torn.
    nested.ended = answer.is_ok();
    answer.map_err(|error| CommitError::RolledBack(error.into()))
}

/// The server's answer to an insert.
struct Inserted {
    born: Vec<Born>,
    /// The session's number; `None` where nothing was inserted.
    session: Option<u64>,
}

/// Whatever makes the COMMIT behind it a proof.
async fn insert_last(
    store: &MysqlStore,
    tx: &mut Transaction<'_>,
    proof: Proof,
    torn: bool,
    rows: &[NewRow],
) -> Result<Inserted, CommitError> {
    store.check_open().map_err(|_| CommitError::Refused(WriteError::Closed))?;
    if torn {
        return Err(CommitError::RolledBack(TornSavepoint.into()));
    }
    let lost = |error: Error| CommitError::RolledBack(error.into());
    if proof == Proof::Open {
        // The last answer may have been an error, which does not say.
        if is_autocommit(tx).is_none() {
            tx.query_drop("do 0").await.map_err(lost)?;
        }
        if is_autocommit(tx) == Some(false) {
            return Err(CommitError::RolledBack(Box::new(AutocommitSwitchedOff)));
        }
    }
    let drafts = Draft::all(rows).map_err(CommitError::Refused)?;
    if drafts.is_empty() {
        let proof = match proof {
            Proof::Open => store.sql().in_transaction.text(),
            Proof::Begun => store.sql().still_begun.text(),
        };
        tx.query_drop(proof).await.map_err(|error| match number(&error) {
            Some(code::DOES_NOT_EXIST) => CommitError::RolledBack(WriteError::NoTransaction.into()),
            _ => lost(error),
        })?;
        return Ok(Inserted { born: Vec::new(), session: None });
    }
    send(store, tx, proof, &drafts).await.map_err(|error| match number(&error) {
        // COMMIT was not sent: whatever it was, the transaction ends without.
        None => lost(error),
        Some(number) if undoes(number) => lost(error),
        Some(_) => CommitError::Refused(write_error(store, error)),
    })
}

#[derive(Debug, thiserror::Error)]
#[error(
    "autocommit was switched off inside the transaction, so that nobody can tell it from the next; \
     switch it before the transaction begins"
)]
struct AutocommitSwitchedOff;

/// Inserts all rows, all or none, in a transaction that somebody else ends.
async fn insert_all<C: Queryable>(
    store: &MysqlStore,
    conn: &mut C,
    rows: &[NewRow],
) -> Result<Vec<Born>, WriteError> {
    store.check_open().map_err(|_| WriteError::Closed)?;
    let drafts = Draft::all(rows)?;
    if drafts.is_empty() {
        return Ok(Vec::new());
    }
    match send(store, conn, Proof::Open, &drafts).await {
        Ok(inserted) => Ok(inserted.born),
        Err(error) => Err(write_error(store, error)),
    }
}

/// Sends the texts one after the other; where one fails, those before it are undone.
async fn send<C: Queryable>(
    store: &MysqlStore,
    conn: &mut C,
    proof: Proof,
    drafts: &[Draft],
) -> Result<Inserted, Error> {
    let mut inserted = Inserted { born: Vec::new(), session: None };
    let said = store.sql().inserted.text();
    for (at, text) in insert_texts(store, proof, drafts).into_iter().enumerate() {
        let answer = last_rows(conn, &format!("{text};\n{said}")).await;
        let answer = match answer {
            Ok(answer) => answer,
            Err(error) => {
                if at > 0 && number(&error).is_some() {
                    // Fails only where the transaction is gone, and they with it.
                    let _ = conn.query_drop(UNDO).await;
                }
                return Err(error);
            }
        };
        let numbers = answer.first().map(|row| (rows::integer(row, 0), rows::integer(row, 1)));
        let Some((Ok(created_at), Ok(session))) = numbers else {
            return Err(Error::Other("the server did not say when it inserted".into()));
        };
        inserted.born.extend(drafts[at].born(created_at));
        inserted.session = u64::try_from(session).ok();
    }
    Ok(inserted)
}

fn write_error(store: &MysqlStore, error: Error) -> WriteError {
    let is_our_key = match &error {
        Error::Server(refusal) => names_our_key(store, &refusal.message),
        _ => false,
    };
    refused(number(&error), is_our_key, error.into())
}
