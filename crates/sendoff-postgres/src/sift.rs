//! Finding the row that makes a claim or a lock fail.

use sendoff_core::{BoxError, EventId};
use sendoff_engine::store::{Look, PassedOver, Sieve, StoreError, Visible};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::claim::kinds;
use crate::link::Params;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, ErrorText, Id, Span};

impl Sieve for PostgresStore {
    fn passed_over(&self) -> &PassedOver {
        self.passed()
    }

    async fn first(&self, look: &Look<'_>) -> Result<Option<Visible>, StoreError> {
        let passed = wired(look.passed);
        let (skip_recent, window) = (Span(look.skip_recent), look.window.map(Span));
        let (from, which) = (look.from.map(At), look.which as i16);
        let (aggregates, kinds) = kinds(look.except.kinds);
        let params: Params<'_> = &[
            &skip_recent,
            &window,
            &from,
            &passed,
            &which,
            &look.owner,
            &aggregates,
            &kinds,
            &look.except.types,
        ];
        let (statement, params) = match look.except.is_empty() {
            true => (&self.sql().first_visible, &params[..6]),
            false => (&self.sql().first_visible_except, params),
        };
        let found = self.links().claims.query(statement, params).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let (Id(id), At(due_at)) = (rows::get(row, 0)?, rows::get(row, 1)?);
        Ok(Some(Visible { id, due_at }))
    }

    async fn end(&self, row: Visible, error: &str) -> Result<(), StoreError> {
        let (id, due_at, error) = (Id(row.id), At(row.due_at), ErrorText(error));
        let params: Params<'_> = &[&id, &due_at, &error];
        self.links().claims.query(&self.sql().set_aside, params).await?;
        Ok(())
    }

    fn is_of_a_row(refusal: &BoxError) -> bool {
        let code = refusal.downcast_ref::<Error>().and_then(Error::code);
        let Some(code) = code else { return false };
        matches!(&code.code()[..2], "22" | "23" | "P0")
            || matches!(
                *code,
                SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED | SqlState::INTERNAL_ERROR
            )
    }
}

/// Ids as a parameter.
pub(crate) fn wired(ids: &[EventId]) -> Vec<Id> {
    ids.iter().copied().map(Id).collect()
}
