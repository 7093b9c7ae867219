//! Mistakes planted on purpose, to show that the simulation finds them.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::order::AfterDead;
use sendoff_core::{EventId, Token};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::store::{Held, Outcome, SettleStore, Settled, Settlement, StoreError};
use tokio::time::sleep;

use super::wire::Wire;

/// A mistake planted on purpose, to show that the checker would find it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, clap::ValueEnum)]
pub enum Bug {
    /// Settlements change a row whoever holds it.
    NoFence,
    /// Now and then an extension reaches the database before the settlement that was sent first.
    ExtensionOvertakes,
    /// A settlement waits for a row that somebody else locked, and what did not come through is sent
    /// again whole, with everything that came later.
    WaitsForLockedRows,
    /// A locked batch is settled in one round trip and committed in the next, it has counters locked
    /// in between that every settlement needs, and no limit ends it.
    CommitsInTwoSteps,
    /// What waits in a lane while handlers hang is never released.
    HungHandlersPinLanes,
    /// A claim locks its rows in one round trip and commits in the next, and no limit ends it.
    LocksOverARoundTrip,
    /// A handler that panics when it is dropped takes its worker with it.
    PanicInDropKillsAWorker,
    /// Suspects wait until nothing else is owed.
    SuspectsStarve,
    /// Releases are never written.
    ReleasesStarve,
    /// A cursor is moved by whoever says so, whatever the epoch.
    CursorWithoutEpoch,
    /// A pair is taken from a node that missed one beat, without waiting for its lease to end.
    TakesFromTheLiving,
    /// Facts count as published before their target said so.
    AcknowledgedEarly,
    /// Settlements change events of a key whichever hold of it they name.
    NoKeyFence,
    /// Events from memory begin whatever lies below them in their key.
    NoGate,
    /// A run of a key goes on past events that are held by themselves.
    NoCut,
    /// A dead event holds back none of its key.
    ForgetPark,
    /// No node is told when to look again at a key that cannot be taken. It costs time, and nothing else.
    ForgetWake,
}

impl Bug {
    /// Whether sessions of ours have no limits on the server.
    pub(super) fn has_no_idle_limit(self) -> bool {
        matches!(self, Self::CommitsInTwoSteps | Self::LocksOverARoundTrip)
    }
}

/// What a node that sends everything again whole has to send.
#[derive(Debug, Clone, Default)]
pub(super) struct Unsent(Arc<Mutex<BTreeMap<EventId, Settlement>>>);

impl Unsent {
    /// Adds these, and returns everything there is.
    fn with(&self, batch: &[Settlement]) -> Vec<Settlement> {
        let mut unsent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        unsent.extend(batch.iter().map(|settlement| (settlement.held.id, settlement.clone())));
        unsent.values().cloned().collect()
    }

    fn sent(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl Wire {
    /// What becomes of a batch of settlements, with or without a bug.
    pub(super) async fn settle_with_bug(
        &self,
        batch: &[Settlement],
    ) -> Result<Settled, StoreError> {
        match self.bug {
            Some(Bug::WaitsForLockedRows) => {
                let whole = self.unsent.with(batch);
                while whole.iter().any(|settlement| self.table.is_locked(settlement.held.id)) {
                    sleep(Duration::from_millis(100)).await;
                }
                self.unsent.sent();
                self.settle_logged(&whole).await
            }
            Some(Bug::CommitsInTwoSteps) => {
                let _counters = self.counters.lock().await;
                self.settle_logged(batch).await
            }
            Some(Bug::ReleasesStarve) => {
                let (kept, rest): (Vec<_>, Vec<_>) =
                    batch.iter().cloned().partition(|sent| sent.outcome == Outcome::Released);
                let mut settled = self.settle_logged(&rest).await?;
                settled.applied.extend(kept.iter().map(|sent| sent.held.id));
                Ok(settled)
            }
            _ => self.settle_logged(batch).await,
        }
    }

    /// The settlement as it is carried out.
    pub(super) async fn altered(&self, sent: &Settlement) -> Result<Settlement, StoreError> {
        let mut altered = sent.clone();
        match self.bug {
            Some(Bug::NoFence) => {
                if let Some(due_at) = due_at(&self.table, sent.held.id).await? {
                    altered.held = Held::row(sent.held.id, Token::new(due_at));
                }
            }
            Some(Bug::ExtensionOvertakes) if sent.held.id.as_bytes()[15].is_multiple_of(16) => {
                self.table.extend(&[sent.held], Duration::from_secs(5)).await?;
            }
            Some(Bug::ForgetPark) => altered.outcome = skipped(&sent.outcome),
            _ => {}
        }
        Ok(altered)
    }
}

/// The same, where a dead event means nothing to those after it.
pub(super) fn skipped(outcome: &Outcome) -> Outcome {
    match outcome.clone() {
        Outcome::Dead { attempts, error, .. } => {
            Outcome::Dead { attempts, error, then: AfterDead::Skip }
        }
        other => other,
    }
}

async fn due_at(
    table: &MemoryStore,
    id: EventId,
) -> Result<Option<sendoff_core::Timestamp>, StoreError> {
    use sendoff_engine::store::InspectStore;
    Ok(table.find(id).await?.map(|row| row.due_at))
}
