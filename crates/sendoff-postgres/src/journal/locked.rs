//! Deciding under locks, in two round trips: one that locks and reads, and one that appends and releases.

use async_trait::async_trait;
use futures_util::future::{join, join3};
use sendoff_core::journal::{Append, Locks, Position, Query, Run};
use sendoff_core::limits;
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, Found, JournalStore, LOCK_TRIES, Locked, LockedDecision, Mark,
    Page, Purpose, Receipt,
};
use sendoff_engine::store::StoreError;
use tokio_postgres::error::SqlState;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Error, Row};

use super::append::{is_deadlock, receipts, refused, run};
use super::connections::Lent;
use super::held::{Check, Held};
use super::options::milliseconds;
use super::reading::Reading;
use super::session::SessionLocks;
use super::store::{Nothing, PostgresJournal, columns, undecided};
use crate::error::failed;
use crate::link::{Kept, Taken};
use crate::rows::get;
use crate::sql::Statement;

/// A statement after the locks sees what is committed by then.
const BEGIN: &str = "begin isolation level read committed";

/// Where the statements that hold locks say when the server was started.
const STARTED_AT: usize = 0;

/// Takes a decision's locks and reads the first page.
pub(super) async fn lock<'s>(
    journal: &'s PostgresJournal,
    basis: Basis<'_>,
) -> Result<Locked<'s>, DecideError> {
    let patience = journal.connections().patience();
    let mut tries = 0;
    loop {
        tries += 1;
        let lent = journal.connections().lend(Purpose::Decide, patience).await;
        let lent = lent.map_err(undecided)?;
        let left = milliseconds(patience.left());
        let session = lent.link().take().await?;
        let (held, alone) = columns(&Locks::of_decision(basis.query));
        let locks = SessionLocks::of(journal, &session, &held, &alone).await.map_err(failed)?;
        let deciding = Deciding { journal, lent, session, held, locks };
        let reading = Reading::of(journal.books(), basis);
        let error = match deciding.begin(&alone, left, reading).await {
            Ok((run, found)) => {
                // Whatever the locks exclude and is there was found, or comes in a further page.
                let position = found.facts.last().map_or(Position::START, |last| last.position);
                let mark = Mark { position, run: Some(run) };
                return Ok(Locked { mark, found, transaction: Box::new(deciding) });
            }
            Err(error) => error,
        };
        Box::new(deciding).release().await;
        // Those who append what others decide by may meet crosswise, and the server ends one of them.
        if is_deadlock(&error) && tries < LOCK_TRIES {
            continue;
        }
        return Err(undecided(error));
    }
}

/// Appends under a condition about one tag, in one round trip: locks, and in a statement after them, which sees
/// what is committed by then, looks whether it holds. None where that is not possible, or where nothing was
/// appended: then the function is to say why.
pub(super) async fn append_at_once(
    journal: &PostgresJournal,
    append: &Append,
    check: &Check,
) -> Result<Option<Vec<Receipt>>, AppendError> {
    let Some(condition) = append.condition() else { return Ok(None) };
    let patience = journal.connections().patience();
    let lent = journal.connections().lend(Purpose::of(append), patience).await.map_err(refused)?;
    let left = milliseconds(patience.left());
    let session = lent.link().take().await?;
    let (held, alone) = columns(&Locks::of_decision(&condition.query));
    let locks = SessionLocks::of(journal, &session, &held, &alone).await.map_err(not_appended)?;
    let deciding = Deciding { journal, lent, session, held, locks };
    match deciding.at_once(append, check, &condition.query, left).await {
        Ok(None) => {
            deciding.give_back().await;
            Ok(None)
        }
        Ok(Some(rows)) if !rows.is_empty() => {
            deciding.give_back().await;
            receipts(append, &rows).map(Some)
        }
        // Another fact is there, or the same one.
        Ok(Some(_)) | Err(AppendError::IdTaken) => {
            Box::new(deciding).release().await;
            Ok(None)
        }
        Err(error) => {
            Box::new(deciding).release().await;
            Err(error)
        }
    }
}

/// Dropped, it is closed with its session.
struct Deciding<'s> {
    journal: &'s PostgresJournal,
    lent: Lent<'s>,
    session: Taken,
    /// Keys of the locks it has.
    held: Vec<i32>,
    /// The same, where the session has them; else it is a transaction that has.
    locks: Option<SessionLocks>,
}

impl Deciding<'_> {
    fn kept(&self) -> Kept {
        self.journal.kept()
    }

    /// Locks, and in a statement after them, which sees what is committed by then, reads.
    async fn begin(
        &self,
        alone: &Vec<bool>,
        patience: i32,
        reading: Reading<'_>,
    ) -> Result<(Run, Found), StoreError> {
        let (sql, kept) = (self.journal.sql(), self.kept());
        let silence = milliseconds(limits::DECISION);
        let (hold, params) = self.hold(alone, &patience, &silence);
        let all = [hold, reading.statement(sql), &sql.journal.limit_session];
        let prepared = &all[..if self.locks.is_some() { 3 } else { 2 }];
        self.session.prepare(prepared, kept).await.map_err(failed)?;
        let begin = async {
            match self.locks {
                Some(_) => self.limit(&silence).await,
                None => self.session.execute(BEGIN).await,
            }
        };
        let hold = self.session.query(hold, &params, kept);
        let (begun, held, rows) = join3(begin, hold, self.rows(&reading)).await;
        begun.map_err(failed)?;
        let held = held.map_err(failed)?;
        let held = held.first().ok_or_else(|| StoreError::Refused(Nothing.into()))?;
        let found = self.found(reading, rows.map_err(failed)?).await?;
        Ok((run(get(held, STARTED_AT)?), found))
    }

    /// The server ends the session if it is silent for longer, whatever becomes of the statement that locks.
    async fn limit(&self, silence: &i32) -> Result<(), Error> {
        let limit = &self.journal.sql().journal.limit_session;
        self.session.query(limit, &[silence], self.kept()).await.map(|_| ())
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
            ([first, second], [first_alone, second_alone]) => {
                let mut params: Vec<&(dyn ToSql + Sync)> =
                    vec![first, first_alone, second, second_alone, patience];
                if self.locks.is_some() {
                    return (&sql.journal.hold_session, params);
                }
                params.push(silence);
                (&sql.journal.hold_two, params)
            }
            _ => (&sql.journal.hold, vec![&self.held, alone, patience, silence]),
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

    /// Locks, looks, appends and releases the locks, unless no row answers; none where the locks are no
    /// session's.
    async fn at_once(
        &self,
        append: &Append,
        check: &Check,
        query: &Query,
        patience: i32,
    ) -> Result<Option<Vec<Row>>, AppendError> {
        let (sql, kept) = (self.journal.sql(), self.kept());
        let held = Held::new(self.journal, append.facts(), &self.held, self.locks.as_ref())?;
        let Some(held) = held.checking(check) else { return Ok(None) };
        // All of them before anything else, in their order, or two that cross would deadlock.
        let (keys, alone) = columns(&Locks::of_append(append.facts(), Some(query)));
        let (&[first, second, third], &[first_alone, second_alone, third_alone]) =
            (&keys[..], &alone[..])
        else {
            return Ok(None);
        };
        let (silence, hold) = (milliseconds(limits::DECISION), &sql.journal.hold_append);
        let params: [&(dyn ToSql + Sync); 7] =
            [&first, &first_alone, &second, &second_alone, &patience, &third, &third_alone];
        let statement = held.statement(sql);
        let all = [&sql.journal.limit_session, hold, statement];
        self.session.prepare(&all, kept).await.map_err(not_appended)?;
        let in_order = held.in_order();
        let append = self.session.query(statement, &in_order, kept);
        let hold = self.session.query(hold, &params, kept);
        let (limited, locked, rows) = join3(self.limit(&silence), hold, append).await;
        limited.map_err(not_appended)?;
        locked.map_err(not_appended)?;
        Ok(Some(rows.map_err(not_appended)?))
    }

    /// Appends, commits, and releases the locks. No row, or an id that is taken, means that one is there
    /// already, and that nothing was changed. Also tells whether the session is as it was.
    async fn end(&self, append: &Append) -> Result<(Vec<Row>, bool), AppendError> {
        let held = Held::new(self.journal, append.facts(), &self.held, self.locks.as_ref())?;
        let (sql, kept) = (self.journal.sql(), self.kept());
        let (statement, params) = (held.statement(sql), held.in_order());
        let all = [statement, &sql.journal.release_session];
        let prepared = &all[..if self.locks.is_some() { 2 } else { 1 }];
        self.session.prepare(prepared, kept).await.map_err(not_appended)?;
        let after = async { if held.releases() { Ok(()) } else { self.let_go("commit").await } };
        let (rows, after) = join(self.session.query(statement, &params, kept), after).await;
        let rows = rows.map_err(not_appended)?;
        let after = match after {
            Ok(()) if held.releases() && rows.is_empty() => self.let_go("commit").await,
            after => after,
        };
        match after {
            // Without a transaction the statement was committed when it answered.
            Err(error) if self.locks.is_none() => Err(not_appended(error)),
            after => Ok((rows, after.is_ok())),
        }
    }

    /// Ends the transaction so, or takes the session's locks from it.
    async fn let_go(&self, transaction: &str) -> Result<(), Error> {
        match &self.locks {
            Some(SessionLocks { silence, .. }) => {
                let release = &self.journal.sql().journal.release_session;
                self.session.query(release, &[silence], self.kept()).await.map(|_| ())
            }
            None => self.session.execute(transaction).await,
        }
    }

    /// Gives the session back, as it was when it was taken.
    async fn give_back(self) {
        let Self { lent, session, .. } = self;
        lent.link().give_back(session).await;
    }
}

#[async_trait]
impl LockedDecision for Deciding<'_> {
    async fn read(&mut self, query: &Query, page: Page) -> Result<Found, StoreError> {
        let reading = Reading::of(self.journal.books(), Basis { query, closing: None, page });
        let rows = self.rows(&reading).await.map_err(failed)?;
        self.found(reading, rows).await
    }

    async fn append(self: Box<Self>, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let journal = self.journal;
        match self.end(append).await {
            Ok((rows, clean)) => {
                if clean {
                    self.give_back().await;
                } else {
                    drop(self);
                }
                if rows.is_empty() { journal.append(append).await } else { receipts(append, &rows) }
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
        if self.let_go("rollback").await.is_ok() {
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
