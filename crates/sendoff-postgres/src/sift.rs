//! Rows that make a statement fail: found, named, and dead, so that they keep no other waiting.
//!
//! A value that the server cannot read or convert, a trigger or a constraint that refuses: whatever
//! it is, it fails every claim that comes across it, on every node.

use std::time::Duration;

use sendoff_core::{BoxError, EventId, Timestamp, limits, report};
use sendoff_engine::store::StoreError;
use tokio_postgres::Error;
use tokio_postgres::error::SqlState;
use tracing::error;

use crate::link::Params;
use crate::rows;
use crate::store::PostgresStore;
use crate::wire::{At, ErrorText, Id, Span};

/// Bad rows that one claim looks for. Where there are more, something else is wrong.
const MOST: usize = 16;
/// Bad rows that a store remembers because they could not be ended either.
const REMEMBERED: usize = 1_000;

/// What a claim or a lock looks at.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Look<'a> {
    pub(crate) owner: &'a str,
    pub(crate) skip_recent: Duration,
    pub(crate) window: Option<Duration>,
    pub(crate) from: Option<Timestamp>,
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

/// A row that a statement failed at.
struct Bad {
    id: Id,
    due_at: At,
    reason: String,
}

impl PostgresStore {
    /// Takes up to `most` rows. Where that is refused, fewer and fewer; a row that is refused by
    /// itself is left out, and when others are had without it, it was its own fault: it is dead.
    ///
    /// Only what a single row can be the cause of is looked into, and nothing is ended unless another
    /// row went through the same statement: a mistake that fails them all must not end them all.
    pub(crate) async fn sift<T: Take>(
        &self,
        most: i64,
        look: Look<'_>,
        statement: &T,
    ) -> Result<Option<T::Taken>, StoreError> {
        let mut passed = self.passed().clone();
        let mut bad = Vec::new();
        let mut limit = most;
        loop {
            let first = if limit == 1 { self.first_visible(look, &passed).await? } else { None };
            let refusal = match statement.take(self, limit, &passed).await {
                Err(StoreError::Refused(reason)) if is_of_a_row(&reason) => reason,
                Ok(Some(taken)) => {
                    for bad in bad {
                        self.set_aside(bad).await?;
                    }
                    return Ok(Some(taken));
                }
                Ok(None) if bad.is_empty() => return Ok(None),
                // Nothing else is kept waiting, and nothing proves that it is the row's fault.
                Ok(None) => return Err(unproved(bad)),
                Err(other) => return Err(other),
            };
            if limit > 1 {
                limit /= 2;
                continue;
            }
            let Some((id, due_at)) = first.filter(|_| bad.len() < MOST) else {
                return Err(StoreError::Refused(refusal));
            };
            passed.push(id);
            bad.push(Bad { id, due_at, reason: report(&*refusal) });
            limit = most;
        }
    }

    async fn first_visible(
        &self,
        look: Look<'_>,
        passed: &[Id],
    ) -> Result<Option<(Id, At)>, StoreError> {
        let (skip_recent, window) = (Span(look.skip_recent), look.window.map(Span));
        let (from, which) = (look.from.map(At), look.which as i16);
        let params: Params<'_> = &[&look.owner, &skip_recent, &window, &from, &which, &passed];
        let found = self.links().claims.query(&self.sql().first_visible, params).await?;
        let Some(row) = found.first() else { return Ok(None) };
        Ok(Some((rows::get(row, 0)?, rows::get(row, 1)?)))
    }

    async fn set_aside(&self, bad: Bad) -> Result<(), StoreError> {
        let Bad { id, due_at, reason } = bad;
        let event: EventId = id.0;
        let text = format!("a statement fails because of this row: {reason}");
        let text = ErrorText(limits::truncate(&text, limits::ERROR_CHARS));
        let ended = self.links().claims.query(&self.sql().set_aside, &[&id, &due_at, &text]).await;
        match ended {
            Ok(_) => {
                error!(event.id = %event, error = reason, "a row that cannot be claimed is dead");
                Ok(())
            }
            Err(StoreError::Refused(refused)) => {
                let mut passed = self.passed();
                if passed.len() < REMEMBERED {
                    passed.push(id);
                }
                error!(
                    event.id = %event, error = reason, refused = report(&*refused),
                    "a row that can neither be claimed nor ended is passed over until restart"
                );
                Ok(())
            }
            Err(other) => Err(other),
        }
    }
}

/// Whether one row of many may be the cause: data, constraints, triggers, damage.
fn is_of_a_row(refusal: &BoxError) -> bool {
    let Some(code) = refusal.downcast_ref::<Error>().and_then(Error::code) else { return false };
    matches!(&code.code()[..2], "22" | "23" | "P0")
        || matches!(
            *code,
            SqlState::DATA_CORRUPTED | SqlState::INDEX_CORRUPTED | SqlState::INTERNAL_ERROR
        )
}

/// A refusal, and the events it seems to come from.
#[derive(Debug, thiserror::Error)]
#[error("the database refuses a statement that claims {events}: {reason}")]
struct Unproved {
    events: String,
    reason: String,
}

fn unproved(bad: Vec<Bad>) -> StoreError {
    let events: Vec<_> = bad.iter().map(|bad| bad.id.0.to_string()).collect();
    let reason = bad.into_iter().next().map(|bad| bad.reason).unwrap_or_default();
    StoreError::Refused(Unproved { events: events.join(", "), reason }.into())
}
