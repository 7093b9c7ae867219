//! What the engine asks of a store to write what became of rows.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::order::AfterDead;
use sendoff_core::{EventId, Holding, Status, Timestamp, Token, WaitsFor};

use super::{ClaimStore, StoreError};

/// Finishing what this node holds. Every statement is fenced by what it is held by. A
/// [lock](Holding::Lock) proves nothing here: whose it is ends it by
/// [`LockedRows::commit`](super::LockedRows::commit), and any other statement about it is fenced.
#[async_trait]
pub trait SettleStore: ClaimStore {
    /// Carries out every settlement whose holding still matches a pending row, in one transaction, and
    /// says which. One that is neither applied nor busy was fenced: somebody else has the row, or it
    /// is terminal. Never waits for a row that somebody has locked (I11). Clears `locked_by`, and `losses` unless the row is released. What ends
    /// rows is counted by event type in the same transaction, for
    /// [`topics`](super::InspectStore::topics).
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError>;

    /// Pushes the due time of every row still held to `now + hold`, and returns the new tokens. One
    /// that is neither held nor busy was lost. Never waits for a row that somebody has locked (I11).
    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError>;

    /// Like [`extend`](Self::extend), for a row that somebody has locked: waits for its turn, for at most
    /// `patience`, so that the row is held again before a claim finds it free. [`Busy`](StoreError::Busy),
    /// or a row that is busy, where its turn did not come. Nothing else waits for it (I11): it goes over a
    /// connection of its own. A store in which nothing waits need not do that.
    async fn extend_in_turn(&self, turn: ExtendInTurn) -> Result<Extended, StoreError> {
        self.extend(&[turn.held], turn.hold).await
    }
}

/// A row that somebody has locked, and that is to be held on to.
#[derive(Debug, Clone, Copy)]
pub struct ExtendInTurn {
    /// Who holds it, and by what.
    pub held: Held,
    /// For how long, from when its turn comes.
    pub hold: Duration,
    /// How long its turn is waited for.
    pub patience: Duration,
}

/// What became of a batch of settlements. One that is in neither list was fenced.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Settled {
    /// Carried out.
    pub applied: Vec<EventId>,
    /// Not decided: somebody else has the row locked, and nothing about it was changed. Ask again.
    pub busy: Vec<EventId>,
}

/// What became of a batch of extensions. One that is in neither list was lost.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Extended {
    /// Held for longer, each by its new token.
    pub held: Vec<Held>,
    /// Not decided: somebody else has the row locked, and nothing about it was changed. Ask again.
    pub busy: Vec<EventId>,
}

/// An event, and what it is held by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Held {
    /// The event.
    pub id: EventId,
    /// The hold.
    pub by: Holding,
}

impl Held {
    /// An event whose row is held by this token.
    pub const fn row(id: EventId, token: Token) -> Self {
        Self { id, by: Holding::Row(token) }
    }
}

/// The end of a hold.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Settlement {
    /// What is held.
    pub held: Held,
    /// What became of it.
    pub outcome: Outcome,
}

/// What became of a held row.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// Delivered: DONE, or deleted where the store keeps nothing.
    Done,
    /// RETRY, due after `delay`.
    Retry {
        /// From now, by the database's clock.
        delay: Duration,
        /// The count to store.
        attempts: u32,
        /// What went wrong; at most [`ERROR_CHARS`](sendoff_core::limits::ERROR_CHARS) are kept.
        error: String,
    },
    /// RETRY, due after `delay`, and no attempt: the event waits. Since when it waits for this is kept,
    /// if it did not already; and what runs at all has a handler, so waiting for a target ends waiting for
    /// a handler. [`Done`](Self::Done) and [`Retry`](Self::Retry) end both.
    Wait {
        /// From now, by the database's clock.
        delay: Duration,
        /// What it waits for.
        waits_for: WaitsFor,
        /// The count to store.
        attempts: u32,
        /// What went wrong; at most [`ERROR_CHARS`](sendoff_core::limits::ERROR_CHARS) are kept.
        error: String,
    },
    /// DEAD.
    Dead {
        /// The count to store.
        attempts: u32,
        /// What went wrong; at most [`ERROR_CHARS`](sendoff_core::limits::ERROR_CHARS) are kept.
        error: String,
        /// What follows for its key, if it has one.
        then: AfterDead,
    },
    /// Released untouched: visible at once, status and attempts as they were.
    Released,
    /// Released as if it had never been claimed: due again exactly when it was, status and attempts
    /// as they are.
    Restored {
        /// When it was due: [`Claimed::was_due`](super::Claimed::was_due).
        due_at: Timestamp,
    },
}

impl Outcome {
    /// Dead, and its key is parked, if it has one.
    pub fn dead(attempts: u32, error: impl Into<String>) -> Self {
        Self::Dead { attempts, error: error.into(), then: AfterDead::Park }
    }

    /// Whether the events of its key that come after it may begin.
    pub const fn lets_others_follow(&self) -> bool {
        matches!(self, Self::Done | Self::Dead { then: AfterDead::Skip, .. })
    }

    /// Whether the row is released: it was not delivered, and nothing about it is counted.
    pub const fn is_released(&self) -> bool {
        matches!(self, Self::Released | Self::Restored { .. })
    }

    /// What went wrong, where something did.
    pub fn error(&self) -> Option<&str> {
        match self {
            Self::Retry { error, .. } | Self::Wait { error, .. } | Self::Dead { error, .. } => {
                Some(error)
            }
            Self::Done | Self::Released | Self::Restored { .. } => None,
        }
    }

    /// The status it ends a row with, if it does.
    pub const fn end(&self) -> Option<Status> {
        match self {
            Self::Done => Some(Status::Done),
            Self::Dead { .. } => Some(Status::Dead),
            Self::Retry { .. } | Self::Wait { .. } | Self::Released | Self::Restored { .. } => None,
        }
    }
}
