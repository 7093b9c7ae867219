//! Finding out what the core's `checkup.rs` judges.

use sendoff_core::{LetterCount, LetterFilter, LetterOrder, OutboxCheckup, Undelivered, limits};

use crate::store::{
    InspectStore, KeyPage, LetterPage, LetterStore, ParkStore, PauseStore, Row, StoreError,
};

/// Dead letters that are counted.
const COUNTED: usize = 10_000;
/// Pending events that are looked at for the one that is due for longest.
const LOOKED_AT: usize = 1_000;

/// What is asked of a store for a checkup.
pub trait CheckupStore: InspectStore + LetterStore + ParkStore + PauseStore {}

impl<S: InspectStore + LetterStore + ParkStore + PauseStore> CheckupStore for S {}

/// Finds out how an outbox is. Changes nothing, and every look at it is bounded.
pub async fn checkup(store: &dyn CheckupStore) -> Result<OutboxCheckup, StoreError> {
    let filter = LetterFilter::default();
    let newest = LetterPage { order: LetterOrder::NewestFirst, ..LetterPage::first(&filter, 1) };
    let all = LetterPage { limit: COUNTED + 1, ..newest };
    let (now, pending) = (store.clock().await?, store.peek(LOOKED_AT).await?);
    let at_least = pending.len() >= LOOKED_AT;
    let first_due = |row: &Row| row.delayed_until.unwrap_or(row.created_at);
    let oldest = pending.into_iter().filter(|row| first_due(row) <= now).min_by_key(first_due);
    let key = match oldest.as_ref().and_then(|row| row.event.ordering_key()) {
        Some(key) => Some(store.key_standing(key).await?),
        None => None,
    };
    let pauses = store.pauses().await?;
    let oldest = oldest.map(|row| Undelivered {
        id: row.event.id(),
        event_type: row.event.event_type().to_owned(),
        due_for: now.since(first_due(&row)),
        attempts: row.attempts,
        unavailable_since: row.waiting.for_target,
        unroutable_since: row.waiting.for_handler,
        held_by: row.locked_by.filter(|_| row.due_at > now),
        last_error: row.last_error,
        key,
        paused: None,
        perhaps_paused: None,
    });
    let oldest = oldest.map(|oldest| oldest.beside(&pauses));
    let most = limits::PARKED_KEYS;
    let parked = LetterCount::found(store.count_parked(most + 1).await?, most as u64);
    let first_parked = match parked.counted() {
        0 => None,
        _ => store.parked_keys(&KeyPage { after: None, limit: 1 }).await?.pop(),
    };
    Ok(OutboxCheckup {
        dead: LetterCount::found(store.count_letters(&all).await?, COUNTED as u64),
        newest_dead: store.letters(&newest).await?.pop(),
        oldest,
        at_least,
        parked,
        first_parked,
        pauses,
        forgetful: store.forgetful().await?,
    })
}
