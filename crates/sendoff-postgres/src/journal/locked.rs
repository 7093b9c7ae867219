//! Deciding under locks: one transaction of two round trips, the second of which ends it.

use async_trait::async_trait;
use futures_util::future::{join, join3};
use sendoff_core::journal::{Append, Locks, Position, Query};
use sendoff_core::limits;
use sendoff_engine::journal::{
    AppendError, DecideError, Found, JournalStore, Locked, LockedDecision, Page, Purpose, Receipt,
};
use sendoff_engine::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::append::{is_deadlock, receipts, refused};
use super::connections::Lent;
use super::held::Held;
use super::options::milliseconds;
use super::reading::Reading;
use super::store::{PostgresJournal, columns, undecided};
use crate::error::failed;
use crate::link::{Kept, Taken};
use crate::sql::Statement;

/// A statement behind the locks sees what is committed by then.
const BEGIN: &str = "begin isolation level read committed";

/// How often the locks are asked for where a deadlock took them back.
const TRIES: u32 = 8;

/// Takes a decision's locks and reads the first page.
pub(super) async fn lock<'s>(
    journal: &'s PostgresJournal,
    query: &Query,
    closing: Option<&Query>,
    page: Page,
) -> Result<Locked<'s>, DecideError> {
    let patience = journal.connections().patience();
    let mut tries = 0;
    loop {
        tries += 1;
        let lent = journal.connections().lend(Purpose::Decide, patience).await;
        let lent = lent.map_err(undecided)?;
        let left = milliseconds(patience.left());
        let session = lent.link().take().await?;
        let (held, alone) = columns(&Locks::of_decision(query));
        let transaction = Transaction { journal, lent, session, held };
        let reading = Reading::of(journal.books(), query, closing, page);
        let error = match transaction.begin(&alone, left, reading).await {
            Ok(found) => {
                // Whatever the locks exclude and is there was found, or comes in a further page.
                let mark = found.facts.last().map_or(Position::START, |last| last.position);
                return Ok(Locked { mark, found, transaction: Box::new(transaction) });
            }
            Err(error) => error,
        };
        Box::new(transaction).release().await;
        // Those who append what others decide by may meet crosswise, and the server ends one of them.
        if is_deadlock(&error) && tries < TRIES {
            continue;
        }
        return Err(undecided(error));
    }
}

/// Dropped, it is closed with its session.
struct Transaction<'s> {
    journal: &'s PostgresJournal,
    lent: Lent<'s>,
    session: Taken,
    /// Keys of the locks it has.
    held: Vec<i32>,
}

impl Transaction<'_> {
    fn kept(&self) -> Kept {
        Kept::from(self.journal.options().server.doorbell)
    }

    /// Locks, and in a statement behind them, which sees what is committed by then, reads.
    async fn begin(
        &self,
        alone: &Vec<bool>,
        patience: i32,
        reading: Reading<'_>,
    ) -> Result<Found, StoreError> {
        let (sql, kept) = (self.journal.sql(), self.kept());
        let silence = milliseconds(limits::DECISION);
        let (hold, params) = self.hold(alone, &patience, &silence);
        let prepared = self.session.prepare(&[hold, reading.statement(sql)], kept).await;
        prepared.map_err(failed)?;
        let (begun, held, rows) = join3(
            self.session.execute(BEGIN),
            self.session.query(hold, &params, kept),
            self.rows(&reading),
        )
        .await;
        begun.map_err(failed)?;
        held.map_err(failed)?;
        self.found(reading, rows.map_err(failed)?).await
    }

    /// The statement that takes the locks, and what it is given.
    fn hold<'p>(
        &'p self,
        alone: &'p Vec<bool>,
        patience: &'p i32,
        silence: &'p i32,
    ) -> (&'p Statement, Vec<&'p (dyn ToSql + Sync)>) {
        let sql = self.journal.sql();
        match (&self.held[..], &alone[..]) {
            ([first, second], [first_alone, second_alone]) => (
                &sql.journal_hold_two,
                vec![first, first_alone, second, second_alone, patience, silence],
            ),
            _ => (&sql.journal_hold, vec![&self.held, alone, patience, silence]),
        }
    }

    async fn rows(&self, reading: &Reading<'_>) -> Result<Vec<Row>, Error> {
        let statement = reading.statement(self.journal.sql());
        self.session.query(statement, &reading.in_order(), self.kept()).await
    }

    async fn found(
        &self,
        mut reading: Reading<'_>,
        mut rows: Vec<Row>,
    ) -> Result<Found, StoreError> {
        loop {
            if let Some(found) = reading.found(&rows)? {
                return Ok(found);
            }
            reading = reading.again();
            rows = self.rows(&reading).await.map_err(failed)?;
        }
    }

    /// Appends and commits. No row, or an id that is taken, means that one is there already, and that
    /// nothing was changed.
    async fn end(&self, append: &Append) -> Result<Vec<Row>, AppendError> {
        let held = Held::new(self.journal, append.facts(), &self.held)?;
        let (statement, kept) = (held.statement(self.journal.sql()), self.kept());
        self.session.prepare(&[statement], kept).await.map_err(not_appended)?;
        let (rows, committed) = join(
            self.session.query(statement, &held.in_order(), kept),
            self.session.execute("commit"),
        )
        .await;
        let rows = rows.map_err(not_appended)?;
        committed.map_err(not_appended)?;
        Ok(rows)
    }

    /// Gives the session back, as it was when it was taken.
    async fn give_back(self) {
        let Self { lent, session, .. } = self;
        lent.link().give_back(session).await;
    }
}

#[async_trait]
impl LockedDecision for Transaction<'_> {
    async fn read(&mut self, query: &Query, page: Page) -> Result<Found, StoreError> {
        let reading = Reading::of(self.journal.books(), query, None, page);
        let rows = self.rows(&reading).await.map_err(failed)?;
        self.found(reading, rows).await
    }

    async fn append(self: Box<Self>, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let journal = self.journal;
        match self.end(append).await {
            Ok(rows) if !rows.is_empty() => {
                self.give_back().await;
                receipts(append, &rows)
            }
            Ok(_) => {
                self.give_back().await;
                journal.append(append).await
            }
            // Perhaps by the same call, whose answer was lost.
            Err(AppendError::IdTaken) => {
                self.release().await;
                journal.append(append).await
            }
            Err(error) => {
                self.release().await;
                Err(error)
            }
        }
    }

    async fn release(self: Box<Self>) {
        // One that cannot be undone is closed, and the server undoes it.
        if self.session.execute("rollback").await.is_ok() {
            self.give_back().await;
        }
    }
}

/// What a failure of the statement means, which divides by zero where some ids are there already.
fn not_appended(error: Error) -> AppendError {
    match error.code() {
        Some(&SqlState::DIVISION_BY_ZERO) => AppendError::IdTaken,
        _ => refused(failed(error)),
    }
}
