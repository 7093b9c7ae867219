//! Waiting until events are over.
//!
//! Whoever waits here is told by the settlements of this process. Another node may have the event, so its row
//! is looked at as well, a moment later and then less and less often; one look serves all who wait.

mod barrier;
mod together;

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{AuditAction, EventId, Status, limits};
use tokio::sync::watch;
use tokio::time::error::Elapsed;
use tokio::time::{Instant, sleep_until, timeout_at};

pub use barrier::CaughtUp;
pub(crate) use together::Together;

use crate::lock::lock;
use crate::store::{
    Answer, AuditPage, Horizon, OutboxStore, Outcome, Standing, StoreError, within,
};

/// When a row is looked at for the first time: what is delivered here is over by then, as a rule.
const FIRST_LOOK: Duration = Duration::from_millis(50);
/// The longest time between two looks; each is twice as long as the one before.
const RAREST_LOOKS: Duration = Duration::from_secs(1);
/// How long an answer of the database is waited for.
const ANSWER: Duration = Duration::from_secs(10);
/// What the last look, which begins when the time is over, may take.
const LAST_WORDS: Duration = Duration::from_secs(1);
/// Events that are waited for at one time.
const EVENTS: usize = 10_000;
/// Events remembered as committed, where delivered ones are deleted.
const REMEMBERED: usize = 10_000;

/// What became of an event that was waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Awaited {
    /// It was delivered: its handler took it, and that is stored.
    Delivered,
    /// It is a dead letter, or was one and an operator discarded it.
    Dead {
        /// Its last error.
        error: String,
    },
    /// It is not over yet. It is there, and will be delivered, or die, later.
    TimedOut,
    /// No row of it was seen in all the time, and nothing here proves that there ever was one: its transaction
    /// is still open or was rolled back, or it was delivered and deleted before anybody looked.
    NotSeen,
}

impl Awaited {
    /// Whether it was delivered.
    pub fn is_delivered(&self) -> bool {
        matches!(self, Self::Delivered)
    }
}

/// Why nobody could wait.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AwaitError {
    /// Too much is waited for already.
    #[error("{limit} events are waited for, which is the limit")]
    TooMany {
        /// How many may be.
        limit: usize,
    },
    /// The database refused to say. One that is unavailable is asked again until the time is over.
    #[error(transparent)]
    Store(#[from] Arc<StoreError>),
}

/// How an event ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum End {
    Done,
    Dead(String),
}

impl From<End> for Awaited {
    fn from(end: End) -> Self {
        match end {
            End::Done => Self::Delivered,
            End::Dead(error) => Self::Dead { error },
        }
    }
}

/// All who wait in one process, and what they are told.
pub(crate) struct Waiters {
    store: Arc<dyn OutboxStore>,
    waiting: Mutex<HashMap<EventId, watch::Sender<Option<End>>>>,
    /// How many events that are, to be asked without the lock: nearly always none.
    count: AtomicUsize,
    /// Only where delivered rows are deleted: elsewhere they are still there.
    committed: Option<Mutex<Lately>>,
    looks: Arc<Together<EventId, SharedAnswer<Standings>>>,
    horizons: Arc<Together<(), SharedAnswer<Option<Horizon>>>>,
}

/// An answer of the database, for all who asked.
pub(crate) type SharedAnswer<T> = Result<Arc<T>, Arc<StoreError>>;

/// How events stand, as one look saw it.
type Standings = HashMap<EventId, Standing>;

impl Waiters {
    pub(crate) fn new(store: Arc<dyn OutboxStore>) -> Arc<Self> {
        let committed = store.keeps().is_none().then(Mutex::default);
        let (waiting, count) = (Mutex::default(), AtomicUsize::new(0));
        let (looks, horizons) = Default::default();
        Arc::new(Self { store, waiting, count, committed, looks, horizons })
    }

    /// These were committed, and that is proved.
    pub(crate) fn committed(&self, ids: impl IntoIterator<Item = EventId>) {
        if let Some(committed) = &self.committed {
            let mut committed = lock(committed);
            ids.into_iter().for_each(|id| committed.add(id));
        }
    }

    fn is_committed(&self, id: EventId) -> bool {
        self.committed.as_ref().is_some_and(|committed| lock(committed).has(id))
    }

    /// This settlement was carried out.
    pub(crate) fn settled(&self, id: EventId, outcome: &Outcome) {
        let end = match outcome {
            Outcome::Done => End::Done,
            Outcome::Dead { error, .. } => {
                End::Dead(limits::truncate(error, limits::ERROR_CHARS).to_owned())
            }
            _ => return,
        };
        self.committed([id]);
        if self.count.load(Ordering::SeqCst) > 0
            && let Some(waiting) = lock(&self.waiting).get(&id)
        {
            waiting.send_replace(Some(end));
        }
    }

    /// Begins to wait for an event: from now on no settlement of it is missed.
    pub(crate) fn enter(&self, id: EventId) -> Result<Waiter<'_>, AwaitError> {
        let mut waiting = lock(&self.waiting);
        if waiting.len() >= EVENTS && !waiting.contains_key(&id) {
            return Err(AwaitError::TooMany { limit: EVENTS });
        }
        let told = waiting.entry(id).or_insert_with(|| watch::Sender::new(None)).subscribe();
        self.count.store(waiting.len(), Ordering::SeqCst);
        Ok(Waiter { waiters: self, id, told })
    }

    /// Waits until an event is over.
    pub(crate) async fn delivered(
        &self,
        id: EventId,
        timeout: Duration,
    ) -> Result<Awaited, AwaitError> {
        self.enter(id)?.over_within(timeout).await
    }

    /// How events stand, by a look that begins after this call; `None` where there was no answer.
    async fn look(
        &self,
        ids: impl IntoIterator<Item = EventId>,
        until: Instant,
    ) -> Result<Option<Arc<Standings>>, AwaitError> {
        let store = Arc::clone(&self.store);
        passed(timeout_at(until, self.looks.ask(ids, |ids| standings(store, ids))).await)
    }

    /// What became of a row that was there, and is gone: it was delivered, unless an operator discarded it.
    async fn gone(&self, id: EventId, until: Instant) -> Result<Option<End>, AwaitError> {
        let page = AuditPage { event: Some(id), before: None, limit: 1 };
        let entries = answered(until, within(ANSWER, self.store.audit(&page))).await?;
        Ok(entries.map(|entries| {
            let last = entries.into_iter().next();
            let discarded = last.filter(|entry| entry.action == AuditAction::Discard);
            discarded.map_or(End::Done, |entry| End::Dead(entry.last_error.unwrap_or_default()))
        }))
    }

    /// Begins to wait for several.
    pub(crate) fn enter_all(&self, ids: &[EventId]) -> Result<Vec<Waiter<'_>>, AwaitError> {
        ids.iter().map(|id| self.enter(*id)).collect()
    }
}

/// An answer, if there was one in time, from a database that was there.
pub(crate) fn passed<T>(
    answer: Result<Option<SharedAnswer<T>>, Elapsed>,
) -> Result<Option<Arc<T>>, AwaitError> {
    match answer {
        Ok(Some(Ok(told))) => Ok(Some(told)),
        Ok(Some(Err(error))) if !error.may_pass() => Err(error.into()),
        _ => Ok(None),
    }
}

/// The same of one who asked alone.
pub(crate) async fn answered<T>(
    until: Instant,
    asked: impl Future<Output = Answer<T>>,
) -> Result<Option<T>, AwaitError> {
    match timeout_at(until, asked).await {
        Ok(Ok(told)) => Ok(Some(told)),
        Ok(Err(error)) if !error.may_pass() => Err(Arc::new(error).into()),
        _ => Ok(None),
    }
}

async fn standings(store: Arc<dyn OutboxStore>, mut ids: Vec<EventId>) -> SharedAnswer<Standings> {
    ids.sort_unstable();
    ids.dedup();
    let mut found = Standings::new();
    for ids in ids.chunks(limits::BATCH_ROWS) {
        for standing in within(ANSWER, store.standing(ids)).await.map_err(Arc::new)? {
            // Of several with one id, in partitions, the one that is not over.
            if standing.status.is_pending() || !found.contains_key(&standing.id) {
                found.insert(standing.id, standing);
            }
        }
    }
    Ok(Arc::new(found))
}

fn end_of(standing: &Standing) -> Option<End> {
    match standing.status {
        Status::New | Status::Retry => None,
        Status::Done => Some(End::Done),
        Status::Dead => Some(End::Dead(standing.error.clone().unwrap_or_default())),
    }
}

/// Somebody who waits for an event.
pub(crate) struct Waiter<'w> {
    waiters: &'w Waiters,
    id: EventId,
    told: watch::Receiver<Option<End>>,
}

impl Waiter<'_> {
    /// Waits until a settlement of this process ended it. Cancel-safe.
    async fn end(&mut self) -> End {
        match self.told.wait_for(Option::is_some).await.map(|end| end.clone()) {
            Ok(Some(end)) => end,
            // Who tells is there as long as anybody listens.
            _ => std::future::pending().await,
        }
    }

    /// Waits until it is over, however that is known.
    pub(crate) async fn over_within(mut self, timeout: Duration) -> Result<Awaited, AwaitError> {
        let (id, waiters, mut looks) = (self.id, self.waiters, LookTimes::within(timeout));
        let mut known = if waiters.is_committed(id) { Known::Committed } else { Known::Nothing };
        while let Some(at) = looks.next() {
            let found = tokio::select! {
                biased;
                end = self.end() => return Ok(end.into()),
                found = async {
                    sleep_until(at).await;
                    waiters.look([id], looks.answer_by()).await
                } => found?,
            };
            let Some(found) = found else { continue };
            let end = match found.get(&id) {
                Some(standing) => {
                    known = Known::Committed;
                    end_of(standing)
                }
                None if known == Known::Committed || waiters.is_committed(id) => {
                    waiters.gone(id, looks.answer_by()).await?
                }
                None => {
                    known = Known::Absent;
                    None
                }
            };
            if let Some(end) = end {
                return Ok(end.into());
            }
        }
        Ok(if known == Known::Absent { Awaited::NotSeen } else { Awaited::TimedOut })
    }
}

impl Drop for Waiter<'_> {
    fn drop(&mut self) {
        let mut waiting = lock(&self.waiters.waiting);
        // Its own receiver is still counted.
        if waiting.get(&self.id).is_some_and(|told| told.receiver_count() <= 1) {
            waiting.remove(&self.id);
            self.waiters.count.store(waiting.len(), Ordering::SeqCst);
        }
    }
}

/// What is known of an event's row.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Known {
    /// Nobody could look.
    Nothing,
    /// It was not there.
    Absent,
    /// It was there, or its commit was proved.
    Committed,
}

/// When rows are looked at: soon, then less and less often, and once more when the time is over.
#[derive(Debug)]
pub(crate) struct LookTimes {
    pause: Duration,
    deadline: Instant,
    over: bool,
}

impl LookTimes {
    pub(crate) fn within(timeout: Duration) -> Self {
        // No event waits for longer than ten years.
        let deadline = Instant::now() + timeout.min(limits::DELAY);
        Self { pause: FIRST_LOOK, deadline, over: false }
    }

    /// Until when an answer of the database is waited for.
    pub(crate) fn answer_by(&self) -> Instant {
        self.deadline + LAST_WORDS
    }

    /// Whether the time is over.
    fn is_over(&self) -> bool {
        Instant::now() >= self.deadline
    }

    /// When to look next; `None` after the last time.
    pub(crate) fn next(&mut self) -> Option<Instant> {
        if self.over {
            return None;
        }
        let at = (Instant::now() + self.pause).min(self.deadline);
        self.pause = (self.pause * 2).min(RAREST_LOOKS);
        self.over = at == self.deadline;
        Some(at)
    }

    /// Sleeps until the next look; false after the last one.
    pub(crate) async fn sleep(&mut self) -> bool {
        match self.next() {
            Some(at) => sleep_until(at).await,
            None => return false,
        }
        true
    }

    /// Something happened: the next look is soon.
    pub(crate) fn soon(&mut self) {
        self.pause = FIRST_LOOK;
    }
}

/// The last events that were seen, and no more than so many.
#[derive(Debug, Default)]
struct Lately {
    ids: HashSet<EventId>,
    order: VecDeque<EventId>,
}

impl Lately {
    fn add(&mut self, id: EventId) {
        if !self.ids.insert(id) {
            return;
        }
        self.order.push_back(id);
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    fn has(&self, id: EventId) -> bool {
        self.ids.contains(&id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> EventId {
        EventId::from_bytes((number as u128).to_be_bytes())
    }

    #[tokio::test(start_paused = true)]
    async fn looks_are_soon_then_rare_and_one_is_made_at_the_end() {
        let begun = Instant::now();
        let mut looks = LookTimes::within(Duration::from_secs(3));
        let mut at = Vec::new();
        while let Some(next) = looks.next() {
            sleep_until(next).await;
            at.push(next.duration_since(begun).as_millis());
        }
        assert_eq!(at, [50, 150, 350, 750, 1_550, 2_550, 3_000]);
        let mut none = LookTimes::within(Duration::ZERO);
        assert_eq!((none.next().is_some(), none.next()), (true, None), "there is always one");
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut lately = Lately::default();
        (0..=REMEMBERED).for_each(|number| lately.add(id(number)));
        lately.add(id(REMEMBERED));
        assert_eq!((lately.ids.len(), lately.order.len()), (REMEMBERED, REMEMBERED));
        assert!(!lately.has(id(0)) && lately.has(id(1)) && lately.has(id(REMEMBERED)));
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_waited_for_is_bounded_and_forgotten() {
        let waiters = Waiters::new(Arc::new(crate::memory::MemoryStore::new()));
        let entered: Vec<_> = (0..EVENTS).map(|number| waiters.enter(id(number))).collect();
        assert!(entered.iter().all(Result::is_ok));
        assert!(matches!(waiters.enter(id(EVENTS)), Err(AwaitError::TooMany { limit: EVENTS })));
        assert!(waiters.enter(id(0)).is_ok(), "it is waited for already");
        drop(entered);
        assert_eq!(waiters.count.load(Ordering::SeqCst), 0);
        assert!(lock(&waiters.waiting).is_empty());
    }
}
