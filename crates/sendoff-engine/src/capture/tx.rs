//! What a driver must offer so that its transactions can be captured.
//!
//! Each trait takes the driver's type as a *parameter*, so that one store captures many drivers and
//! the compiler knows which of them fit it. Drivers with `async` transactions implement the first
//! group; a driver whose transaction is bound to a thread implements the second.

use std::future::Future;
use std::pin::Pin;

use super::{BeginError, CommitError, CommitMark, Resolution, WriteError};
use crate::store::{Born, NewRow, StoreError};

/// What the database made of each row that was inserted, in order.
pub type InsertResult = Result<Vec<Born>, WriteError>;

/// Inserting into a transaction the caller holds.
pub trait Capture<Tx: ?Sized> {
    /// Inserts `rows` on `tx`, all or none, also where the future is dropped on its way: in one
    /// statement, since nobody is left then who could undo a first one. Returns what the database made
    /// of each, in order. Never commits, rolls back or closes what it does not own.
    fn insert(&self, tx: &mut Tx, rows: &[NewRow]) -> impl Future<Output = InsertResult> + Send;
}

/// Opening a transaction on what the caller has: a connection or a pool.
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
pub trait CaptureBlocking<Tx: ?Sized> {
    /// Like [`Capture::insert`].
    fn insert_blocking(&self, tx: &Tx, rows: &[NewRow]) -> InsertResult;
}

/// [`Begin`] for a driver that blocks.
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
