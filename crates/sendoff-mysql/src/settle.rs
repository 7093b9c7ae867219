//! Settlements and extensions on MySQL and MariaDB, past rows and index entries that somebody has
//! locked.

use std::collections::HashSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::order::AfterDead;
use sendoff_core::{EventId, Status, Timestamp, Token, WaitsFor, limits};
use sendoff_engine::store::{
    ExtendInTurn, Extended, Held, Outcome, SettleStore, Settled, Settlement, StoreError,
};
use tokio::time::{Instant, sleep};

use crate::claim::{Tokens, row_token};
use crate::options::Retention;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::{End, EndRows, Literal};

/// How long a lock lasts that is soon gone.
pub(crate) const PASSING: Duration = Duration::from_millis(5);

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

/// Whether rows with keys come this way: where none does, no settlement looks for their keys.
///
/// Known from what is written and claimed here. Where it is not, a key that waits is looked at when it is due,
/// instead of at once.
#[derive(Debug, Default)]
pub(crate) struct HasKeys(AtomicBool);

impl HasKeys {
    pub(crate) fn set(&self) {
        self.0.store(true, Ordering::Relaxed);
    }

    fn is_set(&self) -> bool {
        self.0.load(Ordering::Relaxed)
    }
}

/// Which rows were noted for their ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Noted {
    /// By `lock`: held by themselves, and none has a key as far as is known.
    Unordered,
    /// By `lock_keyed`: held by themselves.
    Keyed,
    /// By `note`: locked by the transaction all along.
    Locked,
    /// By `lock_runs`: in line.
    InLine,
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
        let skip = skip_locked();
        let text =
            |entry: &Literal, too: &Literal| self.extend_text(&holds, hold, [entry, too, &skip]);
        let answer = self.change_free(text).await?;
        self.extended(&answer, holds, hold).await
    }

    async fn extend_in_turn(&self, turn: ExtendInTurn) -> Result<Extended, StoreError> {
        let ExtendInTurn { held, hold, patience } = turn;
        self.check_open()?;
        let seconds = patience.as_secs();
        let Some(token) = row_token(&held).filter(|_| seconds > 0) else {
            // The server waits for whole seconds: what nobody waited for any more would be carried out.
            return self.extend(&[held], hold).await;
        };
        let (sql, holds, nothing) = (self.sql(), vec![(held.id, token)], Literal::nothing());
        let turn = sql.turn.with(&[("seconds", &Literal::count(seconds as usize))]);
        let text = self.extend_text(&holds, hold, [&nothing, &nothing, &nothing]);
        let answer = self.links().turns.query(&format!("{turn};\n{text}")).await?;
        self.extended(&answer, holds, hold).await
    }
}

/// What leaves out rows that somebody has locked.
fn skip_locked() -> Literal {
    Literal::part("skip locked".to_owned())
}

impl MysqlStore {
    /// A transaction that extends the holds among these whose rows it can lock, and answers which: past index
    /// entries, and past rows, where that is given.
    fn extend_text(
        &self,
        holds: &HeldRows,
        hold: Duration,
        [entry, too, passing]: [&Literal; 3],
    ) -> String {
        let mut rows = EndRows::default();
        for (id, token) in holds {
            rows.held(*id, token.due_at(), None);
        }
        let (sql, rows) = (self.sql(), rows.literal());
        let extend = sql.extend.with(&[("hold", &Literal::span(hold))]);
        let lock =
            sql.lock.with(&[("rows", &rows), ("entry", entry), ("too", too), ("passing", passing)]);
        format!("{lock};\n{extend};\ncommit;\n{}", sql.found.text())
    }

    /// What the answer to an extension says about these holds.
    async fn extended(
        &self,
        answer: &[Row],
        holds: HeldRows,
        hold: Duration,
    ) -> Result<Extended, StoreError> {
        let (found, missing) = split(answer, holds)?;
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
        let outcomes = || batch.iter().map(|(settlement, _)| &settlement.outcome);
        let keyed = self.has_keys().is_set() || outcomes().any(parks);
        let (lock, noted) = match keyed {
            true => (&self.sql().lock_keyed, Noted::Keyed),
            false => (&self.sql().lock, Noted::Unordered),
        };
        let (rows, ends) = (rows.literal(), self.ends_text(outcomes(), noted));
        let skip = skip_locked();
        let text = |entry: &Literal, too: &Literal| {
            let lock =
                lock.with(&[("rows", &rows), ("entry", entry), ("too", too), ("passing", &skip)]);
            format!("{lock};\n{ends}commit;\n{}", self.sql().found.text())
        };
        let answer = self.change_free(text).await?;
        let (found, missing) =
            split(&answer, batch.iter().map(|(one, token)| (one.held.id, *token)))?;
        let applied = distinct(found.iter().map(|(id, _)| *id));
        Ok(Settled { busy: self.busy(missing, &applied).await?, applied })
    }

    /// Sends a text that changes the rows among some that nobody has locked. Where something was waited
    /// for in vain, it leaves out rows whose index entry somebody has, for a while: one such row must
    /// not keep the others from what becomes of them (I11). The text is made with what does that, or with
    /// nothing.
    pub(crate) async fn change_free(
        &self,
        text: impl Fn(&Literal, &Literal) -> String,
    ) -> Result<Vec<Row>, StoreError> {
        let change = async |entry: &Literal, too: &Literal| {
            self.links().settlements.query(&text(entry, too)).await
        };
        if !self.wary().is_on() {
            let changed = change(&Literal::nothing(), &Literal::nothing()).await;
            if !matches!(changed, Err(StoreError::Busy(_))) {
                return changed;
            }
            self.wary().set();
        }
        let (entry, too) = (self.sql().lock_entry.text().to_owned(), ", d".to_owned());
        change(&Literal::part(entry), &Literal::part(too)).await
    }

    /// What writes these outcomes to the rows that were noted, each statement with a semicolon after it.
    pub(crate) fn ends_text<'o>(
        &self,
        outcomes: impl IntoIterator<Item = &'o Outcome>,
        noted: Noted,
    ) -> String {
        let (mut deleted, mut kept, mut ended, mut parked) = (false, false, false, false);
        for outcome in outcomes {
            ended |= outcome.end().is_some();
            parked |= parks(outcome);
            match (outcome, self.retention()) {
                (Outcome::Done, Retention::DeleteWhenDone) => deleted = true,
                _ => kept = true,
            }
        }
        let sql = self.sql();
        let (delete, settle, tally) = match noted {
            Noted::InLine => (&sql.delete_in_line, &sql.settle_in_line, &sql.tally_in_line),
            Noted::Unordered | Noted::Keyed | Noted::Locked => {
                (&sql.settle_delete, &sql.settle, &sql.tally)
            }
        };
        let (park, wake) = match noted {
            Noted::Unordered => (None, None),
            Noted::Keyed => (Some(&sql.park), Some(&sql.wake_keys)),
            Noted::Locked => (Some(&sql.park_locked), Some(&sql.wake_keys)),
            Noted::InLine => (Some(&sql.park_runs), None),
        };
        let mut text = String::new();
        let mut push = |statement: &str| {
            text.push_str(statement);
            text.push_str(";\n");
        };
        if let Some(park) = park.filter(|_| parked) {
            push(park.text());
        }
        if deleted {
            push(delete.text());
        }
        if kept {
            push(settle.text());
        }
        if let Some(wake) = wake {
            push(wake.text());
        }
        if ended {
            let part = Literal::number(fastrand::i64(..));
            push(&tally.with(&[("part", &part)]));
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

/// Whether it parks its key, if the row has one.
pub(crate) fn parks(outcome: &Outcome) -> bool {
    matches!(outcome, Outcome::Dead { then: AfterDead::Park, .. })
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
    places_in(answer, 0)
}

/// The same of another column.
pub(crate) fn places_in(answer: &[Row], column: usize) -> Result<HashSet<usize>, StoreError> {
    let places = answer.first().and_then(|row| rows::maybe(row, column)).unwrap_or_default();
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
    let parks = parks(outcome);
    let nothing = End { outcome: 0, after: None, attempts: None, error: None, due_at: None, parks };
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
            parks,
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
        Outcome::Dead { attempts, error, .. } => failed(Status::Dead, *attempts, error),
        Outcome::Restored { due_at } => End { outcome: 4, due_at: Some(*due_at), ..nothing },
    }
}
