//! Settlements and extensions on MySQL and MariaDB, past rows and index entries that somebody has
//! locked.

use std::collections::HashSet;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::{EventId, Status, Timestamp, Token, WaitsFor, limits};
use sendoff_engine::store::{
    Extended, Held, Outcome, SettleStore, Settled, Settlement, StoreError,
};
use tokio::time::{Instant, sleep};

use crate::claim::{Tokens, row_token};
use crate::options::Retention;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::{End, EndRows, Literal};

/// How long a lock lasts that is soon gone.
const PASSING: Duration = Duration::from_millis(5);

/// For how long entries of an index are looked at as well, after one was waited for in vain.
const WARY: Duration = Duration::from_secs(10);

/// Whether somebody has locked entries of an index, and not their rows, which show nothing of it. A session
/// that reads for update up to a bound has the first entry after it on MariaDB.
#[derive(Debug, Default)]
pub(crate) struct Wary(Mutex<Option<Instant>>);

impl Wary {
    fn is_on(&self) -> bool {
        let until = *self.0.lock().unwrap_or_else(PoisonError::into_inner);
        until.is_some_and(|until| Instant::now() < until)
    }

    fn set(&self) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + WARY);
    }
}

/// A settlement of a row, and the token that it is held by.
type ByToken<'a> = (&'a Settlement, Token);

#[async_trait]
impl SettleStore for MysqlStore {
    /// One round trip: what is locked is let go before the answer is sent. A second one where a row was
    /// not found, to tell whether somebody has it locked.
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.check_open()?;
        let mut seen = HashSet::new();
        // The first of two settlements of one hold ends it.
        let batch: Vec<_> = batch
            .iter()
            .filter_map(|one| Some((one, row_token(&one.held)?)))
            .filter(|(one, token)| seen.insert((one.held.id, *token)))
            .collect();
        let mut settled = self.settle_free(&batch).await?;
        if !settled.busy.is_empty() {
            // Writers of a table in partitions lock their neighbours for a moment, when they look for
            // duplicates; people lock rows for longer.
            sleep(PASSING).await;
            let busy = |(one, _): &&ByToken<'_>| settled.busy.contains(&one.held.id);
            let rest: Vec<_> = batch.iter().filter(busy).copied().collect();
            let again = self.settle_free(&rest).await?;
            settled.applied.extend(again.applied);
            settled.busy = again.busy;
        }
        Ok(settled)
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.check_open()?;
        let holds: HeldRows =
            holds.iter().filter_map(|held| Some((held.id, row_token(held)?))).collect();
        if holds.is_empty() {
            return Ok(Extended::default());
        }
        let mut rows = EndRows::default();
        for (id, token) in &holds {
            rows.held(*id, token.due_at(), None);
        }
        let extend = self.sql().extend.with(&[("hold", &Literal::span(hold))]);
        let answer = self.change_free(&rows, &format!("{extend};\n")).await?;
        let (found, missing) = split(&answer, holds)?;
        // By the database's clock: it said when it locked. It wrote the very same.
        let until = answer.first().map_or(Ok(Timestamp::now()), |row| rows::time(row, 1))?;
        let until = until.saturating_add(hold);
        let renewed = |token: Token| {
            let same = token.due_at() == until;
            Token::new(until.saturating_add(Duration::from_micros(same.into())))
        };
        let held: Vec<_> =
            found.iter().map(|(id, token)| Held::row(*id, renewed(*token))).collect();
        let ids = distinct(held.iter().map(|held| held.id));
        Ok(Extended { busy: self.busy(missing, &ids).await?, held })
    }
}

impl MysqlStore {
    /// Settles what nobody has locked.
    async fn settle_free(&self, batch: &[ByToken<'_>]) -> Result<Settled, StoreError> {
        if batch.is_empty() {
            return Ok(Settled::default());
        }
        let cut = longest_error(batch.iter().map(|(settlement, _)| &settlement.outcome));
        let mut rows = EndRows::default();
        for (Settlement { held, outcome }, token) in batch {
            rows.held(held.id, token.due_at(), Some(&end_of(outcome, cut)));
        }
        let ends = self.ends_text(batch.iter().map(|(settlement, _)| &settlement.outcome));
        let answer = self.change_free(&rows, &ends).await?;
        let (found, missing) =
            split(&answer, batch.iter().map(|(one, token)| (one.held.id, *token)))?;
        let applied = distinct(found.iter().map(|(id, _)| *id));
        Ok(Settled { busy: self.busy(missing, &applied).await?, applied })
    }

    /// Changes the rows among these that nobody has locked, and answers which. Where something was waited
    /// for in vain, it leaves out rows whose index entry somebody has, for a while: one such row must
    /// not keep the others from what becomes of them (I11).
    async fn change_free(&self, rows: &EndRows, change: &str) -> Result<Vec<Row>, StoreError> {
        let (sql, rows) = (self.sql(), rows.literal());
        let change = async |entry: &Literal, too: &Literal| {
            let lock = sql.lock.with(&[("rows", &rows), ("entry", entry), ("too", too)]);
            let text = format!("{lock};\n{change}commit;\n{}", sql.found.text());
            self.links().settlements.query(&text).await
        };
        if !self.wary().is_on() {
            let changed = change(&Literal::nothing(), &Literal::nothing()).await;
            if !matches!(changed, Err(StoreError::Busy(_))) {
                return changed;
            }
            self.wary().set();
        }
        let (entry, too) = (sql.lock_entry.text().to_owned(), ", d".to_owned());
        change(&Literal::part(entry), &Literal::part(too)).await
    }

    /// What writes these outcomes to the rows that were noted, each statement with a semicolon after it.
    pub(crate) fn ends_text<'o>(&self, outcomes: impl IntoIterator<Item = &'o Outcome>) -> String {
        let (mut deleted, mut kept, mut ended) = (false, false, false);
        for outcome in outcomes {
            ended |= outcome.end().is_some();
            match (outcome, self.retention()) {
                (Outcome::Done, Retention::DeleteWhenDone) => deleted = true,
                _ => kept = true,
            }
        }
        let sql = self.sql();
        let mut text = String::new();
        let mut push = |statement: &str| {
            text.push_str(statement);
            text.push_str(";\n");
        };
        if deleted {
            push(sql.settle_delete.text());
        }
        if kept {
            push(sql.settle.text());
        }
        if ended {
            let part = Literal::number(fastrand::i64(..));
            push(&sql.tally.with(&[("part", &part)]));
        }
        text
    }

    /// Which of the holds that were not found are still good: somebody else has their rows locked. A
    /// plain read, which waits for nobody.
    async fn busy(&self, missing: HeldRows, found: &[EventId]) -> Result<Vec<EventId>, StoreError> {
        let missing: Vec<_> = missing.into_iter().filter(|(id, _)| !found.contains(id)).collect();
        if missing.is_empty() {
            return Ok(Vec::new());
        }
        let ids = Literal::ids(missing.iter().map(|(id, _)| *id));
        let confirm = self.sql().confirm.with(&[("ids", &ids)]);
        let tokens = Tokens::of(&self.links().settlements.query(&confirm).await?)?;
        let held = missing.iter().filter(|(id, token)| tokens.are(*id, *token));
        let busy = distinct(held.map(|(id, _)| *id));
        if !busy.is_empty() && self.wary().is_on() {
            self.wary().set();
        }
        Ok(busy)
    }
}

fn distinct(ids: impl IntoIterator<Item = EventId>) -> Vec<EventId> {
    let mut seen = HashSet::new();
    ids.into_iter().filter(|id| seen.insert(*id)).collect()
}

/// Rows that are held, each by its token.
type HeldRows = Vec<(EventId, Token)>;

/// Who was found and who was not, by the places in the list that `found` answers with.
fn split(
    answer: &[Row],
    list: impl IntoIterator<Item = (EventId, Token)>,
) -> Result<(HeldRows, HeldRows), StoreError> {
    let places = places(answer)?;
    let (found, missing): (Vec<_>, Vec<_>) =
        list.into_iter().enumerate().partition(|(at, _)| places.contains(&(at + 1)));
    let only = |held: Vec<(usize, _)>| held.into_iter().map(|(_, held)| held).collect();
    Ok((only(found), only(missing)))
}

/// Places in a list, from 1, as an answer has them in its first column: with commas, or NULL for none.
pub(crate) fn places(answer: &[Row]) -> Result<HashSet<usize>, StoreError> {
    let places = answer.first().and_then(|row| rows::maybe(row, 0)).unwrap_or_default();
    let unreadable = || StoreError::Refused("places in a list cannot be read".into());
    std::str::from_utf8(places)
        .map_err(|_| unreadable())?
        .split(',')
        .filter(|place| !place.is_empty())
        .map(|place| place.parse().map_err(|_| unreadable()))
        .collect()
}

/// All errors of a text together: as digits they take twice as much, and the server takes texts of
/// 16 MiB.
const ERRORS_BYTES: usize = 6 * 1024 * 1024;

/// How many bytes of each error are kept. All of them, unless a whole batch fails with long ones in
/// letters of several bytes.
pub(crate) fn longest_error<'o>(outcomes: impl IntoIterator<Item = &'o Outcome>) -> usize {
    let failed = |outcome: &&Outcome| outcome.error().is_some();
    ERRORS_BYTES / outcomes.into_iter().filter(failed).count().max(1)
}

/// An outcome as `settle` takes it.
pub(crate) fn end_of(outcome: &Outcome, longest_error: usize) -> End<'_> {
    let nothing = End { outcome: 0, after: None, attempts: None, error: None, due_at: None };
    let failed = |status: Status, attempts: u32, error| {
        let error = limits::truncate(error, limits::ERROR_CHARS);
        let error = &error[..error.floor_char_boundary(longest_error)];
        let after = Some(Duration::ZERO);
        End {
            outcome: status.code(),
            after,
            attempts: Some(attempts),
            error: Some(error),
            due_at: None,
        }
    };
    match outcome {
        Outcome::Released => nothing,
        Outcome::Done => End { outcome: Status::Done.code(), ..nothing },
        Outcome::Retry { delay, attempts, error } => {
            let after = Some((*delay).min(limits::DELAY));
            End { after, ..failed(Status::Retry, *attempts, error) }
        }
        Outcome::Wait { delay, waits_for, attempts, error } => {
            let outcome = match waits_for {
                WaitsFor::Target => 5,
                WaitsFor::Handler => 6,
            };
            let after = Some((*delay).min(limits::DELAY));
            End { outcome, after, ..failed(Status::Retry, *attempts, error) }
        }
        Outcome::Dead { attempts, error } => failed(Status::Dead, *attempts, error),
        Outcome::Restored { due_at } => End { outcome: 4, due_at: Some(*due_at), ..nothing },
    }
}
