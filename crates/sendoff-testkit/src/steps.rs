//! What tests do with a store, step by step.

#![allow(clippy::missing_panics_doc, reason = "a step that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a step that cannot unwrap says less, not more")]

use std::time::Duration;

use sendoff_core::{Event, Holding, Token};
use sendoff_engine::capture::{CommitError, WriteError};
use sendoff_engine::store::{
    Birth, Claim, ClaimStore, Claimed, Held, NewRow, Outcome, SettleStore, Settlement,
};

/// Any event.
pub fn event() -> Event {
    Event::json_text("order.placed", "{}").unwrap()
}

/// Its row, which is due at once.
pub fn due(event: Event) -> NewRow {
    NewRow { event, birth: Birth::Due }
}

/// One with so large a payload.
pub fn sized(bytes: usize) -> NewRow {
    due(Event::builder("t").bytes(vec![0; bytes]).build().unwrap())
}

/// A claim of all there is.
pub fn by(owner: &str) -> Claim<'_> {
    Claim::new(owner, 1_000, Duration::from_secs(30))
}

/// Claims all there is.
pub async fn claim(store: &impl ClaimStore, owner: &str) -> Vec<Claimed> {
    store.claim(&by(owner)).await.unwrap().rows
}

/// The hold of a row that was claimed.
pub fn hold_of(claimed: &Claimed) -> Held {
    claimed.held()
}

/// The token that a row is held by.
pub fn token_of(held: &Held) -> Token {
    match held.by {
        Holding::Row(token) => token,
        Holding::Lock => panic!("{} is held by a lock, not by a token", held.id),
    }
}

/// Settles a row, and says whether that changed it.
pub async fn settle_one(store: &impl SettleStore, held: Held, outcome: Outcome) -> bool {
    !store.settle(&[Settlement { held, outcome }]).await.unwrap().applied.is_empty()
}

/// Why a write was refused.
pub fn refusal(error: CommitError) -> WriteError {
    match error {
        CommitError::Refused(refused) => refused,
        other => WriteError::Driver(other.into()),
    }
}
