//! Order within a key on PostgreSQL: keys that are held, and their events.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::limits;
use sendoff_core::order::{Ending, HOT_CHAIN, KeyToken};
use sendoff_engine::store::{
    Confirmed, ExtendKeys, ExtendedKeys, Held, HeldKey, KeyRun, KeyStore, RunEnd, RunsWanted,
    SettledRuns, StoreError, Suspects, TakeKeys, TakenKey, TakenKeys, Walked, Window,
};
use tokio_postgres::Row;

use crate::claim::{columns, kinds};
use crate::link::Params;
use crate::options::Retention;
use crate::rows::{self, get, time};
use crate::settle::Columns;
use crate::store::PostgresStore;
use crate::wire::{At, Id, Span};

#[async_trait]
impl KeyStore for PostgresStore {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        self.check_open()?;
        let suspects = take.suspects == Suspects::Only;
        let walk = take.walk.filter(|_| !suspects);
        let (after, rows) = (walk.map(|walk| walk.after), walk.map(|walk| whole(walk.rows)));
        let (aggregates, kinds) = kinds(take.except.kinds);
        let run = i16::try_from(take.run).unwrap_or(i16::MAX);
        let (most, hold) = (whole(take.limit), Span(take.hold));
        let params: Params<'_> = &[
            &take.owner,
            &most,
            &run,
            &hold,
            &suspects,
            &aggregates,
            &kinds,
            &take.except.types,
            &after,
            &rows,
        ];
        let answer = self.links().claims.query(&self.sql().take_keys, params).await?;
        let mut taken = TakenKeys::default();
        for row in &answer {
            taken_up(row, &mut taken)?;
        }
        Ok(taken)
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        self.check_open()?;
        let keys: Vec<&str> = wanted.keys.iter().map(|key| &*key.key).collect();
        let most: Vec<i64> = wanted.keys.iter().map(|key| i64::from(key.run)).collect();
        let bytes = whole(wanted.bytes);
        let mut runs: Vec<KeyRun> = wanted
            .keys
            .iter()
            .map(|taken| KeyRun { key: taken.key.clone(), rows: Vec::new(), whole: true })
            .collect();
        if runs.is_empty() {
            return Ok(runs);
        }
        let answer = self.links().claims.query(&self.sql().runs, &[&keys, &most, &bytes]).await?;
        for row in &answer {
            let at = place(get(row, rows::RUN)?)?;
            let (taken, run) = wanted.keys.get(at).zip(runs.get_mut(at)).ok_or_else(strange)?;
            if get(row, rows::RUN + 1)? {
                let lost = taken.lost && run.rows.is_empty();
                run.rows.push(rows::in_line(row, taken.token, lost)?);
            } else {
                run.whole = false;
            }
        }
        Ok(runs)
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        self.check_open()?;
        if ends.is_empty() {
            return Ok(SettledRuns::default());
        }
        let statement = match self.retention() {
            Retention::DeleteWhenDone => &self.sql().settle_runs_delete,
            Retention::Keep(_) => &self.sql().settle_runs_keep,
        };
        let (keys, tokens) = tokens(ends.iter().map(|end| &end.held));
        let (endings, after): (Vec<i16>, Vec<Span>) = ends.iter().map(ending).unzip();
        let places: Vec<i32> = (1..)
            .zip(ends)
            .flat_map(|(place, end)| std::iter::repeat_n(place, end.rows.len()))
            .collect();
        let rows = ends.iter().flat_map(|end| &end.rows);
        let columns = Columns::of(rows.map(|(id, outcome)| (*id, outcome)));
        let Columns { ids, outcomes, attempts, errors, .. } = &columns;
        let params: Params<'_> =
            &[&owner, &keys, &tokens, &endings, &after, &places, ids, outcomes, attempts, errors];
        let answer = self.links().settlements.query(statement, params).await?;
        let (applied, busy) = decided(&answer, ends.iter().map(|end| &end.held.key))?;
        self.fold_sometimes();
        Ok(SettledRuns { applied, busy })
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        let ExtendKeys { owner, keys, hold } = *extend;
        self.check_open()?;
        if keys.is_empty() {
            return Ok(ExtendedKeys::default());
        }
        let (names, tokens) = tokens(keys.iter());
        let params: Params<'_> = &[&owner, &names, &tokens, &Span(hold)];
        let answer = self.links().settlements.query(&self.sql().extend_keys, params).await?;
        let (held, busy) = decided(&answer, keys.iter().map(|held| &held.key))?;
        Ok(ExtendedKeys { held, busy })
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, tokens) = columns(holds);
        let params: Params<'_> = &[&ids, &tokens, &(HOT_CHAIN as i64 + 1)];
        let rows = self.links().claims.query(&self.sql().confirm_keys, params).await?;
        rows.iter().map(confirmed).collect()
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        self.check_open()?;
        let (age, most) = (Span(age), limits::BATCH_ROWS as i64);
        let params: Params<'_> = &[&window.after, &window.last, &age, &most];
        let shelved = self.links().claims.query(&self.sql().shelve, params).await?;
        let shelved = shelved.first().map_or(Ok(0), |row| get::<i64>(row, 0))?;
        Ok(u64::try_from(shelved).unwrap_or(0))
    }
}

/// A row of `take_keys`: a key, what is said of those that could not be had, or how far a walk came.
fn taken_up(row: &Row, taken: &mut TakenKeys) -> Result<(), StoreError> {
    let at = time(row, 1)?;
    if let Some(key) = get::<Option<&str>>(row, 0)? {
        taken.keys.push(TakenKey {
            key: key.into(),
            token: KeyToken::new(at),
            run: u32::try_from(get::<i16>(row, 2)?).unwrap_or(1),
            lost: get(row, 3)?,
        });
    } else if let Some(put_off) = get::<Option<i64>>(row, 5)? {
        let next: Option<At> = get(row, 4)?;
        taken.next = next.map(|At(next)| next.since(at));
        taken.put_off = usize::try_from(put_off).unwrap_or(0);
    } else {
        let count = |column| get::<i64>(row, column).map(|rows| usize::try_from(rows).unwrap_or(0));
        taken.walked = Some(Walked {
            last: get(row, 6)?,
            rows: count(7)?,
            listed: count(8)?,
            end: get(row, 9)?,
        });
    }
    Ok(())
}

fn confirmed(row: &Row) -> Result<Confirmed, StoreError> {
    let Id(id) = get(row, 0)?;
    let below = get::<Vec<Id>>(row, 2)?.into_iter().map(|Id(id)| id).collect();
    Ok(Confirmed { id, seq: get(row, 1)?, below, parked: get(row, 3)? })
}

/// Keys and their tokens, as two arrays.
fn tokens<'k>(held: impl Iterator<Item = &'k HeldKey>) -> (Vec<&'k str>, Vec<At>) {
    held.map(|held| (&*held.key, At(held.token.taken_at()))).unzip()
}

/// What becomes of a key, as a number, and after how long.
fn ending(end: &RunEnd) -> (i16, Span) {
    let (ending, after) = match end.ending {
        Ending::HeldOn => (0, Duration::ZERO),
        Ending::Free => (1, Duration::ZERO),
        Ending::After(delay) => (2, delay),
        Ending::Exhausted => (3, Duration::ZERO),
    };
    (ending, Span(after.min(limits::DELAY)))
}

type Keys = Vec<Arc<str>>;

/// Keys by the places that were answered: those that it is true of, and those that are busy.
fn decided<'k>(
    answer: &[Row],
    keys: impl Iterator<Item = &'k Arc<str>>,
) -> Result<(Keys, Keys), StoreError> {
    let decided: BTreeMap<usize, bool> = answer
        .iter()
        .map(|row| Ok((place(get(row, 0)?)?, get(row, 1)?)))
        .collect::<Result<_, StoreError>>()?;
    let (mut yes, mut busy) = (Vec::new(), Vec::new());
    for (at, key) in keys.enumerate() {
        match decided.get(&at) {
            Some(true) => yes.push(key.clone()),
            Some(false) => busy.push(key.clone()),
            None => {}
        }
    }
    Ok((yes, busy))
}

/// A place among what was asked for; the server counts from one.
fn place(number: i64) -> Result<usize, StoreError> {
    number.checked_sub(1).and_then(|at| usize::try_from(at).ok()).ok_or_else(strange)
}

fn strange() -> StoreError {
    StoreError::Refused("the server answered about a key that was not asked for".into())
}

fn whole(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX - 1)
}
