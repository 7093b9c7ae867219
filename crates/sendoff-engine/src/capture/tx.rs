//! What a driver must offer so that its transactions can be captured.
//!
//! Each trait takes the driver's type as a *parameter*, so that one store captures many drivers and
//! the compiler knows which of them fit it. Drivers with `async` transactions implement the first
//! group; a driver whose transaction is bound to a thread implements the second.
//!
//! Whoever passes something else is told by the compiler what fits and which feature it needs. The names of
//! stores and features stand here for that reason alone, since the message belongs to the trait.

use std::future::Future;
use std::pin::Pin;

use super::{BeginError, CommitError, CommitMark, Resolution, WriteError};
use crate::store::{Born, NewRow, StoreError};

/// What the database made of each row that was inserted, in order.
pub type InsertResult = Result<Vec<Born>, WriteError>;

/// Inserting into a transaction the caller holds.
#[diagnostic::on_unimplemented(
    message = "the outbox on `{Self}` does not write into `{Tx}`",
    label = "not a transaction that this store can write into",
    note = "on PostgreSQL it takes transactions of tokio-postgres and deadpool (feature `postgres` of `sendoff`), sqlx 0.9 (`postgres-sqlx`) or 0.8 (`postgres-sqlx-08`), sea-orm 2 (`postgres-sea-orm`), and an `AsyncPgConnection` of diesel-async in a transaction (`postgres-diesel-async`)",
    note = "on MySQL and MariaDB it takes transactions of mysql_async (feature `mysql` of `sendoff`), sqlx 0.9 (`mysql-sqlx`) or 0.8 (`mysql-sqlx-08`), sea-orm 2 (`mysql-sea-orm`)",
    note = "on SQLite it takes transactions of sqlx 0.9 (feature `sqlite-sqlx` of `sendoff`); rusqlite blocks: `write_blocking(&tx, event)`",
    note = "of a connection from a pool pass the connection itself: `&mut **connection`"
)]
pub trait Capture<Tx: ?Sized> {
    /// Inserts `rows` on `tx`, all or none, also where the future is dropped on its way: in one
    /// statement, since nobody is left then who could undo a first one. Returns what the database made
    /// of each, in order. Never commits, rolls back or closes what it does not own.
    fn insert(&self, tx: &mut Tx, rows: &[NewRow]) -> impl Future<Output = InsertResult> + Send;
}

/// Opening a transaction on what the caller has: a connection or a pool.
#[diagnostic::on_unimplemented(
    message = "the outbox on `{Self}` begins no transaction on `{Conn}`",
    label = "not a connection or pool that this store can begin a transaction on",
    note = "on PostgreSQL it takes a `&mut tokio_postgres::Client`, or of deadpool a `&Pool` or `&mut Client` (feature `postgres` of `sendoff`), a `&PgPool` or `&mut PgConnection` of sqlx 0.9 (`postgres-sqlx`) or 0.8 (`postgres-sqlx-08`)",
    note = "on MySQL and MariaDB it takes a `&Pool` or `&mut Conn` of mysql_async (feature `mysql` of `sendoff`), a `&MySqlPool` or `&mut MySqlConnection` of sqlx 0.9 (`mysql-sqlx`) or 0.8 (`mysql-sqlx-08`)",
    note = "on SQLite it takes a `&SqlitePool` or `&mut SqliteConnection` of sqlx 0.9 (feature `sqlite-sqlx` of `sendoff`); rusqlite blocks: `begin_blocking(&mut connection)`",
    note = "of sea-orm 2 it takes a `&DatabaseConnection` (`postgres-sea-orm`, `mysql-sea-orm`), of diesel-async a `&mut AsyncPgConnection` (`postgres-diesel-async`)"
)]
pub trait Begin<Conn> {
    /// The transaction.
    type Tx;

    /// Opens it.
    fn begin(&self, conn: Conn) -> impl Future<Output = Result<Self::Tx, BeginError>> + Send;
}

/// Ending a transaction we opened.
pub trait Commit<Tx> {
    /// Inserts `rows` and commits. `Ok` is proof that both happened.
    fn commit(
        &self,
        tx: Tx,
        rows: &[NewRow],
    ) -> impl Future<Output = Result<Vec<Born>, CommitError>> + Send;

    /// Rolls back.
    fn rollback(&self, tx: Tx) -> impl Future<Output = Result<(), CommitError>> + Send;
}

/// Finding out what became of a commit whose answer was lost.
pub trait Resolve {
    /// What the database can prove about `mark`.
    fn resolve(
        &self,
        mark: &CommitMark,
    ) -> impl Future<Output = Result<Resolution, StoreError>> + Send;
}

/// A future of the savepoint traits. Boxed, because the compiler cannot show that an opaque future
/// of a trait with a lifetime is `Send`, and then nothing that sets a savepoint could be spawned.
pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// Setting a savepoint, which answers with the transaction within.
pub type Nesting<'a, Nested> = BoxFuture<'a, Result<Nested, BeginError>>;

/// Savepoints inside a transaction of ours. A dropped `Nested` must roll back to it.
pub trait Nest<'t, Tx> {
    /// The transaction within.
    type Nested;

    /// Sets a savepoint.
    fn savepoint(&'t self, tx: &'t mut Tx) -> Nesting<'t, Self::Nested>;
}

/// Ending a savepoint we set.
pub trait Release<'t, Nested> {
    /// Keeps what was done since.
    fn release(&'t self, nested: Nested) -> BoxFuture<'t, Result<(), CommitError>>;

    /// Undoes what was done since.
    fn roll_back_to(&'t self, nested: Nested) -> BoxFuture<'t, Result<(), CommitError>>;
}

/// [`Capture`] for a driver that blocks.
#[diagnostic::on_unimplemented(
    message = "the outbox on `{Self}` does not write into `{Tx}` by a blocking call",
    label = "not a transaction that this store can write into",
    note = "it takes a transaction, savepoint or connection of rusqlite, of the version that `sendoff::sqlite` uses, with the feature `sqlite` of `sendoff`; drivers that are awaited have `write(…).await`"
)]
pub trait CaptureBlocking<Tx: ?Sized> {
    /// Like [`Capture::insert`].
    fn insert_blocking(&self, tx: &Tx, rows: &[NewRow]) -> InsertResult;
}

/// [`Begin`] for a driver that blocks.
#[diagnostic::on_unimplemented(
    message = "the outbox on `{Self}` begins no blocking transaction on `{Conn}`",
    label = "not a connection that this store can begin a transaction on",
    note = "it takes a `&mut rusqlite::Connection`, of the version that `sendoff::sqlite` uses, with the feature `sqlite` of `sendoff`; drivers that are awaited have `begin(…).await`"
)]
pub trait BeginBlocking<Conn> {
    /// The transaction.
    type Tx;

    /// Like [`Begin::begin`].
    fn begin_blocking(&self, conn: Conn) -> Result<Self::Tx, BeginError>;
}

/// [`Commit`] for a driver that blocks.
pub trait CommitBlocking<Tx> {
    /// Like [`Commit::commit`].
    fn commit_blocking(&self, tx: Tx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError>;

    /// Like [`Commit::rollback`].
    fn rollback_blocking(&self, tx: Tx) -> Result<(), CommitError>;
}

/// [`Nest`] for a driver that blocks.
pub trait NestBlocking<'t, Tx> {
    /// The transaction within.
    type Nested;

    /// Like [`Nest::savepoint`].
    fn savepoint_blocking(&self, tx: &'t mut Tx) -> Result<Self::Nested, BeginError>;
}

/// [`Release`] for a driver that blocks.
pub trait ReleaseBlocking<Nested> {
    /// Like [`Release::release`].
    fn release_blocking(&self, nested: Nested) -> Result<(), CommitError>;

    /// Like [`Release::roll_back_to`].
    fn roll_back_to_blocking(&self, nested: Nested) -> Result<(), CommitError>;
}
