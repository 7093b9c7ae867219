//! Deciding under locks: one transaction of two round trips, the second of which ends it.

use async_trait::async_trait;
use futures_util::future::{join, join3};
use sendoff_core::journal::{Append, Locks, Position, Query};
use sendoff_engine::journal::{
    AppendError, DecideError, Found, JournalStore, Locked, LockedDecision, Page, Purpose, Receipt,
};
use sendoff_engine::store::StoreError;
use tokio_postgres::{Error, Row};

use super::append::{One, Params, is_busy, is_deadlock, receipts, refused};
use super::connections::Lent;
use super::facts;
use super::reading::Reading;
use super::store::{Nothing, PostgresJournal, columns};
use crate::error::failed;
use crate::link::{Kept, Params as ToServer, Taken};
use crate::sql::Statement;

/// A statement behind the locks sees what is committed by then.
const BEGIN: &str = "begin isolation level read committed";

/// A process that stops while it decides holds others up for no longer than this, in milliseconds.
const SILENCE: i32 = 3_000;

/// How often the locks are asked for where a deadlock took them back.
const TRIES: u32 = 8;

/// Takes a decision's locks and reads the first page.
pub(super) async fn lock<'s>(
    journal: &'s PostgresJournal,
    query: &Query,
    closing: Option<&Query>,
    page: Page,
) -> Result<Locked<'s>, DecideError> {
    let reading = Reading::of(query, closing, page);
    let mut tries = 0;
    loop {
        tries += 1;
        let lent = journal.connections().lend(Purpose::Decide).await?;
        let session = lent.link().take().await?;
        let (held, alone) = columns(&Locks::of_decision(query));
        let transaction = Transaction { journal, lent, session, held };
        let error = match transaction.begin(&alone, &reading).await {
            Ok((mark, found)) => {
                return Ok(Locked { mark, found, transaction: Box::new(transaction) });
            }
            Err(error) => error,
        };
        Box::new(transaction).release().await;
        // Those who append what others decide by may meet crosswise, and the server ends one of them.
        if is_deadlock(&error) && tries < TRIES {
            continue;
        }
        return Err(if is_busy(&error) { DecideError::Busy(error.into()) } else { error.into() });
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
        reading: &Reading,
    ) -> Result<(Position, Found), StoreError> {
        let (sql, kept) = (self.journal.sql(), self.kept());
        let prepared =
            self.session.prepare(&[&sql.journal_hold, reading.statement(sql)], kept).await;
        prepared.map_err(failed)?;
        let patience = self.journal.options().patience();
        let (begun, mark, rows) = join3(
            self.session.execute(BEGIN),
            self.session.query(&sql.journal_hold, &[&self.held, alone, &patience, &SILENCE], kept),
            self.rows(reading),
        )
        .await;
        begun.map_err(failed)?;
        let mark = mark.map_err(failed)?;
        let mark = mark.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
        Ok((facts::position(mark, 0)?, reading.found(rows.map_err(failed)?)?))
    }

    async fn rows(&self, reading: &Reading) -> Result<Vec<Row>, Error> {
        let statement = reading.statement(self.journal.sql());
        self.session.query(statement, &reading.in_order(), self.kept()).await
    }

    /// Appends and commits. No row, or an id that is taken, means that one is there already, and that
    /// nothing was changed.
    async fn end(&self, append: &Append) -> Result<Vec<Row>, AppendError> {
        // The locks are its condition.
        let append = Append::new(append.facts().to_vec(), None)?;
        let params = Params::new(self.journal, &append)?;
        match One::of(&params) {
            Some(one) => {
                let missing = params.keys.iter().filter(|key| !self.held.contains(key));
                let missing = missing.copied().collect();
                self.send(&self.journal.sql().journal_append_held, &one.beside(&missing)).await
            }
            None => self.send(&self.journal.sql().journal_append, &params.in_order()).await,
        }
    }

    async fn send(
        &self,
        statement: &Statement,
        params: ToServer<'_>,
    ) -> Result<Vec<Row>, AppendError> {
        let kept = self.kept();
        let driver = |error| refused(failed(error));
        self.session.prepare(&[statement], kept).await.map_err(driver)?;
        let (rows, committed) =
            join(self.session.query(statement, params, kept), self.session.execute("commit")).await;
        let rows = rows.map_err(driver)?;
        committed.map_err(driver)?;
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
        let reading = Reading::of(query, None, page);
        reading.found(self.rows(&reading).await.map_err(failed)?)
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
