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
use super::{Claim, Claims, Except, Lock, StoreError, Suspects};

/// How long one claim looks for rows that refuse. What it found is passed over by the next one, which
/// goes on after it.
const PATIENCE: Duration = Duration::from_secs(1);
/// Events that an error names.
const NAMED: usize = 10;

/// A statement that takes rows of a store.
pub trait Take<S>: Sync {
    /// What it takes.
    type Taken: Send;

    /// Takes up to `limit` rows, and none of those that are passed over; `None` if there are none.
    fn take(
        &self,
        store: &S,
        limit: usize,
        passed: &[EventId],
    ) -> impl Future<Output = Result<Option<Self::Taken>, StoreError>> + Send;
}

/// What a store needs to find the row that a statement fails at.
pub trait Sieve: Sync {
    /// Rows that failed before.
    fn passed_over(&self) -> &PassedOver;

    /// The row that a statement would take first that looks at these.
    fn first(
        &self,
        look: &Look<'_>,
    ) -> impl Future<Output = Result<Option<Visible>, StoreError>> + Send;

    /// Makes a row dead, if it is pending and due when it was.
    fn end(&self, row: Visible, error: &str)
    -> impl Future<Output = Result<(), StoreError>> + Send;

    /// Whether one row of many may be the cause of a refusal: data, constraints, triggers, damage.
    fn is_of_a_row(refusal: &BoxError) -> bool;
}

/// What a claim or a lock looks at.
#[derive(Debug, Clone, Copy)]
pub struct Look<'a> {
    /// Who claims; nobody, for a lock.
    pub owner: &'a str,
    /// As [`Claim::skip_recent`].
    pub skip_recent: Duration,
    /// As [`Claim::window`].
    pub window: Option<Duration>,
    /// As [`Claim::from`].
    pub from: Option<Timestamp>,
    /// As [`Claim::except`].
    pub except: Except<'a>,
    /// Which of the visible rows.
    pub which: Which,
    /// None of these, which are passed over.
    pub passed: &'a [EventId],
}

/// Which of the visible rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Which {
    /// All of them.
    Any = 0,
    /// Those that may run beside others.
    Company = 1,
    /// Suspects.
    Suspects = 2,
}

impl<'a> From<&Claim<'a>> for Look<'a> {
    fn from(claim: &Claim<'a>) -> Self {
        let Claim { owner, skip_recent, window, from, except, suspects, .. } = *claim;
        let which = match suspects {
            Suspects::Skip => Which::Company,
            Suspects::Only => Which::Suspects,
        };
        Self { owner, skip_recent, window, from, except, which, passed: &[] }
    }
}

impl<'a> From<&Lock<'a>> for Look<'a> {
    fn from(lock: &Lock<'a>) -> Self {
        let Lock { skip_recent, window, from, except, .. } = *lock;
        let (owner, which) = ("", Which::Any);
        Self { owner, skip_recent, window, from, except, which, passed: &[] }
    }
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
pub async fn sift<S: Sieve, T: Take<S>>(
    sieve: &S,
    look: &Look<'_>,
    statement: &T,
    most: usize,
) -> Result<Option<Sifted<T::Taken>>, StoreError> {
    let (began, memory) = (Instant::now(), sieve.passed_over());
    let mut passed = memory.ids(began);
    let mut bad = Vec::new();
    let mut limit = most;
    loop {
        let refusal = match statement.take(sieve, limit, &passed).await {
            Err(StoreError::Refused(reason)) if S::is_of_a_row(&reason) => reason,
            Ok(Some(taken)) => {
                if !passed.is_empty() {
                    memory.others_pass();
                    end_hopeless(sieve, bad, began).await;
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
        let Some(row) = sieve.first(&Look { passed: &passed, ..*look }).await? else {
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

/// A claim of up to a batch, whichever of the other rows refuse.
///
/// # Errors
/// As [`sift`].
pub async fn sift_claim<'c, S: Sieve>(sieve: &S, claim: &Claim<'c>) -> Result<Claims, StoreError>
where
    Claim<'c>: Take<S, Taken: Into<Claims>>,
{
    let limit = claim.limit.min(limits::BATCH_ROWS);
    if limit == 0 {
        return Ok(Claims::default());
    }
    let sifted = sift(sieve, &Look::from(claim), claim, limit).await?;
    Ok(sifted.map_or_else(Claims::default, |Sifted { taken, cut }| {
        let claims: Claims = taken.into();
        Claims { cut: claims.cut || cut, ..claims }
    }))
}

/// Says which rows were refused while others were not, and ends those that were for long enough. Rows
/// were taken, so this neither fails nor takes long: what is not ended now is another time.
async fn end_hopeless<S: Sieve>(sieve: &S, bad: Vec<Bad>, began: Instant) {
    let memory = sieve.passed_over();
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
