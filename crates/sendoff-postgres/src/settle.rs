use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Status, Token, limits};
use sendoff_engine::store::{Held, Outcome, SettleStore, Settlement, StoreError};

use crate::claim::columns;
use crate::options::Retention;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, ErrorText, Id, Span};

#[async_trait]
impl SettleStore for PostgresStore {
    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<EventId>, StoreError> {
        self.check_open()?;
        if batch.is_empty() {
            return Ok(Vec::new());
        }
        let statement = match self.retention() {
            Retention::DeleteWhenDone => &self.sql().settle_delete,
            Retention::Keep(_) => &self.sql().settle_keep,
        };
        let Columns { ids, tokens, outcomes, after, attempts, errors } = Columns::of(batch);
        let rows = self
            .links()
            .settlements
            .query(statement, &[&ids, &tokens, &outcomes, &after, &attempts, &errors])
            .await?;
        rows.iter().map(|row| rows::get(row, 0).map(|Id(id)| id)).collect()
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Vec<Held>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, tokens) = columns(holds);
        let rows = self
            .links()
            .settlements
            .query(&self.sql().extend, &[&ids, &tokens, &Span(hold)])
            .await?;
        let extended = |row| {
            let Id(id) = rows::get(row, 0)?;
            Ok(Held::row(id, Token::new(rows::time(row, 1)?)))
        };
        rows.iter().map(extended).collect()
    }
}

/// Settlements as arrays, one for each parameter.
#[derive(Default)]
struct Columns<'a> {
    ids: Vec<Id>,
    tokens: Vec<At>,
    outcomes: Vec<i16>,
    after: Vec<Span>,
    attempts: Vec<Option<i32>>,
    errors: Vec<Option<ErrorText<'a>>>,
}

/// The status stays as it is.
const GIVEN_BACK: i16 = 0;

impl<'a> Columns<'a> {
    fn of(batch: &'a [Settlement]) -> Self {
        let mut columns = Self::default();
        for Settlement { held, outcome } in batch {
            let (outcome, after, attempts, error) = match outcome {
                Outcome::Done => (Status::Done.code(), Duration::ZERO, None, None),
                Outcome::Retry { delay, attempts, error } => {
                    (Status::Retry.code(), *delay, Some(attempts), Some(error))
                }
                Outcome::Dead { attempts, error } => {
                    (Status::Dead.code(), Duration::ZERO, Some(attempts), Some(error))
                }
                Outcome::Released => (GIVEN_BACK, Duration::ZERO, None, None),
            };
            columns.ids.push(Id(held.id));
            columns.tokens.push(At::from(held.by.token()));
            columns.outcomes.push(outcome);
            columns.after.push(Span(after.min(limits::DELAY)));
            columns.attempts.push(attempts.map(|count| i32::try_from(*count).unwrap_or(i32::MAX)));
            columns
                .errors
                .push(error.map(|text| ErrorText(limits::truncate(text, limits::ERROR_CHARS))));
        }
        columns
    }
}
