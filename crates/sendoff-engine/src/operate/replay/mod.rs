//! Replays: delivered events, handed once more to a handler that somebody chose for that.
//!
//! Promise: nothing is written, neither to the table nor to what is measured of the outbox. Not here: requeueing
//! (see the dead letters), which delivers through the outbox's own handlers.

mod chains;
mod options;
mod run;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{
    EventId, LetterCount, ReplayFilter, ReplayMark, ReplayPosition, Timestamp, limits,
};
use tokio::time::Instant;

pub use options::{OnReplayFailure, ReplayOptions, ReplayRefused};

use crate::sink::Handler;
use crate::store::{ReplayPage, ReplayStore, StoreError, within};
use crate::told::{Progress, told};

/// How long an answer of the database is waited for.
const ANSWER: Duration = Duration::from_secs(30);
/// Events that are counted unless somebody asks for more.
const COUNTED: u64 = 10_000;
/// How long is counted at most: a filter that few events meet looks at all of them.
const COUNTING: Duration = Duration::from_secs(10);
/// Failures that a report has room for; more are counted.
const FAILURES: usize = 100;

/// Delivered events, to be handed once more to a handler of the caller's, in order: those of one ordering key by
/// their numbers, one after the other; keys side by side; events without a key in the order in which they were
/// delivered.
///
/// Nothing is written: rows, counters and what is pending stay as they are, and the outbox's own handlers and
/// interceptors are not called. Each delivery [says](sendoff_core::Delivery::is_replay) that it is a replay. It is
/// at least once: one that goes on from a mark may repeat events that came after it.
///
/// It sees what was delivered before it began, and is still kept. What ends at that very moment may be left out;
/// who needs all of it gives [`done_to`](ReplayFilter::done_to). An event that was delivered after a later one of
/// its key (as a dead letter that was requeued while others went on) comes where it was delivered, and is
/// [counted](Replayed::late); only a store that walks by numbers (SQLite) knows it earlier.
///
/// ```
/// use sendoff_core::{Delivery, ReplayFilter};
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::{Outbox, ReplayOptions};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let outbox = Outbox::writer_only(MemoryStore::new());
/// let orders = ReplayFilter { event_type: Some("order.placed".into()), ..ReplayFilter::default() };
/// let replay = outbox.replay(orders, ReplayOptions::default())?;
/// println!("{} events", replay.dry_run().await?);
///
/// let replayed = replay
///     .on_progress(|so_far| println!("{} so far", so_far.delivered))
///     .run(|delivery: Delivery| async move {
///         assert!(delivery.is_replay());
///         Ok(()) // into the new read model
///     })
///     .await?;
/// assert!(replayed.finished);
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
#[must_use = "nothing is done before `run`"]
pub struct Replay {
    store: Arc<dyn ReplayStore>,
    filter: ReplayFilter,
    options: ReplayOptions,
    progress: Progress<Replayed>,
}

/// What a replay did.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Events that the handler took.
    pub delivered: u64,
    /// Events that it did not take, and that were [skipped](OnReplayFailure::Skip).
    pub skipped: u64,
    /// Events whose rows somebody changed since, and which cannot be read any more.
    pub unreadable: u64,
    /// Events that came after a later one of their key, as far as that is remembered: for ten thousand keys.
    pub late: u64,
    /// The first hundred of those that were skipped.
    pub failures: Vec<ReplayFailure>,
    /// How far it came: another one [goes on](ReplayOptions::from) from here. None where nothing was read.
    pub mark: Option<ReplayMark>,
    /// Whether it came to the end, and was neither told to stop nor stopped by its limit before that.
    pub finished: bool,
}

impl Replayed {
    /// Events that are over, one way or the other.
    pub const fn over(&self) -> u64 {
        self.delivered + self.skipped + self.unreadable
    }
}

/// An event that a replay's handler did not take.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("event {id} failed after {attempts} attempts: {error}")]
pub struct ReplayFailure {
    /// The event.
    pub id: EventId,
    /// Its place among the others.
    pub position: ReplayPosition,
    /// How often it was tried.
    pub attempts: u32,
    /// The last error.
    pub error: String,
}

/// Why a replay ended before its end.
#[derive(Debug, thiserror::Error)]
#[error("the replay ended after {} events", so_far.over())]
pub struct ReplayError {
    /// What it had done by then.
    pub so_far: Box<Replayed>,
    /// What went wrong.
    pub source: ReplayFault,
}

/// What went wrong.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReplayFault {
    /// The database did not answer, or refused.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The handler did not take an event.
    #[error(transparent)]
    Handler(#[from] ReplayFailure),
}

impl Replay {
    /// A replay of what a store keeps.
    ///
    /// # Errors
    ///
    /// [`NothingKept`](ReplayRefused::NothingKept) where delivered events are deleted.
    pub fn new(
        store: Arc<dyn ReplayStore>,
        filter: ReplayFilter,
        options: ReplayOptions,
    ) -> Result<Self, ReplayRefused> {
        filter.check()?;
        options.validate()?;
        if store.keeps().is_none() {
            return Err(ReplayRefused::NothingKept);
        }
        Ok(Self { store, filter, options, progress: Progress::NOBODY })
    }

    /// Tells `progress` after every event.
    pub fn on_progress(mut self, progress: impl Fn(&Replayed) + Send + Sync + 'static) -> Self {
        self.progress = Progress::to(progress);
        self
    }

    /// How many events it would replay, counted up to 10,000; changes and delivers nothing.
    pub async fn dry_run(&self) -> Result<LetterCount, StoreError> {
        self.dry_run_up_to(COUNTED).await
    }

    /// The same, counted up to `most`, and for ten seconds at most.
    pub async fn dry_run_up_to(&self, most: u64) -> Result<LetterCount, StoreError> {
        let begun = Instant::now();
        let until = self.until().await?;
        let (mut after, mut found) = (self.options.from.map(|mark| mark.after), 0);
        loop {
            let page = self.page(after, until);
            let tally = within(ANSWER, self.store.count_replayable(&page)).await?;
            found += tally.events;
            if tally.next.is_none() || found > most {
                return Ok(LetterCount::found(found, most));
            }
            if begun.elapsed() >= COUNTING {
                return Ok(LetterCount::AtLeast(found));
            }
            after = tally.next;
        }
    }

    /// Replays to the end.
    ///
    /// Dropped half-way, nothing has to be undone; what [progress](Self::on_progress) was told last is where to go
    /// on.
    pub async fn run(&self, handler: impl Handler) -> Result<Replayed, ReplayError> {
        self.run_until(handler, std::future::pending()).await
    }

    /// Like [`run`](Self::run), and ends when `stop` is ready, once the runs that are under way are over; what it
    /// answers tells how far it came.
    pub async fn run_until(
        &self,
        handler: impl Handler,
        stop: impl Future<Output = ()>,
    ) -> Result<Replayed, ReplayError> {
        told(stop, |cancel| run::run(self, handler, cancel)).await
    }

    /// Up to when delivered events are replayed.
    async fn until(&self) -> Result<Timestamp, StoreError> {
        match self.options.from {
            Some(mark) => Ok(mark.until),
            None => within(ANSWER, self.store.clock()).await,
        }
    }

    fn page(&self, after: Option<ReplayPosition>, until: Timestamp) -> ReplayPage<'_> {
        let (rows, bytes) = (self.options.page, limits::READ_BYTES);
        ReplayPage { filter: &self.filter, after, until, rows, bytes }
    }
}

impl fmt::Debug for Replay {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Replay")
            .field("filter", &self.filter)
            .field("options", &self.options)
            .finish_non_exhaustive()
    }
}
