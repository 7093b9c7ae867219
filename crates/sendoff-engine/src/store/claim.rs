//! What the engine asks of a store to take rows and to keep them.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::fair::Share;
use sendoff_core::{Attempt, Event, EventId, Holding, Timestamp, Undecodable, Waited};

use super::{Except, Held, StoreError, Waiting};

/// Taking rows into this node's hands.
#[async_trait]
pub trait ClaimStore: Send + Sync + 'static {
    /// Holds up to `claim.limit` visible rows, oldest due first, and returns them; [by
    /// tenants](Claim::shares) where that is asked for.
    ///
    /// Two claims never return the same row while its hold lasts. A visible row whose `locked_by` is
    /// set to somebody else was lost by a holder who vanished: its `attempts` and its `losses` go up
    /// by one, in the same statement, and [`Claimed::lost`] says so. A row with an
    /// ordering key that is due by itself is claimed as any other; the engine releases it, and then it is in
    /// line, where a store [keeps order](super::KeyStore).
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError>;

    /// Which of these rows exist, committed, pending and still held by that very token.
    ///
    /// This is how events of a transaction we did not commit ourselves are proved before they are
    /// delivered from memory; no payload is read.
    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError>;

    /// Puts rows right that a clock which has since stepped back left in the future, and returns how
    /// many there were. May scan; called at start and rarely afterwards. Up to
    /// [`BATCH_ROWS`](sendoff_core::limits::BATCH_ROWS) rows in one call, so that each is short: whoever
    /// gets so many back asks again. Rows that somebody has locked are left for another time.
    ///
    /// Only what no hold and no delay explains, among pending rows, by the database's clock:
    ///
    /// - Held (`locked_by` is set) and due further ahead than `longest`: due now. The holder stays on
    ///   record, so that its loss is counted.
    /// - Not held, created more than [a second](RESCUE_SLACK) in the future, and due no earlier than
    ///   that: it was written while the clock was ahead. `created_at` becomes now, and `due_at` moves
    ///   back by the same distance, so that a delay lasts as long as it was asked for, and a second
    ///   call finds nothing to move. In the order of their due times.
    /// - Not held, and due further ahead than [any delay](sendoff_core::limits::DELAY): due now.
    ///
    /// A row of the past that was put off while the clock was ahead cannot be told from one with a
    /// long delay, and waits.
    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError>;

    /// Whether [`tenants`](Self::tenants) and [`Claim::shares`] can be asked for, here and now: a look at what
    /// they need, made where an outbox or a relay with [fair claims](crate::OutboxOptions::fair) starts. The
    /// stores that come with Sendoff need an index, which their migrations make where the option
    /// `tenant_index` says so (`sendoff migrate --fair`).
    ///
    /// # Errors
    ///
    /// [`Schema`](StoreError::Schema) where that is missing, with what to do. A store that shares no claims takes
    /// the default, which is [`Misconfigured`](StoreError::Misconfigured).
    async fn check_fair(&self) -> Result<(), StoreError> {
        let reason =
            "this store cannot share claims among tenants: leave `fair` out of the options";
        Err(StoreError::Misconfigured { reason: reason.to_owned() })
    }

    /// The next tenants that have a visible row, by the order of their names' bytes; events without a tenant
    /// are one that is named [`NO_TENANT`](sendoff_core::fair::NO_TENANT). From the one after `walk.after` on,
    /// and after the last from the first one, up to `walk.after` itself. Locks nothing.
    ///
    /// Walks over tenants by steps in an index, however many rows each has, and over no more than
    /// [`TENANTS_WALKED`](sendoff_core::limits::TENANTS_WALKED), of which some may have nothing that is visible.
    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        let _ = walk;
        Ok(TenantsFound::default())
    }

    /// A number that changes when a link to the database was lost, as soon as the store knows it.
    ///
    /// A transaction whose commit was answered before may be gone then: a standby that never got it
    /// may have been promoted. So events that wait in memory are [confirmed](Self::confirm) again
    /// before they run. A counter will do: it goes up when an open connection of the store's own turns
    /// out to be broken, or is given up because a statement was not answered; not when one is opened
    /// for the first time or closed on purpose. Asked for every delivery from memory, so it must cost
    /// nothing. A store that has no link to lose takes the default.
    fn epoch(&self) -> u64 {
        0
    }
}

/// How far ahead a row may have been created without being [rescued](ClaimStore::rescue): clocks of
/// two statements differ a little, and what is due so soon need not be helped.
pub const RESCUE_SLACK: Duration = Duration::from_secs(1);

/// What to claim.
#[derive(Debug, Clone, Copy)]
pub struct Claim<'a> {
    /// Who will hold the rows.
    pub owner: &'a str,
    /// At most so many.
    pub limit: usize,
    /// At most so many bytes of payloads and headers, decided by the database before anything is
    /// sent; but always one row, however large.
    pub bytes: usize,
    /// How long the hold lasts without an extension.
    pub hold: Duration,
    /// Leave rows younger than this alone.
    pub skip_recent: Duration,
    /// Only rows created within it: a hint that lets a partitioned table leave old partitions
    /// unread. It hides older rows, so whoever gives one must look without it as well, whenever a
    /// claim with it is not full and every few times besides.
    pub window: Option<Duration>,
    /// Only rows due at this time or later: a hint that spares the database a walk over what was
    /// claimed before. It hides rows that became visible late, so whoever gives one must look
    /// without it as well, every so often.
    pub from: Option<Timestamp>,
    /// No rows of these, to which nothing is done.
    pub except: Except<'a>,
    /// Which rows.
    pub suspects: Suspects,
    /// Only rows of these tenants, of each no more than its share; where bytes run out, the first row of each
    /// comes before the second of any, in this order. Empty for rows of whomever, which is the usual.
    /// With any other value than [`Suspects::Skip`] it is not asked for.
    pub shares: &'a [Share],
}

/// Which tenants to look at.
#[derive(Debug, Clone, Copy)]
pub struct TenantWalk<'a> {
    /// The one before the first.
    pub after: &'a str,
    /// At most so many that have a visible row.
    pub limit: usize,
}

/// What a walk over tenants found.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TenantsFound {
    /// Those that have a visible row, in the order of the walk.
    pub waiting: Vec<String>,
    /// The last one that was looked at, visible rows or not; none if there is none with a pending row.
    pub last: Option<String>,
}

/// The events of one type about one kind of aggregate.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct EventKind<'a> {
    /// The kind of aggregate; [`GLOBAL_AGGREGATE`](sendoff_core::GLOBAL_AGGREGATE) for none.
    pub aggregate_type: &'a str,
    /// The type.
    pub event_type: &'a str,
}

impl<'a> From<&'a (String, String)> for EventKind<'a> {
    fn from((aggregate_type, event_type): &'a (String, String)) -> Self {
        Self { aggregate_type, event_type }
    }
}

impl<'a> EventKind<'a> {
    /// What an event is one of.
    pub fn of(event: &'a Event) -> Self {
        Self { aggregate_type: event.aggregate_type(), event_type: event.event_type() }
    }
}

impl<'a> Claim<'a> {
    /// Up to `limit` rows for `owner`, of any age and size, suspects left out.
    pub const fn new(owner: &'a str, limit: usize, hold: Duration) -> Self {
        Self {
            owner,
            limit,
            bytes: usize::MAX,
            hold,
            skip_recent: Duration::ZERO,
            window: None,
            from: None,
            except: Except::NOTHING,
            suspects: Suspects::Skip,
            shares: &[],
        }
    }
}

/// A suspect was lost [at least twice](sendoff_core::limits::SUSPECT_LOSSES) since it was last settled
/// other than by a release, the loss that this claim counts included.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Suspects {
    /// Every visible row but suspects.
    Skip,
    /// Suspects only.
    Only,
}

/// What a claim took.
#[derive(Debug, Default)]
pub struct Claims {
    /// The rows, oldest due first.
    pub rows: Vec<Claimed>,
    /// Whether fewer were taken than could be, because one of them made the statement fail: there may be
    /// more, however few these are.
    pub cut: bool,
}

impl From<Vec<Claimed>> for Claims {
    fn from(rows: Vec<Claimed>) -> Self {
        Self { rows, cut: false }
    }
}

/// A claimed row.
#[derive(Debug)]
pub struct Claimed {
    /// Its event's id.
    pub id: EventId,
    /// What it is held by: a [token](Holding::Row) where it was claimed, a [lock](Holding::Lock) where a
    /// transaction took it, its [key](Holding::Key) where that is held.
    pub by: Holding,
    /// Its stored attempts, with a loss already counted.
    pub attempts: u32,
    /// When it was due before it was claimed; what [`Outcome::Restored`](super::Outcome::Restored)
    /// puts back.
    pub was_due: Timestamp,
    /// Whether its last holder vanished.
    pub lost: bool,
    /// When it was created, by the database's clock.
    pub created_at: Timestamp,
    /// When it was claimed, by the database's clock.
    pub claimed_at: Timestamp,
    /// Since when it waits, if it does.
    pub waiting: Waiting,
    /// The event, or why the row is none.
    pub event: Result<Event, Undecodable>,
}

impl Claimed {
    /// What a delivery of it is settled by.
    pub const fn held(&self) -> Held {
        Held { id: self.id, by: self.by }
    }

    /// For how long it has waited.
    pub fn waited(&self) -> Waited {
        let until_now = |since: Option<Timestamp>| {
            since.map(|since| self.claimed_at.since(since)).unwrap_or_default()
        };
        let Waiting { for_target, for_handler } = self.waiting;
        Waited { for_target: until_now(for_target), for_handler: until_now(for_handler) }
    }

    /// The run this claim is for.
    pub fn attempt(&self) -> Attempt {
        if self.lost { Attempt::after_loss(self.attempts) } else { Attempt::next(self.attempts) }
    }

    /// Whether it will be run: it can be read, and holders who vanished have not used its attempts up.
    pub(crate) fn can_run(&self, max_attempts: u32) -> bool {
        self.event.is_ok() && !self.attempt().is_exhausted(max_attempts)
    }
}
