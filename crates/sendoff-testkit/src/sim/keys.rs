//! Statements about keys, over a node's connection to the simulated table.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::order::is_in_line;
use sendoff_core::{EventId, Holding};
use sendoff_engine::store::{
    Claimed, Confirmed, EventKind, Except, ExtendKeys, ExtendedKeys, Held, HeldKey, KeyRun,
    KeyStore, RunEnd, RunsWanted, SettledRuns, Settlement, StoreError, TakeKeys, TakenKey,
    TakenKeys, Window,
};
use tokio::time::Instant;

use super::bug::{Bug, skipped};
use super::wire::{Untold, Wire};

impl Wire {
    /// The live events of these keys that are in line, which a fault of the keys hits.
    async fn in_line(&self, keys: &[HeldKey]) -> Vec<EventId> {
        let all = |held: &HeldKey| {
            let HeldKey { key, token } = held.clone();
            TakenKey { key, token, run: u32::MAX, lost: false }
        };
        let keys: Vec<TakenKey> = keys.iter().map(all).collect();
        let runs = self.table.runs(&RunsWanted { keys: &keys, bytes: usize::MAX }).await;
        let rows = runs.into_iter().flatten().flat_map(|run| run.rows);
        rows.map(|row| row.id).collect()
    }

    /// Carries out ends of runs, and looks at the table to log what they really did.
    async fn settle_runs_logged(
        &self,
        owner: &str,
        ends: &[RunEnd],
    ) -> Result<SettledRuns, StoreError> {
        let mut settled = SettledRuns::default();
        for sent in ends {
            let current = self.table.holds_key(owner, &sent.held);
            let mut carried_out = sent.clone();
            if let (Some(Bug::NoKeyFence), Some(token)) =
                (self.bug, self.table.token_of_key(owner, &sent.held.key))
            {
                carried_out.held.token = token;
            }
            if self.bug == Some(Bug::ForgetPark) {
                carried_out.rows.iter_mut().for_each(|(_, outcome)| *outcome = skipped(outcome));
            }
            let changed = self.table.settle_runs(owner, &[carried_out]).await?;
            if changed.busy.is_empty() {
                let applied = !changed.applied.is_empty();
                for (id, outcome) in &sent.rows {
                    let held = Held { id: *id, by: Holding::Key(sent.held.token) };
                    let settlement = Settlement { held, outcome: outcome.clone() };
                    self.history.settled(&self.node, &settlement, applied, current);
                }
            }
            settled.applied.extend(changed.applied);
            settled.busy.extend(changed.busy);
        }
        Ok(settled)
    }
}

impl Wire {
    /// Adds to a run what is in line after it, whatever lies in between.
    fn go_on(&self, key: &TakenKey, run: &mut KeyRun) {
        let taken: Vec<_> = run.rows.iter().map(|row| row.id).collect();
        let rows = self.table.rows();
        let rest = rows
            .iter()
            .filter(|row| row.event.ordering_key() == Some(&*key.key) && row.status.is_pending())
            .filter(|row| is_in_line(row.due_at) && !taken.contains(&row.event.id()));
        let room = (key.run as usize).saturating_sub(run.rows.len());
        run.rows.extend(rest.take(room).map(|row| Claimed {
            id: row.event.id(),
            by: Holding::Key(key.token),
            attempts: row.attempts,
            was_due: row.due_at,
            lost: false,
            created_at: row.created_at,
            claimed_at: row.created_at,
            waiting: row.waiting,
            event: Ok(row.event.clone()),
        }));
    }
}

fn held(key: &TakenKey) -> HeldKey {
    HeldKey { key: key.key.clone(), token: key.token }
}

#[async_trait]
impl KeyStore for Wire {
    fn keeps_order(&self) -> bool {
        true
    }

    async fn take_keys(&self, take: &TakeKeys<'_>) -> Result<TakenKeys, StoreError> {
        let owner = take.owner.to_owned();
        let TakeKeys { limit, run, hold, suspects, walk, .. } = *take;
        let owned =
            |kind: &EventKind<'_>| (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
        let kinds: Vec<_> = take.except.kinds.iter().map(owned).collect();
        let types: Vec<_> = take.except.types.iter().map(|name| (*name).to_owned()).collect();
        let taken = self.send(Vec::new(), move |wire| {
            let (owner, kinds, types) = (owner.clone(), kinds.clone(), types.clone());
            async move {
                let kinds: Vec<_> = kinds.iter().map(EventKind::from).collect();
                let types: Vec<_> = types.iter().map(String::as_str).collect();
                let except = Except { kinds: &kinds, types: &types };
                let owner = &owner;
                let take = TakeKeys { owner, limit, run, hold, except, suspects, walk };
                wire.looks.looked();
                let mut taken = wire.table.take_keys(&take).await?;
                wire.looks.look_again(taken.next);
                if wire.bug == Some(Bug::ForgetWake) {
                    taken.next = None;
                }
                let held: Vec<_> = taken.keys.iter().map(held).collect();
                let ids = wire.in_line(&held).await;
                Ok((Untold { wire, ids }, taken))
            }
        });
        let (untold, taken) = taken.await?;
        untold.told();
        Ok(taken)
    }

    async fn runs(&self, wanted: &RunsWanted<'_>) -> Result<Vec<KeyRun>, StoreError> {
        let (keys, bytes) = (wanted.keys.to_vec(), wanted.bytes);
        let held: Vec<_> = keys.iter().map(held).collect();
        let untold = Untold { wire: self.clone(), ids: self.in_line(&held).await };
        let runs = self.send(Vec::new(), move |wire| {
            let keys = keys.clone();
            async move {
                let mut runs = wire.table.runs(&RunsWanted { keys: &keys, bytes }).await?;
                if wire.bug == Some(Bug::NoCut) {
                    keys.iter().zip(&mut runs).for_each(|(key, run)| wire.go_on(key, run));
                }
                Ok(runs)
            }
        });
        let runs = runs.await?;
        untold.told();
        Ok(runs)
    }

    async fn settle_runs(&self, owner: &str, ends: &[RunEnd]) -> Result<SettledRuns, StoreError> {
        // What comes after these is begun again as well, where their key is lost.
        let keys: Vec<_> = ends.iter().map(|end| end.held.clone()).collect();
        let mut ids = self.in_line(&keys).await;
        ids.extend(ends.iter().flat_map(|end| &end.rows).map(|(id, _)| *id));
        let (owner, ends) = (owner.to_owned(), ends.to_vec());
        self.send(ids, move |wire| {
            let (owner, ends) = (owner.clone(), ends.clone());
            async move { wire.settle_runs_logged(&owner, &ends).await }
        })
        .await
    }

    async fn extend_keys(&self, extend: &ExtendKeys<'_>) -> Result<ExtendedKeys, StoreError> {
        let ExtendKeys { owner, keys, hold } = *extend;
        let ids = self.in_line(keys).await;
        let (owner, keys) = (owner.to_owned(), keys.to_vec());
        self.send(ids, move |wire| {
            let (owner, keys) = (owner.clone(), keys.clone());
            async move {
                let extend = ExtendKeys { owner: &owner, keys: &keys, hold };
                wire.table.extend_keys(&extend).await
            }
        })
        .await
    }

    async fn confirm_keys(&self, holds: &[Held]) -> Result<Vec<Confirmed>, StoreError> {
        let untold = Untold { wire: self.clone(), ids: holds.iter().map(|held| held.id).collect() };
        let (holds, no_gate) = (holds.to_vec(), self.bug == Some(Bug::NoGate));
        let confirmed = self.send(Vec::new(), move |wire| {
            let holds = holds.clone();
            async move { wire.table.confirm_keys(&holds).await }
        });
        let mut confirmed = confirmed.await?;
        untold.told();
        if no_gate {
            confirmed.iter_mut().for_each(|row| row.below.clear());
        }
        Ok(confirmed)
    }

    async fn shelve(&self, window: Window, age: Duration) -> Result<u64, StoreError> {
        let shelved =
            self.send(Vec::new(), move |wire| async move { wire.table.shelve(window, age).await });
        shelved.await
    }
}

/// The keys of an ordered world. Whoever writes events of one has it to himself until his transaction is
/// over, as an application does that locks the row of its aggregate: then their order is that of their commits.
#[derive(Debug, Clone)]
pub(super) struct Aggregates(Arc<Vec<tokio::sync::Mutex<()>>>);

impl Aggregates {
    pub(super) fn new(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| tokio::sync::Mutex::default()).collect()))
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    /// The name of one.
    pub(super) fn name(number: usize) -> String {
        format!("aggregate {number}")
    }

    pub(super) async fn lock(&self, number: usize) -> tokio::sync::MutexGuard<'_, ()> {
        self.0[number].lock().await
    }
}

/// How late the nodes of a world look again at keys that could not be taken, in all.
#[derive(Debug, Clone, Default)]
pub(super) struct LateLooks(Arc<Mutex<Duration>>);

impl LateLooks {
    pub(super) fn sum(&self) -> Duration {
        *locked(&self.0)
    }

    pub(super) fn of_a_node(&self) -> Looks {
        Looks { due: Arc::default(), late: self.clone() }
    }
}

/// When a node is to look again.
#[derive(Debug, Clone)]
pub(super) struct Looks {
    due: Arc<Mutex<Option<Instant>>>,
    late: LateLooks,
}

impl Looks {
    fn looked(&self) {
        if let Some(due) = locked(&self.due).take_if(|due| *due <= Instant::now()) {
            *locked(&self.late.0) += due.elapsed();
        }
    }

    fn look_again(&self, next: Option<Duration>) {
        let Some(next) = next.map(|next| Instant::now() + next) else { return };
        let mut due = locked(&self.due);
        *due = Some(due.map_or(next, |due| due.min(next)));
    }
}

fn locked<T>(state: &Mutex<T>) -> MutexGuard<'_, T> {
    state.lock().unwrap_or_else(PoisonError::into_inner)
}
