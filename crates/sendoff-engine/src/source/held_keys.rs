//! The keys of one batch of a relay: extended while it runs, let go when it is dropped.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

use sendoff_core::order::{KeyToken, RunSoFar};
use sendoff_core::{Attempt, EventId, Lane, report};
use tokio::runtime::Handle;
use tokio::time::Instant;
use tracing::{debug, warn};

use super::beside::beside;
use super::{Admission, Deadline, Holds, KeyEnd, Ticket};
use crate::lock::lock;
use crate::relay::RelayStore;
use crate::settle::{Answer, Answers, Completion, KeySettling, SettledBatch, Terms};
use crate::store::{Claimed, ExtendKeys, HeldKey, KeyRun, Outcome, StoreError, TakenKey, within};

/// The keys of one batch, with what was read of them.
///
/// Dropped with keys still in it, it lets them go by itself where a runtime is there to do it.
pub(crate) struct HeldKeys {
    store: Arc<dyn RelayStore>,
    owner: Arc<str>,
    terms: Terms,
    holds: Arc<Holds>,
    /// By event.
    keys_of: BTreeMap<EventId, Arc<str>>,
    keys: Mutex<BTreeMap<Arc<str>, BatchKey>>,
}

/// A key, and its events in order.
struct BatchKey {
    token: KeyToken,
    until: Deadline,
    whole: bool,
    cut: bool,
    rows: Vec<(Ticket, Attempt)>,
}

impl BatchKey {
    /// What becomes of it by these answers: of its events up to the first that did not end well, and of the
    /// key. Says how many have no place in that.
    fn end(self, key: Arc<str>, answers: &mut Answers) -> (KeyEnd, usize) {
        let Self { token, until, whole, mut cut, rows } = self;
        let (mut over, mut retry, mut untouched) = (Vec::new(), None, 0);
        for (ticket, attempt) in rows {
            let answer = answers.remove(&ticket.id()).filter(|_| !cut);
            let Some(Answer { outcome, .. }) = answer else {
                cut = true;
                untouched += 1;
                continue;
            };
            if let Outcome::Retry { delay, .. } | Outcome::Wait { delay, .. } = outcome {
                retry = Some(delay);
            }
            cut |= !outcome.lets_others_follow();
            over.push(Completion { ticket, attempt, outcome });
        }
        // Dead at its very end, nothing was let go.
        let cut = cut && (untouched > 0 || retry.is_some() || !whole);
        let ending = RunSoFar { in_hand: false, whole, cut, retry }.ending();
        (KeyEnd::new(HeldKey { key, token }, over, ending, until), untouched)
    }
}

impl HeldKeys {
    /// Takes runs in that were read, and answers their events in order. An event that is in flight in another
    /// batch already ends its run.
    pub(crate) fn new(
        store: Arc<dyn RelayStore>,
        owner: Arc<str>,
        terms: Terms,
        holds: &Arc<Holds>,
        runs: Vec<(TakenKey, KeyRun)>,
        until: Deadline,
    ) -> (Self, Vec<Claimed>) {
        let (mut keys_of, mut keys, mut claimed) = (BTreeMap::new(), BTreeMap::new(), Vec::new());
        for (TakenKey { key, token, .. }, KeyRun { rows, whole, .. }) in runs {
            let mut in_batch =
                BatchKey { token, until, whole, cut: rows.is_empty(), rows: Vec::new() };
            for row in rows {
                let Admission::Ticket(ticket) = holds.admit(row.held(), until, Lane::Cold) else {
                    debug!(event.id = %row.id, "read again, and in flight already");
                    in_batch.cut = true;
                    break;
                };
                keys_of.insert(row.id, key.clone());
                in_batch.rows.push((ticket, row.attempt()));
                claimed.push(row);
            }
            keys.insert(key, in_batch);
        }
        let holds = holds.clone();
        (Self { store, owner, terms, holds, keys_of, keys: Mutex::new(keys) }, claimed)
    }

    /// The key of an event.
    pub(crate) fn key_of(&self, id: EventId) -> Option<&Arc<str>> {
        self.keys_of.get(&id)
    }

    /// Whether an event's key is certainly ours now (I1).
    pub(crate) fn is_held(&self, id: EventId) -> bool {
        let keys = lock(&self.keys);
        let key = self.key_of(id).and_then(|key| keys.get(key));
        key.is_some_and(|key| !key.until.is_past())
    }

    /// Holds everything for longer, and says how many keys were lost to others.
    pub(crate) async fn extend(&self) -> Result<usize, StoreError> {
        let asked: Vec<HeldKey> = {
            let keys = lock(&self.keys);
            let held = |(key, held): (&Arc<str>, &BatchKey)| HeldKey {
                key: key.clone(),
                token: held.token,
            };
            keys.iter().map(held).collect()
        };
        if asked.is_empty() {
            return Ok(0);
        }
        let Terms { hold, limit, .. } = self.terms;
        let until = Deadline::after(hold);
        let extend = ExtendKeys { owner: &self.owner, keys: &asked, hold };
        let answer = within(limit, self.store.extend_keys(&extend)).await;
        let answer = answer
            .inspect_err(|error| warn!(error = report(error), "keys of a batch not extended"))?;
        let held: BTreeSet<_> = answer.held.into_iter().collect();
        let busy: BTreeSet<_> = answer.busy.into_iter().collect();
        let mut keys = lock(&self.keys);
        let mut lost = 0;
        for HeldKey { key, .. } in asked.iter().filter(|asked| !busy.contains(&asked.key)) {
            let Some(in_batch) = keys.get_mut(key) else { continue };
            match held.contains(key) {
                true => in_batch.until = until,
                // Nothing of it begins any more.
                false => {
                    in_batch.until = Deadline::after(std::time::Duration::ZERO);
                    lost += 1;
                }
            }
        }
        Ok(lost)
    }

    /// Keeps the keys while `work` is under way, but lets those go at `release_at` of which nothing was begun
    /// by then, and says how many events that were.
    pub(crate) async fn held_while<T>(
        &self,
        work: impl Future<Output = T>,
        release_at: Instant,
        waiting: impl Fn() -> Vec<EventId>,
    ) -> (T, usize) {
        let release_at = Mutex::new(Some(release_at));
        let extend_at = Mutex::new(Instant::now() + self.terms.hold / 3);
        let released = AtomicUsize::new(0);
        let next = || {
            let extend_at = *lock(&extend_at);
            lock(&release_at).map_or(extend_at, |at| at.min(extend_at))
        };
        let chore = || async {
            let now = Instant::now();
            if lock(&release_at).take_if(|at| *at <= now).is_some() {
                released.store(self.release(&waiting()), Ordering::Relaxed);
            } else {
                let extended = self.extend().await;
                let soon = if extended.is_err() { 12 } else { 3 };
                *lock(&extend_at) = Instant::now() + self.terms.hold / soon;
            }
        };
        let answer = beside(work, next, chore).await;
        (answer, released.load(Ordering::Relaxed))
    }

    /// Lets the keys go of which nothing but these is there, and says how many events that were.
    fn release(&self, waiting: &[EventId]) -> usize {
        let waiting: BTreeSet<_> = waiting.iter().collect();
        let mut keys = lock(&self.keys);
        let idle = |_: &Arc<str>, key: &mut BatchKey| {
            key.rows.iter().all(|(ticket, _)| waiting.contains(&ticket.id()))
        };
        let idle: Vec<_> = keys.extract_if(.., idle).collect();
        drop(keys);
        let rows = idle.iter().map(|(_, key)| key.rows.len()).sum();
        self.let_go(idle);
        rows
    }

    /// Settles each event by its answer, up to the first of its key that did not end well.
    pub(crate) async fn settle(&self, mut answers: Answers) -> Result<SettledBatch, StoreError> {
        let keys = std::mem::take(&mut *lock(&self.keys));
        let (mut ends, mut untouched) = (Vec::with_capacity(keys.len()), 0);
        for (key, in_batch) in keys {
            let (end, of_it) = in_batch.end(key, &mut answers);
            ends.push(end);
            untouched += of_it;
        }
        let (store, owner) = (self.store.clone(), self.owner.clone());
        let mut settled =
            KeySettling::new(store, owner, self.terms, self.holds.clone(), ends).run().await?;
        settled.gone += untouched;
        Ok(settled)
    }

    /// Lets keys go as they were, without waiting for it.
    fn let_go(&self, keys: impl IntoIterator<Item = (Arc<str>, BatchKey)>) {
        let mut answers = Answers::new();
        let ends = keys.into_iter().map(|(key, in_batch)| in_batch.end(key, &mut answers).0);
        let ends: Vec<_> = ends.map(|end| end.run_end()).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        if ends.is_empty() {
            return;
        }
        let (store, owner, limit) = (self.store.clone(), self.owner.clone(), self.terms.limit);
        // Bounded, and nobody waits for it: what it does not reach runs out.
        runtime.spawn(async move {
            if within(limit, store.settle_runs(&owner, &ends)).await.is_err() {
                debug!(keys = ends.len(), "keys that were let go are left to run out");
            }
        });
    }
}

impl Drop for HeldKeys {
    fn drop(&mut self) {
        let keys = std::mem::take(&mut *lock(&self.keys));
        self.let_go(keys);
    }
}
