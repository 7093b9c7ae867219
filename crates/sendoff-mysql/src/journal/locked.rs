//! Deciding under locks: one transaction of two texts, the second of which ends it.

use async_trait::async_trait;
use mysql_async::Error;
use sendoff_core::journal::{Append, Locks, Mode, Query, Run, Slot};
use sendoff_core::limits;
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, Found, LOCK_TRIES, Locked, LockedDecision, Mark, MemoryKey,
    Page, Purpose, Receipt,
};
use sendoff_engine::store::StoreError;

use super::append::{self, Held, Whose, refused_gate};
use super::connections::Lent;
use super::facts;
use super::history::History;
use super::memory::Memory;
use super::prepares::Driver;
use super::search::{Manner, Rarest, from_last, reading, searches};
use super::store::{MysqlJournal, undecided};
use crate::error::{code, failed, is_lost_race, number, spoils_session};
use crate::link::last_rows;
use crate::rows;
use crate::run::Known;
use crate::values::Values;
use crate::wire::Literal;

/// The first version of MariaDB that there is here; those of MySQL are lower.
const FIRST_MARIADB: u16 = 10;

/// Takes a decision's locks and reads the first page.
pub(super) async fn lock<'s>(
    journal: &'s MysqlJournal,
    basis: Basis<'_>,
) -> Result<Locked<'s>, DecideError> {
    let Basis { query, page, .. } = basis;
    let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
    let basis = Basis { page, ..basis };
    let kind = Memory::kind(query);
    let slots = append::slots(&Locks::of_decision(query), journal.memory().shared(kind));
    let patience = journal.connections().patience();
    let (mut tries, mut again) = (0, true);
    loop {
        let lent = journal.connections().lend(Purpose::Decide, patience).await;
        let lent = lent.map_err(undecided)?;
        let hurry = journal.connections().hurry(patience);
        let conn = lent.link().take().await?;
        let (slots, is_awake) = (slots.clone(), conn.server_version().0 < FIRST_MARIADB);
        let is_hurried = hurry.is_some();
        let mut transaction =
            Transaction { journal, lent, conn, kind, slots, is_awake, is_hurried };
        let begun = match transaction.hurry(hurry).await {
            Ok(run) => transaction.begin(basis).await.map(|found| (run, found)),
            Err(error) => Err(error),
        };
        let error = match begun {
            Ok((run, found)) => {
                let found = found?;
                // All that is there is read, or will be, and the locks keep the rest away.
                let position = found.facts.last().map_or(page.after, |fact| fact.position);
                let mark = Mark { position, run };
                return Ok(Locked { mark, found, transaction: Box::new(transaction) });
            }
            Err(error) => error,
        };
        match number(&error) {
            Some(code::OUT_OF_RANGE) => return Err(transaction.refused().await.into()),
            Some(number) if !spoils_session(number) => {
                Box::new(transaction).release().await;
                tries += 1;
                // Those who append what others decide by may meet crosswise, and the server ends one.
                if number == code::DEADLOCK && tries < LOCK_TRIES {
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
    conn: Known,
    kind: MemoryKey,
    slots: Vec<Slot>,
    /// Whether the server has no limit for the silence of transactions alone, so that the session's is
    /// set for as long as this lasts.
    is_awake: bool,
    /// Whether it waits for locks for less than the session does by itself.
    is_hurried: bool,
}

impl Transaction<'_> {
    /// Locks, and in a statement after them, which sees what is committed by then, reads.
    async fn begin(&mut self, basis: Basis<'_>) -> Result<Result<Found, StoreError>, Error> {
        let Basis { query, closing, page } = basis;
        let (journal, sql) = (self.journal, self.journal.sql());
        let history = History::of(journal.memory(), basis);
        let begun = history.as_ref().and_then(|history| Some((history, history.begin()?)));
        let rows = match begun {
            Some((history, begin)) => {
                let (awake, slots) = (self.awake(), &self.slots);
                let text = |values: &mut Values| {
                    let hold = append::hold(sql, slots, values);
                    let read = history.text(sql, &begin, values);
                    append::block(sql, format!("{awake}{hold};\n{read}"))
                };
                let alike = !self.is_awake && slots.len() <= append::FEW;
                let rows =
                    journal.prepares().rows(&mut Driver(&mut *self.conn), alike, text).await?;
                if let Some(found) = history.found(&begin, rows).transpose() {
                    return Ok(found);
                }
                let read = self.reading(query, closing, page);
                last_rows(&mut *self.conn, &read).await?
            }
            None => {
                let hold = append::hold(sql, &self.slots, &mut Values::inside());
                let read = self.reading(query, closing, page);
                let text = append::block(sql, format!("{}{hold};\n{read}", self.awake()));
                last_rows(&mut *self.conn, &text).await?
            }
        };
        let found = facts::found(rows, page);
        if let (Some(history), Ok(found)) = (&history, &found) {
            history.learn(found);
        }
        Ok(found)
    }

    /// What bounds its silence.
    fn awake(&self) -> String {
        if !self.is_awake {
            return String::new();
        }
        let seconds =
            Literal::count(usize::try_from(limits::DECISION.as_secs()).unwrap_or_default());
        let awake = &self.journal.sql().journal.awake;
        format!("{};\n", awake.with(&[("seconds", &seconds)]))
    }

    /// By the first tag of each item: which one is the rarest would be another question.
    fn reading(&self, query: &Query, closing: Option<&Query>, page: Page) -> String {
        let (sql, none) = (self.journal.sql(), Rarest::default());
        let last = closing.and_then(|closing| from_last(sql, query, closing, page, &none));
        last.unwrap_or_else(|| {
            reading(sql, &searches(sql, query, page, Manner::Looking, &none), page)
        })
    }

    /// Why the gate is closed.
    async fn refused(mut self) -> StoreError {
        let why = last_rows(&mut *self.conn, self.journal.sql().journal.why.text()).await;
        let increment = match why {
            Ok(why) => why.first().and_then(|row| rows::integer(row, 2).ok()),
            Err(error) => return failed(error),
        };
        Box::new(self).release().await;
        refused_gate(increment)
    }

    /// Waits for locks only for as long as there is patience left, and says in which run of the server.
    async fn hurry(&mut self, left: Option<Literal>) -> Result<Option<Run>, Error> {
        if let Some(left) = left {
            let text = self.journal.sql().journal.patience.with(&[("seconds", &left)]);
            last_rows(&mut *self.conn, &text).await?;
        }
        self.conn.run().await
    }

    /// Gives the connection back, as it was when it was taken.
    async fn give_back(self) {
        let Self { journal, lent, mut conn, is_hurried, .. } = self;
        let calm = journal.sql().journal.patience_over.text();
        if is_hurried && last_rows(&mut *conn, calm).await.is_err() {
            return;
        }
        lent.link().give_back(conn).await;
    }
}

#[async_trait]
impl LockedDecision for Transaction<'_> {
    async fn read(&mut self, query: &Query, page: Page) -> Result<Found, StoreError> {
        let page = Page { limit: page.limit.min(limits::BATCH_ROWS), ..page };
        let text = self.reading(query, None, page);
        facts::found(last_rows(&mut *self.conn, &text).await.map_err(failed)?, page)
    }

    async fn append(mut self: Box<Self>, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        // The locks are its condition.
        let facts = Append::new(append.facts().to_vec(), None)?;
        let mut driver = Driver(&mut *self.conn);
        let whose = Whose::Decisions(Held { slots: &self.slots, awake: self.is_awake });
        let lacks = whose.lacks(&facts);
        if !lacks.is_empty() {
            let shared = lacks.iter().filter(|slot| slot.mode == Mode::Shared);
            self.journal.memory().share(self.kind, shared.map(|slot| slot.number).collect());
        }
        let answer = append::append(self.journal, &mut driver, whose, &facts).await;
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
        let mut text = "rollback".to_owned();
        if self.is_awake {
            text = format!("{text};\n{}", self.journal.sql().journal.asleep.text());
        }
        // One that cannot be undone is closed, and the server undoes it.
        if last_rows(&mut *self.conn, &text).await.is_ok() {
            self.give_back().await;
        }
    }
}
