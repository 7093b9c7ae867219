//! Looks for keys with something to deliver, and takes them in hand, as many as fit.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Attempt, Lane, Waited, report};
use tokio::time::Instant;
use tracing::warn;

use super::{
    Admission, Breadth, Deadline, Handover, Link, Parcel, Speed, Taken, Walk, Wanted,
    ended_without_run, is_cut,
};
use crate::appetite::Portion;
use crate::dispatch::Due;
use crate::lock::lock;
use crate::options::OutboxOptions;
use crate::store::{
    Answer, Claimed, Except, HeldKey, KeyRun, OutboxStore, RunsWanted, StoreError, Suspects,
    TakeKeys, TakenKey, TakenKeys, Walked, Window, within,
};

/// Looks for keys of which something can be delivered.
pub(crate) struct KeyLooks {
    store: Arc<dyn OutboxStore>,
    handover: Arc<Handover>,
    options: Arc<OutboxOptions>,
    owner: Arc<str>,
    walk: Mutex<Walk>,
    /// The same for handlers that are slow: what one of them has seen is not what another look has.
    slow_walk: Mutex<Walk>,
    breadth: Mutex<Breadth>,
    /// Until when nothing is shelved, because nothing was in the way the last time.
    nothing_shelved_until: Mutex<Instant>,
}

/// How a look ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum KeysFound {
    /// There may be more.
    More,
    /// Nothing more is there.
    Drained,
    /// As much is in hand as may be; there may be more.
    NoRoom,
}

/// Keys of one look: as many as their first events fit one batch of others.
const KEYS: usize = 500;
/// The most bytes of one reading.
const RUN_BYTES: usize = 16 * crate::options::MIB;
/// Rows in line whose key has not moved for so long are taken out of the way of walks.
const SHELVED_AFTER: Duration = Duration::from_secs(1);

impl KeyLooks {
    pub(crate) fn new(
        store: Arc<dyn OutboxStore>,
        handover: Arc<Handover>,
        options: Arc<OutboxOptions>,
        owner: Arc<str>,
    ) -> Self {
        let walk = || Mutex::new(Walk::new(Instant::now()));
        let (walk, slow_walk) = (walk(), walk());
        let breadth = Mutex::new(Breadth::new(KEYS));
        let nothing_shelved_until = Mutex::new(Instant::now());
        Self { store, handover, options, owner, walk, slow_walk, breadth, nothing_shelved_until }
    }

    /// Rows were put in line, or may be delivered that could not be.
    pub(crate) fn again(&self) {
        let now = Instant::now();
        lock(&self.walk).again(now);
        lock(&self.slow_walk).again(now);
    }

    fn walk(&self, speed: Speed) -> &Mutex<Walk> {
        match speed {
            Speed::Usual => &self.walk,
            Speed::Slow => &self.slow_walk,
        }
    }

    /// One look, at what the lanes want and nothing of what is left out.
    pub(crate) async fn look(
        &self,
        wanted: &Wanted,
        except: Except<'_>,
        speed: Speed,
    ) -> Result<KeysFound, StoreError> {
        let Portion { rows, bytes } = self.handover.keys.room_left();
        if rows == 0 || bytes == 0 {
            return Ok(KeysFound::NoRoom);
        }
        let walk = lock(self.walk(speed)).next(Instant::now());
        let take = TakeKeys {
            limit: wanted.portion.rows.min(rows).min(self.breadth()),
            except,
            walk: Some(walk),
            ..self.take(Suspects::Skip)
        };
        let taken = self.take_in(&take, Portion { rows, bytes: bytes.min(RUN_BYTES) }).await?;
        let full = taken.keys.len() >= take.limit;
        let now = Instant::now();
        let more = lock(self.walk(speed)).walked(taken.walked, now);
        if let Some(Walked { last: Some(last), rows, listed, .. }) = taken.walked
            && listed * 2 > rows
            && now >= *lock(&self.nothing_shelved_until)
        {
            self.shelve(Window { after: walk.after, last }).await?;
        }
        let hidden = lock(self.walk(speed)).hidden_for(now);
        for later in [taken.next, hidden].into_iter().flatten() {
            self.handover.alarm.ring_after(later);
        }
        Ok(if full || more { KeysFound::More } else { KeysFound::Drained })
    }

    /// One key that may kill its process, with a single event of it; nothing is begun yet.
    pub(crate) async fn suspect(
        &self,
        except: Except<'_>,
    ) -> Result<Option<(TakenKey, Deadline, KeyRun)>, StoreError> {
        let take = TakeKeys { limit: 1, except, ..self.take(Suspects::Only) };
        let until = Deadline::after(self.options.hold);
        let Some(key) = self.bounded(self.store.take_keys(&take)).await?.keys.pop() else {
            return Ok(None);
        };
        let runs = self.read(std::slice::from_ref(&key), RUN_BYTES, until).await?;
        Ok(runs.into_iter().next().map(|run| (key, until, run)))
    }

    /// As many keys as have enough events to be worth it, and no fewer than keep every worker busy.
    fn breadth(&self) -> usize {
        lock(&self.breadth).keys(2 * self.options.workers).min(KEYS)
    }

    fn take(&self, suspects: Suspects) -> TakeKeys<'_> {
        TakeKeys {
            owner: &self.owner,
            limit: KEYS,
            run: u32::try_from(self.options.poll_batch).unwrap_or(u32::MAX),
            hold: self.options.hold,
            except: Except::NOTHING,
            suspects,
            walk: None,
        }
    }

    async fn take_in(&self, take: &TakeKeys<'_>, room: Portion) -> Result<TakenKeys, StoreError> {
        // Counted from before the statement that makes the holds.
        let (until, epoch) = (Deadline::after(self.options.hold), self.store.epoch());
        let mut taken = self.bounded(self.store.take_keys(take)).await?;
        if taken.keys.is_empty() {
            return Ok(taken);
        }
        self.handover.pauses.found();
        // Side by side: each has its part of what fits.
        let share = room.rows.div_ceil(taken.keys.len());
        let share = u32::try_from(share).unwrap_or(u32::MAX);
        taken.keys.iter_mut().for_each(|key| key.run = key.run.min(share).max(1));
        let runs = self.read(&taken.keys, room.bytes, until).await?;
        let keys: BTreeMap<&str, &TakenKey> =
            taken.keys.iter().map(|key| (&*key.key, key)).collect();
        let mut cut = 0;
        for run in runs {
            if let Some(key) = keys.get(&*run.key) {
                cut += usize::from(is_cut(key, &run, share));
                self.begin(key, until, run, epoch);
            }
        }
        lock(&self.breadth).read(keys.len(), cut, KEYS);
        Ok(taken)
    }

    /// Reads the events of keys that were taken. Those of which nothing came are given back.
    async fn read(
        &self,
        keys: &[TakenKey],
        bytes: usize,
        until: Deadline,
    ) -> Result<Vec<KeyRun>, StoreError> {
        let runs = self.bounded(self.store.runs(&RunsWanted { keys, bytes })).await;
        let read: BTreeSet<&str> = runs.iter().flatten().map(|run| &*run.key).collect();
        for key in keys.iter().filter(|key| !read.contains(&*key.key)) {
            self.give_back(key, until);
        }
        runs
    }

    /// Puts a key back that nothing was begun of.
    pub(crate) fn give_back(&self, key: &TakenKey, until: Deadline) {
        let (held, links) = (held(key), Vec::new());
        let taken = Taken { held, until, links, whole: false, cut: true };
        self.handover.follow(self.handover.keys.begin(taken));
    }

    /// Takes a key in hand, and lets its first event begin.
    pub(crate) fn begin(&self, key: &TakenKey, until: Deadline, run: KeyRun, epoch: u64) {
        let KeyRun { rows, whole, .. } = run;
        let read = rows.len();
        let mut links = Vec::with_capacity(read);
        for row in rows {
            let Some(link) = self.link(key, row, until, epoch) else { break };
            links.push(link);
        }
        let cut = links.len() < read;
        let taken = Taken { held: held(key), until, links, whole, cut };
        let next = self.handover.keys.begin(taken);
        if next.start.is_some() {
            self.handover.observer.tell(|metrics| metrics.cold_enqueued());
        }
        self.handover.begin_key(next);
    }

    fn link(&self, key: &TakenKey, row: Claimed, until: Deadline, epoch: u64) -> Option<Link> {
        let Handover { holds, keys, handlers, .. } = &*self.handover;
        let Admission::Ticket(ticket) = holds.admit(row.held(), until, Lane::Cold) else {
            return None;
        };
        let ticket = ticket.through(keys, key.key.clone());
        let attempt: Attempt = row.attempt();
        let (max_attempts, then) =
            (self.options.retry.max_attempts, self.options.handler.after_dead);
        Some(match Due::of(row, max_attempts, then) {
            Ok(Due { delivery, attempt, waited }) => {
                let route = handlers.now().route_of(&delivery.event);
                let waited = (waited != Waited::default()).then(|| Box::new(waited));
                Link::Parcel(Box::new(Parcel { delivery, attempt, ticket, route, waited, epoch }))
            }
            Err(outcome) => ended_without_run(ticket, attempt, outcome),
        })
    }

    async fn shelve(&self, window: Window) -> Result<(), StoreError> {
        let shelved = match self.bounded(self.store.shelve(window, SHELVED_AFTER)).await {
            // They are only in the way.
            Err(error @ (StoreError::Busy(_) | StoreError::Timeout)) => {
                warn!(error = report(&error), "rows in line were not shelved");
                0
            }
            answer => answer?,
        };
        if shelved == 0 {
            // Keys that are listed move on; before this time none of them can have stood still for as long.
            *lock(&self.nothing_shelved_until) = Instant::now() + SHELVED_AFTER;
        }
        Ok(())
    }

    async fn bounded<T>(&self, asked: impl Future<Output = Answer<T>>) -> Answer<T> {
        within(self.options.statement_limit(), asked).await
    }
}

fn held(key: &TakenKey) -> HeldKey {
    HeldKey { key: key.key.clone(), token: key.token }
}
