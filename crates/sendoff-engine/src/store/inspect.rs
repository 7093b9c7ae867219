//! What the engine asks of a store to look at rows without changing them.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::doctor::ForgetfulSetting;
use sendoff_core::order::is_in_line;
use sendoff_core::{Event, EventId, Status, Timestamp, WaitsFor};

use super::StoreError;

/// Looking without touching.
#[async_trait]
pub trait InspectStore: Send + Sync + 'static {
    /// Whether the tables are those of this version, with all their columns, and the database's user may
    /// do with them what delivering needs. Changes nothing. An outbox asks once, when it starts.
    ///
    /// # Errors
    ///
    /// [`NotInstalled`](StoreError::NotInstalled), [`Schema`](StoreError::Schema),
    /// [`NewerSchema`](StoreError::NewerSchema) and [`Rights`](StoreError::Rights) name what is
    /// missing and the remedy.
    async fn check_ready(&self) -> Result<(), StoreError>;

    /// One row.
    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError>;

    /// The first pending rows in the order of claims, up to `limit`, whether they are due, held or delayed.
    /// Takes nothing, and leaves out rows that are no events.
    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError>;

    /// How many rows there are in each status. Scans; for reports and tests, not for loops.
    async fn counts(&self) -> Result<Counts, StoreError>;

    /// How many events of each type there are in each status, in the order of the types.
    ///
    /// Never looks at delivered rows: pending ones are counted along their index, so it costs as
    /// much as there is backlog, and the terminal ones come from counters that settlements keep.
    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError>;

    /// How late delivery is, by the database's clock.
    ///
    /// A look at the first [`ROWS`](Lateness::ROWS) pending rows in the order of claims, held, waiting and
    /// retrying ones included.
    async fn lateness(&self) -> Result<Lateness, StoreError>;

    /// Settings under which a crash of the server takes back what it had committed; none where there is no
    /// server, or where what is written says for itself that it has to last.
    async fn forgetful(&self) -> Result<Vec<ForgetfulSetting>, StoreError> {
        Ok(Vec::new())
    }

    /// A time before which no pending row is due: when the first of them is, or now if that is earlier,
    /// or if there is none; by the database's clock.
    ///
    /// Asked where a claim could not step in time over what was claimed before. So it may take up to ten
    /// minutes, and holds nothing else of the store up.
    async fn first_due(&self) -> Result<Timestamp, StoreError>;
}

/// How late delivery is.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Lateness {
    /// How long ago the oldest undelivered event first became due, whoever has it and whatever it waits
    /// for; zero if there is none.
    pub oldest: Duration,
    /// Whether an older one may be among those that were not looked at.
    pub at_least: bool,
    /// How long the next event has been due that nobody has taken; zero if there is none.
    pub overdue: Duration,
}

impl Lateness {
    /// How many rows are looked at.
    pub const ROWS: u64 = 1_000;

    /// What a look says that saw so many rows. Times later than `now` are none that an event is late by.
    pub fn seen(
        rows: u64,
        first_due_at: Option<Timestamp>,
        due_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Self {
        let late = |at: Option<Timestamp>| at.map_or(Duration::ZERO, |at| now.since(at.min(now)));
        Self { oldest: late(first_due_at), at_least: rows >= Self::ROWS, overdue: late(due_at) }
    }
}

/// Since when an event waits without having failed itself.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Waiting {
    /// For its target, which was unavailable.
    pub for_target: Option<Timestamp>,
    /// For a node that has a handler for it.
    pub for_handler: Option<Timestamp>,
}

impl Waiting {
    /// What becomes of it where an event begins to wait now, or goes on waiting.
    #[must_use]
    pub fn begun(self, waits_for: WaitsFor, now: Timestamp) -> Self {
        match waits_for {
            WaitsFor::Target => {
                Self { for_target: self.for_target.or(Some(now)), for_handler: None }
            }
            WaitsFor::Handler => Self { for_handler: self.for_handler.or(Some(now)), ..self },
        }
    }
}

/// A row as it stands.
#[derive(Debug, Clone)]
pub struct Row {
    /// The event.
    pub event: Event,
    /// Where it stands.
    pub status: Status,
    /// Attempts counted so far.
    pub attempts: u32,
    /// Holders in a row who vanished with it.
    pub losses: u32,
    /// When it is due, or until when it is held; no time where it is [in line](Self::is_in_line).
    pub due_at: Timestamp,
    /// When it was created.
    pub created_at: Timestamp,
    /// When it ended: was done, or dead.
    pub done_at: Option<Timestamp>,
    /// The last error.
    pub last_error: Option<String>,
    /// Who holds it, or held it last.
    pub locked_by: Option<String>,
    /// Since when it waits, or had waited when it ended as dead.
    pub waiting: Waiting,
    /// When a delayed event first became due; none for others, which were when they were created.
    pub delayed_until: Option<Timestamp>,
}

impl Row {
    /// Whether it waits for its key, and is due at no time.
    pub fn is_in_line(&self) -> bool {
        self.status.is_pending() && is_in_line(self.due_at)
    }
}

/// Rows by status.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    /// Not yet tried.
    pub new: u64,
    /// Delivered and kept.
    pub done: u64,
    /// To be tried again.
    pub retry: u64,
    /// No more attempts.
    pub dead: u64,
}

impl Counts {
    /// Rows a delivery is owed for.
    pub fn pending(&self) -> u64 {
        self.new + self.retry
    }

    /// The counter of `status`.
    pub fn of(&mut self, status: Status) -> &mut u64 {
        match status {
            Status::New => &mut self.new,
            Status::Done => &mut self.done,
            Status::Retry => &mut self.retry,
            Status::Dead => &mut self.dead,
        }
    }
}

/// The events of one type, by status.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicCounts {
    /// The type.
    pub event_type: String,
    /// Rows that are pending now; and `done` and `dead` since the counters were made, whether or
    /// not their rows are still there.
    pub counts: Counts,
    /// How many of the pending rows somebody holds now.
    pub held: u64,
}
