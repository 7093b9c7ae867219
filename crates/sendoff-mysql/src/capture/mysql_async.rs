//! `mysql_async`: transactions that we begin, and its own transactions and connections.

use std::ops::{Deref, DerefMut};

use ::mysql_async::consts::StatusFlags;
use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Error, Pool, Transaction, TxOpts};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, InsertResult, Inserted,
    Join, JoinError, Nest, Nesting, Part, Release, SendError, TornSavepoint, WriteError,
};
use sendoff_engine::store::{Born, NewRow, SendStore};

use super::draft::{Draft, Proof};
use super::insert::{self, Carrier, Insert, insert_all, send, undoes, write_error};
use super::join::take_part;
use crate::error::{code, failed, number};
use crate::link::{Tries, last_rows};
use crate::rows;
use crate::store::MysqlStore;

/// A transaction that the outbox began on a connection of a pool. Dereferences to `mysql_async`'s own.
///
/// A savepoint guard must be ended: one that is dropped cannot be rolled back on the spot, and nothing
/// of its transaction commits then.
#[derive(Debug)]
pub struct MysqlTransaction(Begun<'static>);

/// The same on a connection that the caller lends.
///
/// The compiler cannot show that a future which sets savepoints in it is `Send`; where that matters,
/// begin with a pool.
#[derive(Debug)]
pub struct MysqlConnTransaction<'c>(Begun<'c>);

/// A savepoint in a [`MysqlTransaction`]. Dereferences to the transaction.
#[derive(Debug)]
pub struct MysqlSavepoint<'t>(Savepoint<'t, 'static>);

/// A savepoint in a [`MysqlConnTransaction`]. Dereferences to the transaction.
#[derive(Debug)]
pub struct MysqlConnSavepoint<'t, 'c>(Savepoint<'t, 'c>);

/// A transaction that we began.
#[derive(Debug)]
struct Begun<'c> {
    tx: Transaction<'c>,
    proof: Proof,
    /// Whether a savepoint was dropped, or its end not waited for.
    torn: bool,
}

#[derive(Debug)]
struct Savepoint<'t, 'c> {
    begun: &'t mut Begun<'c>,
    depth: u32,
    ended: bool,
}

impl Drop for Savepoint<'_, '_> {
    fn drop(&mut self) {
        self.begun.torn |= !self.ended;
    }
}

impl<'c> Savepoint<'_, 'c> {
    fn tx(&self) -> &Transaction<'c> {
        &self.begun.tx
    }

    fn tx_mut(&mut self) -> &mut Transaction<'c> {
        &mut self.begun.tx
    }
}

impl<'c> Begun<'c> {
    fn tx(&self) -> &Transaction<'c> {
        &self.tx
    }

    fn tx_mut(&mut self) -> &mut Transaction<'c> {
        &mut self.tx
    }
}

macro_rules! dereferences {
    ($([$($lifetime:lifetime),*] $type:ty => $target:ty),* $(,)?) => {$(
        impl<$($lifetime),*> Deref for $type {
            type Target = $target;

            fn deref(&self) -> &Self::Target {
                self.0.tx()
            }
        }

        impl<$($lifetime),*> DerefMut for $type {
            fn deref_mut(&mut self) -> &mut Self::Target {
                self.0.tx_mut()
            }
        }
    )*};
}

dereferences!(
    [] MysqlTransaction => Transaction<'static>,
    ['c] MysqlConnTransaction<'c> => Transaction<'c>,
    ['t] MysqlSavepoint<'t> => Transaction<'static>,
    ['t, 'c] MysqlConnSavepoint<'t, 'c> => Transaction<'c>,
);

impl<'c> Capture<Transaction<'c>> for MysqlStore {
    async fn insert(&self, tx: &mut Transaction<'c>, rows: &[NewRow]) -> InsertResult {
        insert_all(self, &mut Driver(tx), rows).await
    }
}

/// The type proves nothing here; outside a transaction the server inserts nothing, and the answer is
/// [`WriteError::NoTransaction`]. With autocommit off there is always a transaction.
impl Capture<Conn> for MysqlStore {
    async fn insert(&self, conn: &mut Conn, rows: &[NewRow]) -> InsertResult {
        insert_all(self, &mut Driver(conn), rows).await
    }
}

/// Outside a transaction nothing is done, and the answer is [`JoinError::NoTransaction`].
impl Join<Conn> for MysqlStore {
    async fn join(&self, conn: &mut Conn, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, &mut Driver(conn), part).await
    }
}

impl<'c> Join<Transaction<'c>> for MysqlStore {
    async fn join(&self, tx: &mut Transaction<'c>, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, &mut Driver(tx), part).await
    }
}

macro_rules! joins {
    ($([$($lifetime:lifetime),*] $type:ty),* $(,)?) => {$(
        impl<$($lifetime),*> Join<$type> for MysqlStore {
            async fn join(&self, tx: &mut $type, part: &Part<'_>) -> Result<bool, JoinError> {
                take_part(self, &mut Driver(&mut **tx), part).await
            }
        }
    )*};
}

joins!(
    [] MysqlTransaction,
    ['c] MysqlConnTransaction<'c>,
    ['t] MysqlSavepoint<'t>,
    ['t, 'c] MysqlConnSavepoint<'t, 'c>,
);

impl<'c> Begin<&'c mut Conn> for MysqlStore {
    type Tx = MysqlConnTransaction<'c>;

    async fn begin(&self, conn: &'c mut Conn) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        begun(self, conn.start_transaction(TxOpts::new()).await).await.map(MysqlConnTransaction)
    }
}

impl Begin<&Pool> for MysqlStore {
    type Tx = MysqlTransaction;

    async fn begin(&self, pool: &Pool) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        begun(self, pool.start_transaction(TxOpts::new()).await).await.map(MysqlTransaction)
    }
}

/// With autocommit on there is no transaction after one that the server ended, and the insert finds
/// out. With autocommit off there is a new one, so ours is marked.
async fn begun<'c>(
    store: &MysqlStore,
    tx: Result<Transaction<'c>, Error>,
) -> Result<Begun<'c>, BeginError> {
    let mut tx = tx.map_err(|error| BeginError(error.into()))?;
    let proof = if is_autocommit(&tx) == Some(true) {
        Proof::Open
    } else {
        let begun = store.sql().begun.text();
        tx.query_drop(begun).await.map_err(|error| BeginError(error.into()))?;
        Proof::Begun
    };
    Ok(Begun { tx, proof, torn: false })
}

/// What the server said with its last answer; `None` if that was an error.
fn is_autocommit(conn: &Conn) -> Option<bool> {
    let flags = conn.last_ok_packet()?.status_flags();
    Some(flags.contains(StatusFlags::SERVER_STATUS_AUTOCOMMIT))
}

/// Whether the server said so with its last answer.
fn is_in_transaction(conn: &Conn) -> bool {
    let flags = conn.last_ok_packet().map(|answer| answer.status_flags());
    flags.is_some_and(|flags| flags.contains(StatusFlags::SERVER_STATUS_IN_TRANS))
}

impl Commit<MysqlTransaction> for MysqlStore {
    async fn commit(
        &self,
        tx: MysqlTransaction,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        commit(self, tx.0, rows).await
    }

    async fn rollback(&self, tx: MysqlTransaction) -> Result<(), CommitError> {
        roll_back(tx.0).await
    }
}

impl<'c> Commit<MysqlConnTransaction<'c>> for MysqlStore {
    async fn commit(
        &self,
        tx: MysqlConnTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        commit(self, tx.0, rows).await
    }

    async fn rollback(&self, tx: MysqlConnTransaction<'c>) -> Result<(), CommitError> {
        roll_back(tx.0).await
    }
}

async fn commit(
    store: &MysqlStore,
    begun: Begun<'_>,
    rows: &[NewRow],
) -> Result<Vec<Born>, CommitError> {
    let Begun { mut tx, proof, torn } = begun;
    let inserted = match insert_last(store, &mut tx, proof, torn, rows).await {
        Ok(inserted) => inserted,
        Err(error) => {
            // The first error is the one to tell.
            let _ = tx.rollback().await;
            return Err(error);
        }
    };
    inserted.committed(
        CommitMark::of(rows),
        tx.commit().await,
        insert::is_rolled_back::<Driver<'_, Conn>>,
    )
}

async fn roll_back(begun: Begun<'_>) -> Result<(), CommitError> {
    // One that fails here still cannot commit: the server undoes it when the connection closes.
    begun.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
}

impl SendStore for MysqlStore {
    /// COMMIT is a round trip of its own: else nobody could tell a COMMIT that failed from an insert that did.
    async fn send(&self, rows: &[NewRow]) -> Result<Vec<Born>, SendError> {
        let drafts = Draft::written(self, rows)?;
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().sends.session().await?;
            let idle = session.is_stale();
            let conn = session.conn().map_err(failed)?;
            let inserted = match begin_and_insert(self, conn, &drafts).await {
                Ok(inserted) => inserted,
                // The server ended a connection that lay idle: COMMIT was not sent.
                Err(error) if idle && number(&error).is_none() && tries.again() => continue,
                Err(error) => {
                    let is_refused = number(&error).is_some_and(|number| !undoes(number));
                    if number(&error).is_some() && session.query("rollback").await.is_ok() {
                        session.keep();
                    }
                    return Err(match is_refused {
                        true => write_error::<Driver<'_, Conn>>(self, error).into(),
                        false => CommitError::RolledBack(error.into()).into(),
                    });
                }
            };
            let committed = conn.query_drop("commit").await;
            let is_known = committed.is_ok();
            let committed = inserted.committed(
                CommitMark::of(rows),
                committed,
                insert::is_rolled_back::<Driver<'_, Conn>>,
            );
            if is_known {
                session.keep();
            }
            return Ok(committed?);
        }
    }
}

async fn begin_and_insert(
    store: &MysqlStore,
    conn: &mut Conn,
    drafts: &[Draft<'_>],
) -> Result<Inserted, Error> {
    conn.query_drop("start transaction").await?;
    send(store, &mut Driver(conn), Proof::Told, drafts).await
}

impl<'t> Nest<'t, MysqlTransaction> for MysqlStore {
    type Nested = MysqlSavepoint<'t>;

    fn savepoint(&'t self, tx: &'t mut MysqlTransaction) -> Nesting<'t, Self::Nested> {
        Box::pin(async move { set_savepoint(self, &mut tx.0, 1).await.map(MysqlSavepoint) })
    }
}

impl<'t, 'o> Nest<'t, MysqlSavepoint<'o>> for MysqlStore {
    type Nested = MysqlSavepoint<'t>;

    fn savepoint(&'t self, outer: &'t mut MysqlSavepoint<'o>) -> Nesting<'t, Self::Nested> {
        let depth = outer.0.depth + 1;
        Box::pin(async move { set_savepoint(self, outer.0.begun, depth).await.map(MysqlSavepoint) })
    }
}

impl<'t, 'c: 't> Nest<'t, MysqlConnTransaction<'c>> for MysqlStore {
    type Nested = MysqlConnSavepoint<'t, 'c>;

    fn savepoint(&'t self, tx: &'t mut MysqlConnTransaction<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move { set_savepoint(self, &mut tx.0, 1).await.map(MysqlConnSavepoint) })
    }
}

impl<'t, 'o: 't, 'c: 'o> Nest<'t, MysqlConnSavepoint<'o, 'c>> for MysqlStore {
    type Nested = MysqlConnSavepoint<'t, 'c>;

    fn savepoint(&'t self, outer: &'t mut MysqlConnSavepoint<'o, 'c>) -> Nesting<'t, Self::Nested> {
        let depth = outer.0.depth + 1;
        Box::pin(
            async move { set_savepoint(self, outer.0.begun, depth).await.map(MysqlConnSavepoint) },
        )
    }
}

async fn set_savepoint<'t, 'c>(
    store: &MysqlStore,
    begun: &'t mut Begun<'c>,
    depth: u32,
) -> Result<Savepoint<'t, 'c>, BeginError> {
    // Outside a transaction it would be set and gone at once.
    let text = format!("{};\nsavepoint sendoff_{depth}", store.sql().in_transaction.text());
    begun.tx.query_drop(text).await.map_err(|error| match number(&error) {
        Some(code::DOES_NOT_EXIST) => BeginError(WriteError::NoTransaction.into()),
        _ => BeginError(error.into()),
    })?;
    Ok(Savepoint { begun, depth, ended: false })
}

impl<'t> Release<'t, MysqlSavepoint<'t>> for MysqlStore {
    fn release(&'t self, nested: MysqlSavepoint<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(end_savepoint(nested.0, RELEASE))
    }

    fn roll_back_to(
        &'t self,
        nested: MysqlSavepoint<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(end_savepoint(nested.0, ROLL_BACK))
    }
}

impl<'t, 'c: 't> Release<'t, MysqlConnSavepoint<'t, 'c>> for MysqlStore {
    fn release(
        &'t self,
        nested: MysqlConnSavepoint<'t, 'c>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(end_savepoint(nested.0, RELEASE))
    }

    fn roll_back_to(
        &'t self,
        nested: MysqlConnSavepoint<'t, 'c>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(end_savepoint(nested.0, ROLL_BACK))
    }
}

const RELEASE: &str = "release savepoint";
const ROLL_BACK: &str = "rollback to savepoint";

async fn end_savepoint(mut nested: Savepoint<'_, '_>, end: &str) -> Result<(), CommitError> {
    let text = format!("{end} sendoff_{}", nested.depth);
    let answer = nested.begun.tx.query_drop(text).await;
    // A dropped future never comes here, and the transaction is torn.
    nested.ended = answer.is_ok();
    answer.map_err(|error| CommitError::RolledBack(error.into()))
}

/// Whatever makes the COMMIT after it a proof.
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
    let proof = if proof == Proof::Open && is_in_transaction(tx) { Proof::Told } else { proof };
    insert::insert_last(store, &mut Driver(tx), proof, rows).await
}

#[derive(Debug, thiserror::Error)]
#[error(
    "autocommit was switched off inside the transaction, so that nobody can tell it from the next; \
     switch it before the transaction begins"
)]
struct AutocommitSwitchedOff;

/// A connection of its own or a transaction.
struct Driver<'a, C>(&'a mut C);

impl<C: Queryable> Carrier for Driver<'_, C> {
    type Error = Error;

    async fn insert(&mut self, insert: Insert<'_>) -> Result<(i64, u64), Error> {
        let Insert { store, draft, before } = insert;
        let text = format!("{before}{};\n{}", draft.text(store), store.sql().inserted.text());
        let answer = last_rows(self.0, &text).await?;
        let numbers = answer.first().map(|row| (rows::integer(row, 0), rows::integer(row, 1)));
        match numbers {
            Some((Ok(created_at), Ok(session))) => Ok((created_at, session.unsigned_abs())),
            _ => Err(Error::Other("the server did not say when it inserted".into())),
        }
    }

    async fn run(&mut self, text: &str) -> Result<(), Error> {
        self.0.query_drop(text).await
    }

    async fn ask(&mut self, text: &str) -> Result<bool, Error> {
        let answer = last_rows(self.0, text).await?;
        Ok(answer.first().is_some_and(|row| rows::integer(row, 0).is_ok_and(|yes| yes != 0)))
    }

    fn refusal(error: &Error) -> Option<(u16, &str)> {
        match error {
            Error::Server(refusal) => Some((refusal.code, &refusal.message)),
            _ => None,
        }
    }
}
