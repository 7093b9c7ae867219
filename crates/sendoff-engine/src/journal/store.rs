//! What the journal asks of a database.

use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::doctor::Vitals;
use sendoff_core::journal::{
    Append, Ask, Holder, HolderId, Position, Query, Recorded, Run, Sequence, Server,
};
use sendoff_core::{Timestamp, Undecodable, limits};

use super::error::{AppendError, DecideError};
use crate::store::StoreError;

/// As long as the stores with a server wait by default.
const LONGEST_WAIT: Duration = Duration::from_secs(15);

/// A log of facts in a database.
#[async_trait]
pub trait JournalStore: Send + Sync + 'static {
    /// How long a call may wait in all: for a connection, for others, for the answer. A
    /// [`Journal`](super::Journal) drops it then, and its caller is told
    /// [`Timeout`](StoreError::Timeout); so a call that is dropped must leave nothing behind.
    fn longest_wait(&self) -> Duration {
        LONGEST_WAIT
    }

    /// Appends in a transaction of its own, and returns what became of each fact, in order.
    ///
    /// Carried out again with the same ids and the same content it changes nothing and answers with
    /// the positions of the first time, so that an append whose answer was lost can be repeated. Where
    /// its condition was read in another run of the server than this one, that is all it does: otherwise
    /// the condition does not hold.
    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError>;

    /// A position such that all facts the query means, up to it, are visible to whatever is read from
    /// now on, and any that are appended from now on are above it.
    async fn mark(&self, query: &Query) -> Result<Mark, DecideError>;

    /// Facts that the query means, in the order of their positions.
    ///
    /// Without a mark as its end a page may miss what commits later with a lower position.
    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError>;

    /// The same, from the last fact on that closes, where there is one on the page's way and it is found
    /// quickly; else from the page's beginning.
    async fn read_from_last(&self, basis: Basis<'_>) -> Result<Found, StoreError> {
        self.read(basis.query, basis.page).await
    }

    /// Takes what a decision locks, for as long as what it answers with lives, and reads the first page
    /// of what the query means, as [`read_from_last`](Self::read_from_last) does; nothing where the
    /// store has no such locks.
    ///
    /// Whoever holds it and goes silent is ended by the server within seconds.
    async fn lock(&self, _: Basis<'_>) -> Result<Option<Locked<'_>>, DecideError> {
        Ok(None)
    }

    /// The highest position that was taken, by whatever is or will be there.
    async fn head(&self) -> Result<Position, StoreError>;

    /// Whoever may hold a tail back.
    async fn holders(&self) -> Result<Vec<Holder>, StoreError>;

    /// What is asked for a checkup only. Where there is no server, this host's clock is all there is.
    async fn vitals(&self) -> Result<Vitals, StoreError> {
        Ok(Vitals { now: Timestamp::now(), stricter: Vec::new(), forgetful: Vec::new() })
    }

    /// What a holder's session was last told to do, where the database knows and this role may know.
    /// The text may hold values: show it only to whoever asks for it.
    async fn doing(&self, _: &Holder) -> Result<Option<String>, StoreError> {
        Ok(None)
    }

    /// A way of looking at the journal's end, on one connection from its beginning to its end.
    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError>;
}

/// A journal that is shared, also one whose kind is chosen when the program runs.
#[async_trait]
impl<S: JournalStore + ?Sized> JournalStore for Arc<S> {
    fn longest_wait(&self) -> Duration {
        (**self).longest_wait()
    }

    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        (**self).append(append).await
    }

    async fn mark(&self, query: &Query) -> Result<Mark, DecideError> {
        (**self).mark(query).await
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        (**self).read(query, page).await
    }

    async fn read_from_last(&self, basis: Basis<'_>) -> Result<Found, StoreError> {
        (**self).read_from_last(basis).await
    }

    async fn lock(&self, basis: Basis<'_>) -> Result<Option<Locked<'_>>, DecideError> {
        (**self).lock(basis).await
    }

    async fn head(&self) -> Result<Position, StoreError> {
        (**self).head().await
    }

    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        (**self).holders().await
    }

    async fn vitals(&self) -> Result<Vitals, StoreError> {
        (**self).vitals().await
    }

    async fn doing(&self, holder: &Holder) -> Result<Option<String>, StoreError> {
        (**self).doing(holder).await
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        (**self).tail().await
    }
}

/// Up to where a decision misses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Mark {
    /// All facts up to it are visible that the decision asks for.
    pub position: Position,
    /// The run of the server that says so. None where facts that were read are never gone.
    pub run: Option<Run>,
}

impl From<Position> for Mark {
    fn from(position: Position) -> Self {
        Self { position, run: None }
    }
}

/// A decision whose keys are locked, and what was read first.
pub struct Locked<'s> {
    /// Up to where the pages miss nothing. What they find raises it.
    pub mark: Mark,
    /// The first page of what the query means.
    pub found: Found,
    /// The transaction that has the locks, or the session. Dropped, it is undone.
    pub transaction: Box<dyn LockedDecision + 's>,
}

impl fmt::Debug for Locked<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Locked").field("mark", &self.mark).finish_non_exhaustive()
    }
}

/// A transaction that has a decision's locks, or a session that keeps them for it.
#[async_trait]
pub trait LockedDecision: Send {
    /// A further page.
    async fn read(&mut self, query: &Query, page: Page) -> Result<Found, StoreError>;

    /// Appends and commits in one round trip. The condition needs no check, since nobody can have
    /// appended what it excludes. [`Busy`](AppendError::Busy) means that everything is undone.
    async fn append(self: Box<Self>, append: &Append) -> Result<Vec<Receipt>, AppendError>;

    /// Lets the locks go.
    async fn release(self: Box<Self>);
}

/// Appending in a transaction the caller holds.
#[diagnostic::on_unimplemented(
    message = "the journal on `{Self}` does not append in `{Tx}`",
    label = "not a transaction that this journal can append in",
    note = "on PostgreSQL it takes transactions of tokio-postgres and deadpool (feature `postgres` of `sendoff`), sqlx 0.9 (`postgres-sqlx`) or 0.8 (`postgres-sqlx-08`), sea-orm 2 (`postgres-sea-orm`), and an `AsyncPgConnection` of diesel-async in a transaction (`postgres-diesel-async`)",
    note = "on MySQL and MariaDB it takes transactions of mysql_async (feature `mysql` of `sendoff`), sqlx 0.9 (`mysql-sqlx`) or 0.8 (`mysql-sqlx-08`), sea-orm 2 (`mysql-sea-orm`)",
    note = "on SQLite it takes transactions of sqlx 0.9 (feature `sqlite-sqlx` of `sendoff`); rusqlite blocks: `append_in_blocking(&tx, …)`"
)]
pub trait AppendIn<Tx: ?Sized>: JournalStore {
    /// Appends on `tx`. Never commits, rolls back or closes what it does not own.
    fn append_in(
        &self,
        tx: &mut Tx,
        append: &Append,
    ) -> impl Future<Output = Result<Vec<Receipt>, AppendError>> + Send;
}

/// [`AppendIn`] for a driver that blocks.
pub trait AppendInBlocking<Tx: ?Sized>: JournalStore {
    /// Like [`AppendIn::append_in`].
    fn append_in_blocking(&self, tx: &Tx, append: &Append) -> Result<Vec<Receipt>, AppendError>;
}

/// What became of one fact of an append.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Receipt {
    /// Where it is.
    pub position: Position,
    /// Since when.
    pub recorded_at: Timestamp,
    /// Whether this append put it there. If not an earlier one did, of the same fact.
    pub fresh: bool,
}

/// How often a decision's locks are asked for where a deadlock took them back.
pub const LOCK_TRIES: u32 = 8;

/// What a decision is based on.
#[derive(Debug, Clone, Copy)]
pub struct Basis<'q> {
    /// The facts that matter.
    pub query: &'q Query,
    /// Which of them close what was before, so that nothing before the last of these is read.
    pub closing: Option<&'q Query>,
    /// The part that is read at first.
    pub page: Page,
}

/// Which part of what a query means, and how much of it at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Page {
    /// Above this position.
    pub after: Position,
    /// Up to this one, which is included.
    pub up_to: Position,
    /// Not more rows than this.
    pub limit: usize,
    /// Not more bytes of payloads and headers than this, but always one row where there is one. The
    /// database decides it, before anything is sent: a page must not depend on how large rows are.
    pub bytes: usize,
}

impl Page {
    /// The first row between two positions.
    pub fn first(after: Position, up_to: Position) -> Self {
        Self { after, up_to, limit: 1, bytes: limits::READ_BYTES }
    }

    /// What each row may have of it, where sizes are not added up: so many rows cannot be more bytes than
    /// the page. What does not fit is read as other pages are.
    pub fn share(&self) -> usize {
        self.bytes / self.limit.max(1)
    }

    /// The same with so few rows that each may have so many bytes of it; perhaps with none.
    pub fn shared_out(self, row_bytes: usize) -> Self {
        Self { limit: self.limit.min(self.bytes / row_bytes.max(1)), ..self }
    }
}

/// What a page had.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Found {
    /// Facts, in the order of their positions.
    pub facts: Vec<Recorded>,
    /// Whether the page ended before everything was on it that there is.
    pub more: bool,
    /// The run of the server that was asked, where it is known.
    pub run: Option<Run>,
}

/// Looks at the end of a journal, always on the same connection.
#[async_trait]
pub trait TailSource: Send + 'static {
    /// One look: the holders, if they are asked for, and then the rows of the page.
    async fn look(&mut self, ask: Ask, page: Page) -> Result<TailLook, StoreError>;

    /// The last look found nothing, and the tail is about to wait: from now on whoever appends, in
    /// whichever process, shall ring.
    ///
    /// Affects latency only (I7): a ring that is lost, or never made, is covered by the tail's interval. A
    /// store without a bell takes the defaults.
    async fn arm(&mut self) -> Result<Armed, StoreError> {
        Ok(Armed::NoBell)
    }

    /// The tail is awake: nobody need ring for it.
    async fn disarm(&mut self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until somebody has rung since the last look began. Cancel-safe: a ring is kept until it is
    /// heard.
    async fn rung(&mut self) {
        std::future::pending().await
    }
}

/// Whether appends ring for a tail.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Armed {
    /// There is no bell.
    NoBell,
    /// From now on. Somebody may have appended since the last look: it is made once more.
    FromNow,
    /// They did before the last look: whatever came later has rung.
    Already,
}

/// What was seen at the end of a journal.
#[derive(Debug)]
pub struct TailLook {
    /// The server the rows were read on, by the same statement.
    pub server: Server,
    /// How the sequence counts.
    pub sequence: Sequence,
    /// The last number taken.
    pub head: Position,
    /// Who held the sequence or the table, before the rows were read; none if nobody asked, or if the
    /// store decides gaps by itself.
    pub holders: Option<Vec<HolderId>>,
    /// How far a store has decided gaps that decides them by itself; see
    /// [`Look::proved`](sendoff_core::journal::Look::proved).
    pub proved: Position,
    /// What such a store could not decide yet.
    pub undecided: Option<Undecided>,
    /// The rows, in order.
    pub rows: Vec<TailRow>,
    /// Whether there was nothing above the last of them, up to the end of the page.
    pub complete: bool,
}

impl TailLook {
    /// Of a journal that no server has, and in which nobody has an append open while somebody else
    /// looks.
    pub fn alone(ask: Ask, head: Position, rows: Vec<TailRow>, complete: bool) -> Self {
        Self {
            server: Server { started_at: Timestamp::from_micros(0), in_recovery: false },
            sequence: Sequence::ONE_BY_ONE,
            head,
            holders: (ask == Ask::HoldersThenRows).then(Vec::new),
            proved: Position::START,
            undecided: None,
            rows,
            complete,
        }
    }
}

/// Numbers that a store which decides gaps by itself could not decide yet.
#[derive(Debug)]
pub struct Undecided {
    /// The first and the last of them.
    pub gap: (Position, Position),
    /// Who it waits for, as far as it may know; the next look waits for them again.
    pub waits_for: Vec<HolderId>,
}

/// A row of the journal, also one that is no fact any more: its position counts all the same.
#[derive(Debug)]
pub struct TailRow {
    /// Where.
    pub position: Position,
    /// What.
    pub recorded: Result<Recorded, Undecodable>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_that_have_their_share_are_never_more_than_a_page() {
        let page = Page { limit: 100, bytes: 1_000, ..Page::first(Position::START, Position::END) };
        assert_eq!(page.share(), 10);
        for (row_bytes, rows) in [(0, 100), (9, 100), (10, 100), (11, 90), (1_000, 1), (1_001, 0)] {
            let part = page.shared_out(row_bytes);
            assert_eq!(part.limit, rows, "{row_bytes}");
            assert!(rows == 0 || part.share() >= row_bytes);
        }
    }
}
