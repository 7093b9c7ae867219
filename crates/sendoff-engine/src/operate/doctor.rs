//! Finding out what the core's `checkup.rs` judges.

use sendoff_core::{LetterCount, LetterFilter, LetterOrder, OutboxCheckup, Undelivered};

use crate::store::{InspectStore, LetterPage, LetterStore, PauseStore, Row, StoreError};

/// Dead letters that are counted.
const COUNTED: usize = 10_000;
/// Pending events that are looked at for the one that is due for longest.
const LOOKED_AT: usize = 1_000;

/// What is asked of a store for a checkup.
pub trait CheckupStore: InspectStore + LetterStore + PauseStore {}

impl<S: InspectStore + LetterStore + PauseStore> CheckupStore for S {}

/// Finds out how an outbox is. Changes nothing, and every look at it is bounded.
pub async fn checkup(store: &dyn CheckupStore) -> Result<OutboxCheckup, StoreError> {
    let filter = LetterFilter::default();
    let newest = LetterPage {
        filter: &filter,
        order: LetterOrder::NewestFirst,
        after: None,
        until: None,
        limit: 1,
    };
    let all = LetterPage { limit: COUNTED + 1, ..newest };
    let (now, pending) = (store.clock().await?, store.peek(LOOKED_AT).await?);
    let at_least = pending.len() >= LOOKED_AT;
    let first_due = |row: &Row| row.delayed_until.unwrap_or(row.created_at);
    let oldest = pending.into_iter().filter(|row| first_due(row) <= now).min_by_key(first_due);
    let oldest = oldest.map(|row| Undelivered {
        id: row.event.id(),
        event_type: row.event.event_type().to_owned(),
        due_for: now.since(first_due(&row)),
        attempts: row.attempts,
        unavailable_since: row.waiting.for_target,
        unroutable_since: row.waiting.for_handler,
        held_by: row.locked_by.filter(|_| row.due_at > now),
        last_error: row.last_error,
    });
    Ok(OutboxCheckup {
        dead: LetterCount::found(store.count_letters(&all).await?, COUNTED as u64),
        newest_dead: store.letters(&newest).await?.pop(),
        oldest,
        at_least,
        pauses: store.pauses().await?,
        forgetful: store.forgetful().await?,
    })
}
