//! Deciding under locks: one transaction of two texts, the second of which ends it.

use async_trait::async_trait;
use mysql_async::{Conn, Error, Row};
use sendoff_core::journal::{Append, Locks, Position, Query};
use sendoff_core::limits;
use sendoff_engine::journal::{
    AppendError, DecideError, Found, Locked, LockedDecision, Page, Purpose, Receipt,
};
use sendoff_engine::store::StoreError;

use super::append::{self, Whose, refused_gate};
use super::capture::Driver;
use super::connections::Lent;
use super::facts;
use super::search::{Manner, Rarest, from_last, reading, searches};
use super::store::{MysqlJournal, Nothing};
use crate::error::{code, failed, is_lost_race, number, spoils_session};
use crate::link::{last_rows, results};
use crate::rows;
use crate::wire::Literal;

/// A process that stops while it decides holds others up for no longer than so many seconds.
const SILENCE: i64 = 3;
/// How often the locks are asked for where a deadlock took them back.
const TRIES: u32 = 8;

/// Takes a decision's locks and reads the first page.
pub(super) async fn lock<'s>(
    journal: &'s MysqlJournal,
    query: &Query,
    closing: Option<&Query>,
    page: Page,
) -> Result<Locked<'s>, DecideError> {
    let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
    let (mut tries, mut again) = (0, true);
    loop {
        let lent = journal.connections().lend(Purpose::Decide).await?;
        let conn = lent.link().take().await?;
        let mut transaction = Transaction { journal, lent, conn };
        let error = match transaction.begin(query, closing, page).await {
            Ok(begun) => {
                let (mark, found) = begun?;
                return Ok(Locked { mark, found, transaction: Box::new(transaction) });
            }
            Err(error) => error,
        };
        match number(&error) {
            Some(number) if !spoils_session(number) => {
                Box::new(transaction).release().await;
                tries += 1;
                // Those who append what others decide by may meet crosswise, and the server ends one.
                if number == code::DEADLOCK && tries < TRIES {
                    continue;
                }
                return Err(if is_lost_race(number) {
                    DecideError::Busy(error.into())
                } else {
                    failed(error).into()
                });
            }
            // What was idle for long may have been ended.
            _ if again => again = false,
            _ => return Err(failed(error).into()),
        }
    }
}

/// Dropped, its connection is closed, and the server undoes it.
struct Transaction<'s> {
    journal: &'s MysqlJournal,
    lent: Lent<'s>,
    conn: Conn,
}

/// What a transaction begins with: its mark, and the first page.
type Begun = Result<(Position, Found), StoreError>;

impl Transaction<'_> {
    /// Locks, and in a statement behind them, which sees what is committed by then, reads.
    async fn begin(
        &mut self,
        query: &Query,
        closing: Option<&Query>,
        page: Page,
    ) -> Result<Begun, Error> {
        let sql = self.journal.sql();
        let (hold, modes, count) = append::hold(sql, &Locks::of_decision(query));
        let awake = sql.journal_awake.with(&[("seconds", &Literal::number(SILENCE))]);
        let read = self.reading(query, closing, page);
        let answers = results(&mut self.conn, &format!("{awake};\n{hold};\n{read}")).await?;
        Ok(begun(answers, modes, count, page))
    }

    /// By the first tag of each item: which one is the rarest would be another question.
    fn reading(&self, query: &Query, closing: Option<&Query>, page: Page) -> String {
        let (sql, none) = (self.journal.sql(), Rarest::default());
        let last = closing.and_then(|closing| from_last(sql, query, closing, page, &none));
        last.unwrap_or_else(|| {
            reading(sql, &searches(sql, query, page, Manner::Looking, &none), page)
        })
    }

    /// Gives the connection back, as it was when it was taken.
    async fn give_back(self) {
        let Self { lent, conn, .. } = self;
        lent.link().give_back(conn).await;
    }
}

/// The answers of the locks, of the mark, and of the reading.
fn begun(mut answers: Vec<Vec<Row>>, modes: usize, count: usize, page: Page) -> Begun {
    let first = |rows: &Vec<Row>| -> Result<i64, StoreError> {
        rows.first().map_or(Ok(0), |row| rows::integer(row, 0))
    };
    let found = answers.pop();
    let (Some(found), [locked @ .., mark]) = (found, &answers[..]) else {
        return Err(StoreError::Refused(Nothing.into()));
    };
    let counted = locked.iter().take(modes).map(first).sum::<Result<i64, _>>()?;
    if usize::try_from(counted) != Ok(count) {
        return Err(refused_gate(Some(1)));
    }
    let mark = mark.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
    Ok((facts::position(mark, 0)?, facts::found(found, page)?))
}

#[async_trait]
impl LockedDecision for Transaction<'_> {
    async fn read(&mut self, query: &Query, page: Page) -> Result<Found, StoreError> {
        let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
        let text = self.reading(query, None, page);
        facts::found(last_rows(&mut self.conn, &text).await.map_err(failed)?, page)
    }

    async fn append(mut self: Box<Self>, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        // The locks are its condition.
        let facts = Append::new(append.facts().to_vec(), None)?;
        let mut driver = Driver(&mut self.conn);
        let answer = append::append(self.journal, &mut driver, Whose::Decisions, &facts).await;
        match answer {
            Ok(receipts) => {
                self.give_back().await;
                Ok(receipts)
            }
            Err(AppendError::Store(StoreError::Unavailable(error))) => {
                Err(StoreError::Unavailable(error).into())
            }
            Err(error) => {
                self.release().await;
                Err(error)
            }
        }
    }

    async fn release(mut self: Box<Self>) {
        let rollback = format!("rollback;\n{}", self.journal.sql().journal_asleep.text());
        // One that cannot be undone is closed, and the server undoes it.
        if last_rows(&mut self.conn, &rollback).await.is_ok() {
            self.give_back().await;
        }
    }
}
