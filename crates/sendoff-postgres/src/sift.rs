//! Finding the row that makes a claim or a lock fail.

use std::time::Duration;

use sendoff_core::{BoxError, EventId, Timestamp};
use sendoff_engine::store::{self, Sieve, Sifted, StoreError, Visible};
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;

use crate::link::Params;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, ErrorText, Id, Span};

/// What a claim or a lock looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) owner: &'a str,
    pub(crate) skip_recent: Duration,
    pub(crate) window: Option<Duration>,
    pub(crate) from: Option<Timestamp>,
    /// No events of these types.
    pub(crate) except: &'a [&'a str],
    pub(crate) which: Which,
}

/// Which of the visible rows; the numbers are those of `first_visible`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Which {
    Any = 0,
    Company = 1,
    Suspects = 2,
}

/// A statement that takes rows.
pub(crate) trait Take: Sync {
    /// What it takes.
    type Taken: Send;

    /// Takes up to `limit` rows, and none of those that are passed over; `None` if there are none.
    fn take(
        &self,
        store: &PostgresStore,
        limit: i64,
        passed: &[Id],
    ) -> impl Future<Output = Result<Option<Self::Taken>, StoreError>> + Send;
}

/// A statement, what it looks at, and where.
struct Taking<'a, T> {
    store: &'a PostgresStore,
    look: Look<'a>,
    statement: &'a T,
}

impl PostgresStore {
    /// Takes up to `most` rows, whichever of the others refuse.
    pub(crate) async fn sift<T: Take>(
        &self,
        most: usize,
        look: Look<'_>,
        statement: &T,
    ) -> Result<Option<Sifted<T::Taken>>, StoreError> {
        store::sift(&Taking { store: self, look, statement }, self.passed(), most).await
    }
}

impl<T: Take> Sieve for Taking<'_, T> {
    type Taken = T::Taken;

    async fn take(&self, limit: usize, passed: &[EventId]) -> Result<Option<T::Taken>, StoreError> {
        self.statement.take(self.store, limit as i64, &wired(passed)).await
    }

    async fn first(&self, passed: &[EventId]) -> Result<Option<Visible>, StoreError> {
        let (look, passed) = (self.look, wired(passed));
        let (skip_recent, window) = (Span(look.skip_recent), look.window.map(Span));
        let (from, which) = (look.from.map(At), look.which as i16);
        let params: Params<'_> =
            &[&look.owner, &skip_recent, &window, &from, &which, &passed, &look.except];
        let statement = &self.store.sql().first_visible;
        let found = self.store.links().claims.query(statement, params).await?;
        let Some(row) = found.first() else { return Ok(None) };
        let (Id(id), At(due_at)) = (rows::get(row, 0)?, rows::get(row, 1)?);
        Ok(Some(Visible { id, due_at }))
    }

    async fn end(&self, row: Visible, error: &str) -> Result<(), StoreError> {
        let (id, due_at, error) = (Id(row.id), At(row.due_at), ErrorText(error));
        let params: Params<'_> = &[&id, &due_at, &error];
        self.store.links().claims.query(&self.store.sql().set_aside, params).await?;
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

fn wired(ids: &[EventId]) -> Vec<Id> {
    ids.iter().copied().map(Id).collect()
}
