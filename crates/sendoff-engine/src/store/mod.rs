//! What the engine asks of a database, cut by role.
//!
//! A store joins by passing the testkit's conformance suite. Its contract in one paragraph: a row is
//! *pending* while its status is NEW or RETRY, *visible* while it is pending and its due time has
//! come by the database's clock, and *held* by whoever last pushed that due time ahead; the value
//! pushed is the [`Token`], and every later statement about the row names it. A statement that names
//! a stale token changes nothing and says so.

mod claim;
mod contact;
mod delegate;
mod end;
mod error;
mod except;
pub mod frame;
mod inspect;
mod keys;
mod letters;
mod lock;
mod park;
mod partition;
mod pause;
mod register;
mod replay;
mod retain;
mod retention;
mod send;
mod settle;
mod sift;
mod wake;

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Event, Timestamp, Token};

pub use claim::{
    Claim, ClaimStore, Claimed, Claims, EventKind, RESCUE_SLACK, Suspects, TenantWalk, TenantsFound,
};
pub(crate) use contact::{Contact, check_ready, contact_at_start, first_contact};
pub use delegate::Delegates;
pub use end::{EndStore, Horizon, Standing};
pub use error::StoreError;
pub(crate) use error::{Answer, within};
pub use except::Except;
pub use inspect::{Counts, InspectStore, Lateness, Row, TopicCounts, Waiting};
pub use keys::{
    Confirmed, ExtendKeys, ExtendedKeys, HeldKey, KeyRun, KeyStore, RunEnd, RunsWanted,
    SettledRuns, TakeKeys, TakenKey, TakenKeys, WalkFrom, Walked, Window,
};
pub use letters::{
    AuditEntry, AuditPage, ChangeLetters, EventRecord, LetterPage, LetterStore, PayloadWanted,
};
pub use lock::{Lock, LockStore, LockedRows};
pub use park::{KeyPage, ParkStore, ResumeKey};
pub use partition::{Bounds, Created, Dropped, PartitionSession, PartitionStore};
pub(crate) use pause::paused;
pub use pause::{PAUSE_LOOK, PAUSES_READ, PauseStore, read_pauses};
pub use register::{ANY, REGISTERED, RegisterStore, Registered};
pub use replay::{DoneRow, ReplayPage, ReplayStore, ReplayTally, Replayable};
pub use retain::{Cutoff, Purge, Purged, RetainStore, Trail};
pub use retention::{Layout, Payloads, Retention};
pub use send::SendStore;
pub use settle::{ExtendInTurn, Extended, Held, Outcome, SettleStore, Settled, Settlement};
pub use sift::{Look, PassedOver, Sieve, Sifted, Take, Visible, Which, sift, sift_claim};
pub use wake::WakeStore;

/// Everything the engine asks of a store.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no store of events",
    label = "an outbox needs a store",
    note = "a store is a `PostgresStore` (feature `postgres` of `sendoff`), a `MysqlStore` (`mysql`) or an `SqliteStore` (`sqlite`), not the pool or connection of a driver: `PostgresStore::connect(url).await?`",
    note = "for tests there is `sendoff::memory::MemoryStore`"
)]
pub trait OutboxStore:
    ClaimStore
    + SettleStore
    + WakeStore
    + InspectStore
    + RetainStore
    + LetterStore
    + PauseStore
    + RegisterStore
    + KeyStore
    + ParkStore
    + EndStore
    + ReplayStore
{
}

impl<S> OutboxStore for S where
    S: ClaimStore
        + SettleStore
        + WakeStore
        + InspectStore
        + RetainStore
        + LetterStore
        + PauseStore
        + RegisterStore
        + KeyStore
        + ParkStore
        + EndStore
        + ReplayStore
{
}

/// A row about to be inserted.
#[derive(Debug, Clone)]
pub struct NewRow {
    /// What was written.
    pub event: Event,
    /// How the row begins.
    pub birth: Birth,
}

/// How a row begins.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Birth {
    /// Due after the event's own delay, for any poller.
    Due,
    /// Held by the writer, who means to deliver it from memory: `due_at = now + grace`,
    /// `locked_by = owner`. No poller sees it until the grace is over.
    Held {
        /// Who holds it.
        owner: Arc<str>,
        /// For how long.
        grace: Duration,
    },
}

/// What the database made of an inserted row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Born {
    /// When it was created, by the database's clock.
    pub created_at: Timestamp,
    /// The hold, where it was born held.
    pub token: Option<Token>,
}
