use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Token};
use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, Nest, Release,
    WriteError,
};
use sendoff_engine::memory::{MemorySavepoint, MemoryStore, MemoryTx};
use sendoff_engine::store::{
    Born, Claim, ClaimStore, Claimed, Counts, Extended, Held, InspectStore, NewRow, Purge, Purged,
    RetainStore, Row, SettleStore, Settled, Settlement, StoreError, TopicCounts, WakeStore,
};
use tokio::time::sleep;

use super::gate::Gate;
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
    pub(super) bug: Option<Bug>,
    /// Slow statements under way.
    pub(super) jams: Arc<AtomicUsize>,
}

/// A mistake planted on purpose, to show that the checker would find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Bug {
    /// Settlements change a row whoever holds it.
    NoFence,
    /// Now and then an extension reaches the database before the settlement that was sent first.
    ExtensionOvertakes,
}

/// A statement that takes longer than this may cost its node some holds.
const SLOW: Duration = Duration::from_millis(500);

/// A slow statement, which holds up everything else its node has to say.
struct Jam<'w>(&'w Wire);

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
struct Unanswered<'w> {
    wire: &'w Wire,
    ids: Vec<EventId>,
}

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        self.wire.misfortune(FaultKind::LostReply, &self.ids);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the link broke")]
struct LinkBroke;

fn broken<T>() -> Result<T, StoreError> {
    Err(StoreError::Unavailable(LinkBroke.into()))
}

impl Wire {
    /// Sends a statement about `ids`, with whatever happens to it on the way.
    async fn send<T, Fut>(
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
        let mut unanswered = Unanswered { wire: self, ids };
        let (there, back) = (self.weather.latency(), self.weather.latency());
        let _jam = (there + back > SLOW).then(|| Jam::of(self));
        self.gate.pass().await;
        sleep(there).await;
        // Logged before it takes effect.
        let misfortune = |kind| self.misfortune(kind, &unanswered.ids);
        let answer = match fate {
            Fate::Fine => statement(self.clone()).await,
            Fate::RequestLost => {
                misfortune(FaultKind::Partition);
                broken()
            }
            Fate::ReplyLost => {
                misfortune(FaultKind::LostReply);
                statement(self.clone()).await.and(broken())
            }
            Fate::Late(after) => {
                misfortune(FaultKind::LateReply);
                let wire = self.clone();
                // A statement on the wire outlives the node that sent it.
                tokio::spawn(async move {
                    sleep(after).await;
                    let _ = statement(wire).await;
                });
                broken()
            }
            Fate::Twice => {
                misfortune(FaultKind::DuplicatedReply);
                let _ = statement(self.clone()).await;
                statement(self.clone()).await
            }
        };
        sleep(back).await;
        self.gate.pass().await;
        unanswered.ids.clear();
        answer
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
    async fn settle_logged(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        // One after the other, and yet at once: a table in memory never makes anybody wait.
        let mut settled = Settled::default();
        for (sent, carried_out) in self.with_bug(batch).await? {
            let row = self.table.find(sent.held.id).await?;
            let current = row.is_some_and(|row| {
                row.status.is_pending() && row.due_at == sent.held.by.token().due_at()
            });
            let changed = self.table.settle(&[carried_out]).await?;
            if changed.busy.is_empty() {
                self.history.settled(&self.node, &sent, !changed.applied.is_empty(), current);
            }
            settled.applied.extend(changed.applied);
            settled.busy.extend(changed.busy);
        }
        Ok(settled)
    }

    /// Each settlement as it was sent and as it is carried out.
    async fn with_bug(
        &self,
        batch: &[Settlement],
    ) -> Result<Vec<(Settlement, Settlement)>, StoreError> {
        let mut pairs = Vec::with_capacity(batch.len());
        for sent in batch {
            let mut carried_out = sent.clone();
            match self.bug {
                Some(Bug::NoFence) => {
                    if let Some(row) = self.table.find(sent.held.id).await? {
                        carried_out.held = Held::row(sent.held.id, Token::new(row.due_at));
                    }
                }
                Some(Bug::ExtensionOvertakes) if sent.held.id.as_bytes()[15] % 16 == 0 => {
                    self.table.extend(&[sent.held], Duration::from_secs(5)).await?;
                }
                Some(Bug::ExtensionOvertakes) | None => {}
            }
            pairs.push((sent.clone(), carried_out));
        }
        Ok(pairs)
    }
}

#[async_trait]
impl ClaimStore for Wire {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Vec<Claimed>, StoreError> {
        let owner = claim.owner.to_owned();
        let Claim { limit, bytes, hold, skip_recent, window, from, suspects, .. } = *claim;
        self.send(Vec::new(), move |wire| {
            let owner = owner.clone();
            async move {
                let owner = owner.as_str();
                let claim =
                    Claim { owner, limit, bytes, hold, skip_recent, window, from, suspects };
                wire.table.claim(&claim).await
            }
        })
        .await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        let holds = holds.to_vec();
        self.send(Vec::new(), move |wire| {
            let holds = holds.clone();
            async move { wire.table.confirm(&holds).await }
        })
        .await
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.send(Vec::new(), move |wire| async move { wire.table.rescue(longest).await }).await
    }
}

#[async_trait]
impl SettleStore for Wire {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        let ids = batch.iter().map(|settlement| settlement.held.id).collect();
        let batch = batch.to_vec();
        self.send(ids, move |wire| {
            let batch = batch.clone();
            async move { wire.settle_logged(&batch).await }
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
}

#[async_trait]
impl InspectStore for Wire {
    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.table.find(id).await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.table.counts().await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.table.topics().await
    }

    async fn oldest_lag(&self) -> Result<Duration, StoreError> {
        self.table.oldest_lag().await
    }
}

impl WakeStore for Wire {}

#[async_trait]
impl RetainStore for Wire {
    fn keeps(&self) -> Option<Duration> {
        self.table.keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.table.purge(purge).await
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.table.purgeable(purge).await
    }
}

impl Begin<()> for Wire {
    type Tx = MemoryTx;

    async fn begin(&self, (): ()) -> Result<MemoryTx, BeginError> {
        self.gate.pass().await;
        sleep(self.weather.latency()).await;
        self.table.transaction().map_err(|error| BeginError(error.into()))
    }
}

impl Capture<MemoryTx> for Wire {
    async fn insert(&self, tx: &mut MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        self.gate.pass().await;
        sleep(self.weather.latency()).await;
        let born = self.table.insert(tx, rows).await;
        sleep(self.weather.latency()).await;
        self.gate.pass().await;
        born
    }
}

impl Commit<MemoryTx> for Wire {
    async fn commit(&self, tx: MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        let fate = self.weather.fate();
        self.gate.pass().await;
        sleep(self.weather.latency()).await;
        let unknown = || {
            let mark = CommitMark::new(rows.iter().map(|row| row.event.id()).collect());
            Err(CommitError::Unknown { mark, source: LinkBroke.into() })
        };
        let answer = match fate {
            // The server rolls back what lost its connection.
            Fate::RequestLost | Fate::Late(_) => unknown(),
            Fate::ReplyLost => self.table.commit(tx, rows).await.and_then(|_| unknown()),
            Fate::Fine | Fate::Twice => self.table.commit(tx, rows).await,
        };
        sleep(self.weather.latency()).await;
        self.gate.pass().await;
        answer
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), CommitError> {
        self.table.rollback(tx).await
    }
}

impl<'t> Nest<'t, MemoryTx> for Wire {
    type Nested = MemorySavepoint<'t>;

    fn savepoint(
        &'t self,
        tx: &'t mut MemoryTx,
    ) -> BoxFuture<'t, Result<MemorySavepoint<'t>, BeginError>> {
        self.table.savepoint(tx)
    }
}

impl<'t> Release<'t, MemorySavepoint<'t>> for Wire {
    fn release(&'t self, nested: MemorySavepoint<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        self.table.release(nested)
    }

    fn roll_back_to(
        &'t self,
        nested: MemorySavepoint<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        self.table.roll_back_to(nested)
    }
}
