//! `sea-orm`: its transactions, whichever store they are for.
//!
//! Handles of its nested transactions share the connection without borrowing from one another. One that is
//! left open turns the outer `commit` into the release of a savepoint, and one that is dropped in time undoes
//! the insert; both answer `Ok`. So a guard has the only handle, as [`SeaOrmTransaction`], which runs queries
//! and begins nothing. What was written into a transaction of the application's own is confirmed by the store
//! after `release`, and that holds whatever the driver said.
//!
//! It stands here because one type of sea-orm's is for every database: a store says what it inserts and how it
//! reads answers ([`SeaOrmStore`]), and captures these transactions by that.

use std::marker::PhantomData;

use ::sea_orm::{
    ConnectionTrait, DatabaseConnection, DatabaseTransaction, DbBackend, DbErr, ExecResult,
    QueryResult, Statement, TransactionTrait,
};
use async_trait::async_trait;

use super::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, InsertResult, Inserted,
    Join, JoinError, Nest, Nesting, Part, Release, WriteError,
};
use crate::store::{Born, NewRow, StoreError};

/// What a store does in a transaction of sea-orm's, which is then one that it captures.
#[diagnostic::on_unimplemented(
    message = "the outbox on `{Self}` takes no transactions of sea-orm",
    note = "on PostgreSQL they need the feature `postgres-sea-orm` of `sendoff`, on MySQL and MariaDB `mysql-sea-orm`"
)]
pub trait SeaOrmStore: Sync {
    /// The database that its transactions are of.
    const BACKEND: DbBackend;

    /// The database's name, for whoever passes a transaction of another.
    const DATABASE: &'static str;

    /// Whether the store can still be used.
    fn check_open(&self) -> Result<(), StoreError>;

    /// A transaction of ours has begun, and nothing else was done in it.
    fn begun(&self, _tx: &DatabaseTransaction) -> impl Future<Output = Result<(), DbErr>> + Send {
        std::future::ready(Ok(()))
    }

    /// Inserts all rows in one statement, as [`Capture::insert`] says.
    fn insert_rows(
        &self,
        tx: &DatabaseTransaction,
        rows: &[NewRow],
    ) -> impl Future<Output = InsertResult> + Send;

    /// Inserts all rows, and whatever else makes the COMMIT after it a proof: nobody else can send a statement
    /// in between.
    fn insert_last(
        &self,
        tx: &DatabaseTransaction,
        rows: &[NewRow],
    ) -> impl Future<Output = Result<Inserted, CommitError>> + Send;

    /// Carries out a part of an effect, as [`Join::join`] says.
    fn take_part(
        &self,
        tx: &DatabaseTransaction,
        part: &Part<'_>,
    ) -> impl Future<Output = Result<bool, JoinError>> + Send;

    /// Whether a COMMIT that was answered with this error is known to have been rolled back.
    fn is_rolled_back(error: &DbErr) -> bool;
}

impl<S: SeaOrmStore> Capture<DatabaseTransaction> for S {
    async fn insert(&self, tx: &mut DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        insert(self, tx, rows).await
    }
}

/// What a closure of sea-orm's `transaction` is given.
impl<'c, S: SeaOrmStore> Capture<&'c DatabaseTransaction> for S {
    async fn insert(&self, tx: &mut &'c DatabaseTransaction, rows: &[NewRow]) -> InsertResult {
        insert(self, tx, rows).await
    }
}

async fn insert<S: SeaOrmStore>(
    store: &S,
    tx: &DatabaseTransaction,
    rows: &[NewRow],
) -> InsertResult {
    store.check_open().map_err(|_| WriteError::Closed)?;
    check_backend::<S>(tx).map_err(|wrong| WriteError::Driver(wrong.into()))?;
    store.insert_rows(tx, rows).await
}

fn check_backend<S: SeaOrmStore>(tx: &DatabaseTransaction) -> Result<(), String> {
    match tx.get_database_backend() == S::BACKEND {
        true => Ok(()),
        false => Err(format!("the transaction is not one of {}", S::DATABASE)),
    }
}

impl<S: SeaOrmStore> Join<DatabaseTransaction> for S {
    async fn join(&self, tx: &mut DatabaseTransaction, part: &Part<'_>) -> Result<bool, JoinError> {
        take_part(self, tx, part).await
    }
}

/// What a closure of sea-orm's `transaction` is given.
impl<'c, S: SeaOrmStore> Join<&'c DatabaseTransaction> for S {
    async fn join(
        &self,
        tx: &mut &'c DatabaseTransaction,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        take_part(self, tx, part).await
    }
}

impl<'c, S: SeaOrmStore> Join<SeaOrmTransaction<'c>> for S {
    async fn join(
        &self,
        tx: &mut SeaOrmTransaction<'c>,
        part: &Part<'_>,
    ) -> Result<bool, JoinError> {
        take_part(self, &tx.tx, part).await
    }
}

async fn take_part<S: SeaOrmStore>(
    store: &S,
    tx: &DatabaseTransaction,
    part: &Part<'_>,
) -> Result<bool, JoinError> {
    store.check_open().map_err(|_| JoinError::Closed)?;
    check_backend::<S>(tx).map_err(|wrong| JoinError::Driver(wrong.into()))?;
    store.take_part(tx, part).await
}

/// A transaction of sea-orm's to which nobody else has a handle, or a savepoint in one. Queries of sea-orm
/// run on it as on any connection (`&*tx`); a nested one is set by the guard's `savepoint`.
#[derive(Debug)]
pub struct SeaOrmTransaction<'t> {
    tx: DatabaseTransaction,
    /// What it is a savepoint of is not used meanwhile.
    within: PhantomData<&'t mut ()>,
}

impl SeaOrmTransaction<'_> {
    fn alone(tx: DatabaseTransaction) -> Self {
        Self { tx, within: PhantomData }
    }

    /// One that fails here still cannot commit: the server undoes it when the connection closes.
    async fn roll_back(self) -> Result<(), CommitError> {
        self.tx.rollback().await.map_err(|error| CommitError::RolledBack(error.into()))
    }
}

#[async_trait]
impl ConnectionTrait for SeaOrmTransaction<'_> {
    fn get_database_backend(&self) -> DbBackend {
        ConnectionTrait::get_database_backend(&self.tx)
    }

    async fn execute_raw(&self, statement: Statement) -> Result<ExecResult, DbErr> {
        self.tx.execute_raw(statement).await
    }

    async fn execute_unprepared(&self, text: &str) -> Result<ExecResult, DbErr> {
        self.tx.execute_unprepared(text).await
    }

    async fn query_one_raw(&self, statement: Statement) -> Result<Option<QueryResult>, DbErr> {
        self.tx.query_one_raw(statement).await
    }

    async fn query_all_raw(&self, statement: Statement) -> Result<Vec<QueryResult>, DbErr> {
        self.tx.query_all_raw(statement).await
    }
}

/// Await it to its end: sqlx 0.9.0, on which sea-orm is built, returns a connection to the pool with the
/// transaction open if its own `begin` is dropped on the way.
impl<S: SeaOrmStore> Begin<&DatabaseConnection> for S {
    type Tx = SeaOrmTransaction<'static>;

    async fn begin(&self, db: &DatabaseConnection) -> Result<Self::Tx, BeginError> {
        self.check_open().map_err(|error| BeginError(error.into()))?;
        if db.get_database_backend() != S::BACKEND {
            let wrong = format!("the connection is not one of {}", S::DATABASE);
            return Err(BeginError(wrong.into()));
        }
        let tx = db.begin().await.map_err(|error| BeginError(error.into()))?;
        self.begun(&tx).await.map_err(|error| BeginError(error.into()))?;
        Ok(SeaOrmTransaction::alone(tx))
    }
}

/// Nothing can run between the insert and COMMIT: whoever commits has the only handle.
impl<'c, S: SeaOrmStore> Commit<SeaOrmTransaction<'c>> for S {
    async fn commit(
        &self,
        SeaOrmTransaction { tx, .. }: SeaOrmTransaction<'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, CommitError> {
        let inserted = match self.check_open() {
            Ok(()) => self.insert_last(&tx, rows).await,
            Err(_) => Err(CommitError::Refused(WriteError::Closed)),
        };
        match inserted {
            Ok(inserted) => {
                inserted.committed(CommitMark::of(rows), tx.commit().await, S::is_rolled_back)
            }
            Err(error) => {
                // The first error is the one to tell.
                let _ = tx.rollback().await;
                Err(error)
            }
        }
    }

    async fn rollback(&self, tx: SeaOrmTransaction<'c>) -> Result<(), CommitError> {
        tx.roll_back().await
    }
}

impl<'t, 'c, S: SeaOrmStore> Nest<'t, SeaOrmTransaction<'c>> for S {
    type Nested = SeaOrmTransaction<'t>;

    fn savepoint(&'t self, outer: &'t mut SeaOrmTransaction<'c>) -> Nesting<'t, Self::Nested> {
        Box::pin(async move {
            let nested = outer.tx.begin().await.map_err(|error| BeginError(error.into()))?;
            Ok(SeaOrmTransaction::alone(nested))
        })
    }
}

impl<'t, S: SeaOrmStore> Release<'t, SeaOrmTransaction<'t>> for S {
    fn release(&'t self, nested: SeaOrmTransaction<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(async move {
            nested.tx.commit().await.map_err(|error| CommitError::RolledBack(error.into()))
        })
    }

    fn roll_back_to(
        &'t self,
        nested: SeaOrmTransaction<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        Box::pin(nested.roll_back())
    }
}
