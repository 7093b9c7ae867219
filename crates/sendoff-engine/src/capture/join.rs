//! What we do in a transaction that the caller holds and ends, beside writing events.

use std::future::Future;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use sendoff_core::{BoxError, Consumer, EventId, Timestamp, Token};

/// Something that belongs to an effect and commits with it, or not at all.
#[derive(Debug, Clone, Copy)]
pub enum Part<'a> {
    /// Remembers that this consumer saw an event. `true` the first time.
    Once {
        /// Who.
        consumer: Consumer<'a>,
        /// What.
        id: EventId,
    },
    /// Marks a row of the outbox as delivered, fenced by its token. `true` where it was still held by that.
    Done {
        /// The row.
        id: EventId,
        /// What it is held by.
        token: Token,
        /// When it was created: with the id it is the key of a table in partitions.
        created_at: Timestamp,
    },
    /// Moves the cursor of a journal's pair, fenced by the epoch under which it is led, and only from where it is.
    /// `true` where it was moved.
    Moved(CursorMove<'a>),
}

/// How far a pair's cursor moves, and whose it must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CursorMove<'a> {
    /// The pair.
    pub pair: &'a PairId,
    /// Who leads it.
    pub owner: &'a str,
    /// Under which epoch.
    pub epoch: i64,
    /// Where it is.
    pub from: Position,
    /// Where it goes.
    pub to: Position,
}

/// Why a part was not carried out. Roll the transaction back: what it did belongs to nothing.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum JoinError {
    /// It needs an open transaction of the caller's.
    #[error("no transaction is open on this connection; an effect and its mark are made in one")]
    NoTransaction,
    /// Another transaction has the same event or cursor, and did not end for as long as is waited.
    #[error("another transaction has the same event or cursor and did not end in time")]
    Busy(#[source] BoxError),
    /// The transaction lost a race against another one, and cannot commit any more. Try it again.
    #[error("the transaction lost a race against another one, and must be tried again")]
    LostRace(#[source] BoxError),
    /// It is not in this store: an outbox in a file or in memory has no journal, and a journal there no outbox.
    #[error("this store has nothing of the kind")]
    NotHere,
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The driver refused.
    #[error("the driver refused")]
    Driver(#[source] BoxError),
}

/// Taking part in a transaction the caller holds: those that [`Capture`](super::Capture) takes.
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes no part in a `{Tx}`",
    label = "not a transaction that this store knows",
    note = "it takes the transactions that events are written into; of a guard pass what is in it: `&mut *tx`",
    note = "rusqlite blocks: `once_blocking(&tx, consumer, id)`"
)]
pub trait Join<Tx: ?Sized> {
    /// Carries out `part` on `tx`. Never commits, rolls back or closes what it does not own.
    ///
    /// Where another open transaction has the same event, it waits for that one's end, for a bounded time, or
    /// says [`Busy`](JoinError::Busy): it never answers before it is certain.
    fn join(
        &self,
        tx: &mut Tx,
        part: &Part<'_>,
    ) -> impl Future<Output = Result<bool, JoinError>> + Send;
}

/// [`Join`] for a driver that blocks.
#[diagnostic::on_unimplemented(
    message = "`{Self}` takes no part in a `{Tx}` by a blocking call",
    label = "not a transaction that this store knows",
    note = "it takes a transaction, savepoint or connection of rusqlite; drivers that are awaited have `once(…).await`"
)]
pub trait JoinBlocking<Tx: ?Sized> {
    /// Like [`Join::join`].
    fn join_blocking(&self, tx: &Tx, part: &Part<'_>) -> Result<bool, JoinError>;
}
