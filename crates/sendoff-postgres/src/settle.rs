//! Settlements and extensions on PostgreSQL, as arrays of one statement.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::order::AfterDead;
use sendoff_core::{EventId, Status, Token, WaitsFor, limits};
use sendoff_engine::store::{
    ExtendInTurn, Extended, Held, Outcome, SettleStore, Settled, Settlement, StoreError,
};
use tokio_postgres::Row;

use crate::claim::{columns, row_token};
use crate::options::Retention;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, ErrorText, Id, Span};

#[async_trait]
impl SettleStore for PostgresStore {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        self.check_open()?;
        let held: Vec<(&Settlement, At)> = batch
            .iter()
            .filter_map(|settled| Some((settled, At::from(row_token(&settled.held)?))))
            .collect();
        if held.is_empty() {
            return Ok(Settled::default());
        }
        let statement = match self.retention() {
            Retention::DeleteWhenDone => &self.sql().settle_delete,
            Retention::Keep(_) => &self.sql().settle_keep,
        };
        let columns =
            Columns::of(held.iter().map(|(settled, _)| (settled.held.id, &settled.outcome)));
        let tokens: Vec<At> = held.into_iter().map(|(_, token)| token).collect();
        let Columns { ids, outcomes, after, attempts, errors, due } = &columns;
        let rows = self
            .links()
            .settlements
            .query(statement, &[ids, &tokens, outcomes, after, attempts, errors, due])
            .await?;
        let mut settled = Settled::default();
        for row in &rows {
            // One that has no id is about keys.
            let Some(Id(id)) = rows::get(row, 0)? else { continue };
            if rows::get(row, 1)? { settled.applied.push(id) } else { settled.busy.push(id) }
        }
        self.fold_sometimes();
        Ok(settled)
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Extended::default());
        }
        let (ids, tokens) = columns(holds);
        let rows = self
            .links()
            .settlements
            .query(&self.sql().extend, &[&ids, &tokens, &Span(hold)])
            .await?;
        extended(&rows)
    }

    async fn extend_in_turn(&self, turn: ExtendInTurn) -> Result<Extended, StoreError> {
        let ExtendInTurn { held, hold, patience } = turn;
        self.check_open()?;
        let (ids, tokens) = columns(&[held]);
        // 0 would be no limit.
        let patience = i32::try_from(patience.as_millis()).unwrap_or(i32::MAX).max(1);
        let rows = self
            .links()
            .turns
            .query(&self.sql().extend_in_turn, &[&ids, &tokens, &Span(hold), &patience])
            .await?;
        extended(&rows)
    }
}

fn extended(rows: &[Row]) -> Result<Extended, StoreError> {
    let mut extended = Extended::default();
    for row in rows {
        let Id(id) = rows::get(row, 0)?;
        match rows::get::<Option<At>>(row, 1)? {
            Some(At(due_at)) => extended.held.push(Held::row(id, Token::new(due_at))),
            None => extended.busy.push(id),
        }
    }
    Ok(extended)
}

/// Outcomes as arrays, one for each parameter.
#[derive(Default)]
pub(crate) struct Columns<'a> {
    pub(crate) ids: Vec<Id>,
    pub(crate) outcomes: Vec<i16>,
    pub(crate) after: Vec<Span>,
    pub(crate) attempts: Vec<Option<i32>>,
    pub(crate) errors: Vec<Option<ErrorText<'a>>>,
    pub(crate) due: Vec<Option<At>>,
}

/// DEAD, and its key goes on.
const DEAD_AND_ON: i16 = 6;

/// The status stays as it is.
const GIVEN_BACK: i16 = 0;

/// RETRY, and what the row waits for.
const fn waits(waits_for: WaitsFor) -> i16 {
    match waits_for {
        WaitsFor::Target => 4,
        WaitsFor::Handler => 5,
    }
}

impl<'a> Columns<'a> {
    pub(crate) fn of(batch: impl Iterator<Item = (EventId, &'a Outcome)>) -> Self {
        let mut columns = Self::default();
        for (id, outcome) in batch {
            let mut due = None;
            let (outcome, after, attempts, error) = match outcome {
                Outcome::Done => (Status::Done.code(), Duration::ZERO, None, None),
                Outcome::Retry { delay, attempts, error } => {
                    (Status::Retry.code(), *delay, Some(attempts), Some(error))
                }
                Outcome::Wait { delay, waits_for, attempts, error } => {
                    (waits(*waits_for), *delay, Some(attempts), Some(error))
                }
                Outcome::Dead { attempts, error, then } => {
                    let dead = match then {
                        AfterDead::Park => Status::Dead.code(),
                        AfterDead::Skip => DEAD_AND_ON,
                    };
                    (dead, Duration::ZERO, Some(attempts), Some(error))
                }
                Outcome::Released => (GIVEN_BACK, Duration::ZERO, None, None),
                Outcome::Restored { due_at } => {
                    due = Some(At(*due_at));
                    (GIVEN_BACK, Duration::ZERO, None, None)
                }
            };
            columns.ids.push(Id(id));
            columns.outcomes.push(outcome);
            columns.after.push(Span(after.min(limits::DELAY)));
            columns.attempts.push(attempts.map(|count| i32::try_from(*count).unwrap_or(i32::MAX)));
            columns
                .errors
                .push(error.map(|text| ErrorText(limits::truncate(text, limits::ERROR_CHARS))));
            columns.due.push(due);
        }
        columns
    }
}
