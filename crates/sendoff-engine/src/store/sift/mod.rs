//! Rows that make a statement fail: found, named, and passed over, so that they keep no other waiting.
//!
//! A value that the server cannot read or convert, a trigger or a constraint that refuses: whatever
//! it is, it fails every claim that comes across it, on every node.

mod passed;

use std::time::Duration;

use sendoff_core::{BoxError, EventId, Timestamp, limits, report};
use tokio::time::Instant;
use tracing::{error, warn};

pub use self::passed::PassedOver;
use super::StoreError;

/// How long one claim looks for rows that refuse. What it found is passed over by the next one, which
/// goes on behind it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Events that an error names.
const NAMED: usize = 10;

/// A statement that takes rows, and what is needed to find the one that it fails at.
pub trait Sieve: Sync {
    /// What it takes.
    type Taken: Send;

    /// Takes up to `limit` rows, and none of those that are passed over; `None` if there are none.
    fn take(
        &self,
        limit: usize,
        passed: &[EventId],
    ) -> impl Future<Output = Result<Option<Self::Taken>, StoreError>> + Send;

    /// The row that it would take first.
    fn first(
        &self,
        passed: &[EventId],
    ) -> impl Future<Output = Result<Option<Visible>, StoreError>> + Send;

    /// Makes a row dead, if it is pending and due when it was.
    fn end(&self, row: Visible, error: &str)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether one row of many may be the cause of a refusal: data, constraints, triggers, damage.
    fn is_of_a_row(refusal: &BoxError) -> bool;
}

/// What was taken.
#[derive(Debug)]
pub struct Sifted<T> {
    /// The rows.
    pub taken: T,
    /// Whether fewer were asked for than there may be, because of a row among the others that refuses.
    pub cut: bool,
}

/// A row that can be claimed.
#[derive(Debug, Clone, Copy)]
pub struct Visible {
    /// Its event.
    pub id: EventId,
    /// Since when it is due.
    pub due_at: Timestamp,
}

/// A row that the statement failed at.
struct Bad {
    row: Visible,
    reason: String,
}

/// Takes up to `most` rows. Where that is refused, fewer and fewer; a row that is refused by itself is
/// passed over for a while, by this claim and by the next ones. One that was refused again and again
/// for minutes, while others were had without it, is dead.
///
/// Where fewer were taken than asked for, it says so: who takes that for all there is would leave the rest
/// for later.
///
/// Only what a single row can be the cause of is looked into, and nothing is ended unless another row
/// went through the same statement: a mistake that fails them all must not end them all.
///
/// # Errors
/// What the statement answered; where nothing but rows that refuse was found, which they are.
pub async fn sift<S: Sieve>(
    sieve: &S,
    memory: &PassedOver,
    most: usize,
) -> Result<Option<Sifted<S::Taken>>, StoreError> {
    let began = Instant::now();
    let mut passed = memory.ids(began);
    let mut bad = Vec::new();
    let mut limit = most;
    loop {
        let refusal = match sieve.take(limit, &passed).await {
            Err(StoreError::Refused(reason)) if S::is_of_a_row(&reason) => reason,
            Ok(Some(taken)) => {
                if !passed.is_empty() {
                    memory.others_pass();
                    end_hopeless(sieve, memory, bad, began).await;
                }
                return Ok(Some(Sifted { taken, cut: limit < most }));
            }
            // Nothing else is kept waiting, and nothing proves that it is the row's fault.
            Ok(None) if !bad.is_empty() => return Err(unproved(&bad)),
            Ok(None) => return Ok(None),
            Err(error) => return Err(error),
        };
        if limit > 1 {
            limit /= 2;
            continue;
        }
        let Some(row) = sieve.first(&passed).await? else {
            return Err(StoreError::Refused(refusal));
        };
        // At once: whoever drops this claim has not looked in vain.
        memory.refused(row.id, Instant::now());
        passed.push(row.id);
        bad.push(Bad { row, reason: report(&*refusal) });
        if began.elapsed() >= PATIENCE {
            return Err(unproved(&bad));
        }
        limit = most;
    }
}

/// Says which rows were refused while others were not, and ends those that were for long enough. Rows
/// were taken, so this neither fails nor takes long: what is not ended now is another time.
async fn end_hopeless<S: Sieve>(sieve: &S, memory: &PassedOver, bad: Vec<Bad>, began: Instant) {
    for Bad { row, reason } in bad {
        let id = row.id;
        if !memory.is_hopeless(id) || began.elapsed() >= PATIENCE {
            warn!(event.id = %id, error = reason, "a row that cannot be claimed is passed over");
            continue;
        }
        let text = format!("a statement fails because of this row: {reason}");
        match sieve.end(row, limits::truncate(&text, limits::ERROR_CHARS)).await {
            Ok(()) => {
                error!(event.id = %id, error = reason, "a row that cannot be claimed is dead");
            }
            Err(refused) => error!(
                event.id = %id, error = reason, refused = report(&refused),
                "a row that can neither be claimed nor ended is passed over"
            ),
        }
    }
}

/// A refusal, and the events it seems to come from.
#[derive(Debug, thiserror::Error)]
#[error("the database refuses a statement that claims {events}: {reason}")]
struct Unproved {
    events: String,
    reason: String,
}

fn unproved(bad: &[Bad]) -> StoreError {
    let named: Vec<_> = bad.iter().take(NAMED).map(|bad| bad.row.id.to_string()).collect();
    let mut events = named.join(", ");
    if bad.len() > NAMED {
        events.push_str(&format!(" and {} more", bad.len() - NAMED));
    }
    let reason = bad.first().map(|bad| bad.reason.clone()).unwrap_or_default();
    StoreError::Refused(Unproved { events, reason }.into())
}

#[cfg(test)]
mod tests;
