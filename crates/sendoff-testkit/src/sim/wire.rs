//! A node's connection to the simulated table: loses, delays and repeats.

use std::collections::BTreeSet;
use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Holding};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, Claims, Delegates, EndStore, EventKind, Except, ExtendInTurn,
    Extended, Held, InspectStore, LetterStore, ParkStore, PauseStore, RegisterStore, ReplayStore,
    RetainStore, SettleStore, Settled, Settlement, StoreError, Suspects, TenantWalk, TenantsFound,
    WakeStore,
};
use tokio::time::sleep;

use super::bug::{Bug, Unsent};
use super::clock::JumpingClock;
use super::gate::{Gate, Kept};
use super::keys::Looks;
use super::weather::{Fate, Weather};
use crate::history::{Fault, FaultKind, History};

/// A node's connection to the one table: it loses, delays and repeats what goes over it.
#[derive(Debug, Clone)]
pub(super) struct Wire {
    pub(super) table: MemoryStore,
    pub(super) node: Arc<str>,
    pub(super) gate: Gate,
    pub(super) weather: Weather,
    pub(super) history: History,
    pub(super) clock: JumpingClock,
    pub(super) bug: Option<Bug>,
    /// What a settlement counts in, where a bug makes everybody share it.
    pub(super) counters: Arc<tokio::sync::Mutex<()>>,
    /// What did not come through, where a bug sends it again whole.
    pub(super) unsent: Unsent,
    /// When keys are to be looked at again.
    pub(super) looks: Looks,
    /// Slow statements under way.
    pub(super) jams: Arc<AtomicUsize>,
    /// Events in handlers that hang for good.
    pub(super) hung: Arc<Mutex<BTreeSet<EventId>>>,
    /// Whether the node was told to close.
    pub(super) closing: Arc<AtomicBool>,
}

/// A statement that takes longer than this may cost its node some holds.
pub(super) const SLOW: Duration = Duration::from_millis(500);

/// A slow statement, which holds up everything else its node has to say.
pub(super) struct Jam<'w>(&'w Wire);

impl<'w> Jam<'w> {
    fn of(wire: &'w Wire) -> Self {
        wire.history.fault(Fault::on(wire.node.clone(), FaultKind::LateReply));
        wire.jams.fetch_add(1, Ordering::Relaxed);
        Self(wire)
    }
}

impl Drop for Jam<'_> {
    fn drop(&mut self) {
        self.0.jams.fetch_sub(1, Ordering::Relaxed);
    }
}

/// A statement somebody waits for.
pub(super) struct Unanswered<'w> {
    wire: &'w Wire,
    ids: Vec<EventId>,
}

impl Unanswered<'_> {
    pub(super) fn answered(mut self) {
        self.ids.clear();
    }
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        // What a node that was stopped for good gives up it never sent, or sent before its stop.
        if !self.wire.gate.is_shut_for_good() {
            self.wire.misfortune(FaultKind::LostReply, &self.ids);
        }
    }
}

/// Rows that nobody has until their node is told.
pub(super) struct Untold {
    pub(super) wire: Wire,
    pub(super) ids: Vec<EventId>,
}

impl Untold {
    pub(super) fn told(mut self) {
        self.ids.clear();
    }
}

impl Drop for Untold {
    fn drop(&mut self) {
        self.wire.misfortune(FaultKind::Untold, &self.ids);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the link broke")]
pub(super) struct LinkBroke;

pub(super) fn broken<T, E: From<StoreError>>() -> Result<T, E> {
    Err(StoreError::Unavailable(LinkBroke.into()).into())
}

/// What becomes of a statement that met this fate. `misfortune` logs it before it takes effect.
pub(super) async fn carried_out<W, T, E, Fut>(
    wire: &W,
    fate: Fate,
    misfortune: impl Fn(FaultKind),
    statement: impl Fn(W) -> Fut + Send + 'static,
) -> Result<T, E>
where
    W: Clone + Send + 'static,
    E: From<StoreError>,
    Fut: Future<Output = Result<T, E>> + Send,
{
    match fate {
        Fate::Fine => statement(wire.clone()).await,
        Fate::RequestLost => {
            misfortune(FaultKind::Partition);
            broken()
        }
        Fate::ReplyLost => {
            misfortune(FaultKind::LostReply);
            statement(wire.clone()).await.and(broken())
        }
        Fate::Late(after) => {
            misfortune(FaultKind::LateReply);
            let wire = wire.clone();
            // A statement on the wire outlives the node that sent it.
            tokio::spawn(async move {
                sleep(after).await;
                let _ = statement(wire).await;
            });
            broken()
        }
        Fate::Twice => {
            misfortune(FaultKind::DuplicatedReply);
            let _ = statement(wire.clone()).await;
            statement(wire.clone()).await
        }
    }
}

impl Wire {
    /// Sends a statement about `ids`, with whatever happens to it on the way.
    pub(super) async fn send<T, Fut>(
        &self,
        ids: Vec<EventId>,
        statement: impl Fn(Self) -> Fut + Send + 'static,
    ) -> Result<T, StoreError>
    where
        T: Send + 'static,
        Fut: Future<Output = Result<T, StoreError>> + Send,
    {
        let fate = self.weather.fate();
        // Whoever stops waiting does not know what became of the statement.
        let unanswered = self.unanswered(ids);
        let _jam = self.goes_there().await;
        // Logged before it takes effect.
        let misfortune = |kind| self.misfortune(kind, &unanswered.ids);
        let answer = carried_out(self, fate, misfortune, statement).await;
        self.comes_back().await;
        unanswered.answered();
        answer
    }

    pub(super) fn unanswered(&self, ids: Vec<EventId>) -> Unanswered<'_> {
        Unanswered { wire: self, ids }
    }

    /// A statement is under way to the database. Slow ones hold up what else the node has to say.
    pub(super) async fn goes_there(&self) -> Option<Jam<'_>> {
        let takes = self.weather.latency();
        let jam = (takes > SLOW).then(|| Jam::of(self));
        self.gate.pass().await;
        sleep(takes).await;
        jam
    }

    /// An answer is under way from the database.
    pub(super) async fn comes_back(&self) {
        let takes = self.weather.latency();
        let _jam = (takes > SLOW).then(|| Jam::of(self));
        sleep(takes).await;
        self.gate.pass().await;
    }

    /// The node is in the middle of a transaction, where a stop is the worst.
    pub(super) fn inside_transaction(&self) {
        if self.gate.take_trap() {
            self.history.fault(Fault::on(self.node.clone(), FaultKind::Pause));
            self.gate.shut_for_good();
        }
    }

    /// A handler here will never return.
    pub(super) fn hangs(&self, id: EventId) {
        self.misfortune(FaultKind::HandlerHung, &[id]);
        self.hung.lock().unwrap_or_else(PoisonError::into_inner).insert(id);
    }

    /// Events in handlers that will never return.
    pub(super) fn hung(&self) -> BTreeSet<EventId> {
        self.hung.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    pub(super) fn is_jammed(&self) -> bool {
        self.jams.load(Ordering::Relaxed) > 0
    }

    /// Logs a fault of this wire, for the events it is about.
    pub(super) fn misfortune(&self, kind: FaultKind, ids: &[EventId]) {
        if !ids.is_empty() {
            self.history.fault(Fault::on(self.node.clone(), kind).of(ids.iter().copied()));
        }
    }

    /// Carries out settlements, and looks at the table to log what they really did.
    pub(super) async fn settle_logged(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        // One after the other, and yet at once: a table in memory never makes anybody wait.
        let mut settled = Settled::default();
        for sent in batch {
            let carried_out = self.altered(sent).await?;
            let row = self.table.find(sent.held.id).await?;
            let current = row.is_some_and(|row| {
                let held = match sent.held.by {
                    Holding::Row(token) => row.due_at == token.due_at(),
                    Holding::Lock | Holding::Key(_) => false,
                };
                row.status.is_pending() && held
            });
            let changed = self.table.settle(&[carried_out]).await?;
            if changed.busy.is_empty() {
                self.history.settled(&self.node, sent, !changed.applied.is_empty(), current);
            }
            settled.applied.extend(changed.applied);
            settled.busy.extend(changed.busy);
        }
        Ok(settled)
    }

    /// Carries out a claim. With a bug its locks outlive the round trip.
    async fn claim_here(&self, claim: &Claim<'_>) -> Result<Vec<Claimed>, StoreError> {
        if self.bug == Some(Bug::SuspectsStarve)
            && claim.suspects == Suspects::Only
            && self.table.pending().len() > 1
        {
            return Ok(Vec::new());
        }
        let claimed = self.table.claim(claim).await?.rows;
        if self.bug == Some(Bug::LocksOverARoundTrip) && !claimed.is_empty() {
            let locks = claimed.iter().filter_map(|row| self.table.lock_row(row.id));
            let _locks = Kept::new(&self.gate, locks.collect::<Vec<_>>());
            self.inside_transaction();
            sleep(self.weather.latency()).await;
            self.gate.until_free().await;
            sleep(self.weather.latency()).await;
        }
        Ok(claimed)
    }
}

#[async_trait]
impl ClaimStore for Wire {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        let owner = claim.owner.to_owned();
        let Claim { limit, bytes, hold, skip_recent, window, from, suspects, .. } = *claim;
        let owned =
            |kind: &EventKind<'_>| (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
        let except: Vec<_> = claim.except.kinds.iter().map(owned).collect();
        let types: Vec<_> = claim.except.types.iter().map(|name| (*name).to_owned()).collect();
        let shares = claim.shares.to_vec();
        let claimed = self.send(Vec::new(), move |wire| {
            let (owner, except, types) = (owner.clone(), except.clone(), types.clone());
            let shares = shares.clone();
            async move {
                let except: Vec<_> = except
                    .iter()
                    .map(|(aggregate_type, event_type)| EventKind { aggregate_type, event_type })
                    .collect();
                let types: Vec<_> = types.iter().map(String::as_str).collect();
                let except = Except { kinds: &except, types: &types };
                let new = Claim::new(&owner, limit, hold);
                let claim = Claim { bytes, skip_recent, window, from, except, suspects, ..new };
                let claim = Claim { shares: &shares, ..claim };
                let rows = wire.claim_here(&claim).await?;
                Ok((Untold { wire, ids: rows.iter().map(|row| row.id).collect() }, rows))
            }
        });
        let (untold, rows) = claimed.await?;
        untold.told();
        Ok(rows.into())
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        let untold = Untold { wire: self.clone(), ids: holds.iter().map(|held| held.id).collect() };
        let holds = holds.to_vec();
        let confirmed = self.send(Vec::new(), move |wire| {
            let holds = holds.clone();
            async move { wire.table.confirm(&holds).await }
        });
        let confirmed = confirmed.await?;
        untold.told();
        Ok(confirmed)
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.send(Vec::new(), move |wire| async move { wire.table.rescue(longest).await }).await
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        self.table.check_fair().await
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        let (after, limit) = (walk.after.to_owned(), walk.limit);
        self.send(Vec::new(), move |wire| {
            let after = after.clone();
            async move { wire.table.tenants(&TenantWalk { after: &after, limit }).await }
        })
        .await
    }
}

#[async_trait]
impl SettleStore for Wire {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        let ids = batch.iter().map(|settlement| settlement.held.id).collect();
        let batch = batch.to_vec();
        self.send(ids, move |wire| {
            let batch = batch.clone();
            async move { wire.settle_with_bug(&batch).await }
        })
        .await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        let ids = holds.iter().map(|held| held.id).collect();
        let holds = holds.to_vec();
        self.send(ids, move |wire| {
            let holds = holds.clone();
            async move { wire.table.extend(&holds, hold).await }
        })
        .await
    }

    async fn extend_in_turn(&self, turn: ExtendInTurn) -> Result<Extended, StoreError> {
        self.send(
            vec![turn.held.id],
            move |wire| async move { wire.table.extend_in_turn(turn).await },
        )
        .await
    }
}

impl Delegates<dyn InspectStore> for Wire {
    fn delegate(&self) -> &dyn InspectStore {
        &self.table
    }
}

impl WakeStore for Wire {}

impl Delegates<dyn EndStore> for Wire {
    fn delegate(&self) -> &dyn EndStore {
        &self.table
    }
}

impl Delegates<dyn ReplayStore> for Wire {
    fn delegate(&self) -> &dyn ReplayStore {
        &self.table
    }
}

impl Delegates<dyn RegisterStore> for Wire {
    fn delegate(&self) -> &dyn RegisterStore {
        &self.table
    }
}

impl Delegates<dyn ParkStore> for Wire {
    fn delegate(&self) -> &dyn ParkStore {
        &self.table
    }
}

impl Delegates<dyn PauseStore> for Wire {
    fn delegate(&self) -> &dyn PauseStore {
        &self.table
    }
}

impl Delegates<dyn RetainStore> for Wire {
    fn delegate(&self) -> &dyn RetainStore {
        &self.table
    }
}

impl Delegates<dyn LetterStore> for Wire {
    fn delegate(&self) -> &dyn LetterStore {
        &self.table
    }
}
