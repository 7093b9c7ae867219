use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Attempt, EventId};
use tokio::time::{Instant, sleep_until};
use tracing::debug;

use super::RelayStore;
use crate::handover::Deadline;
use crate::settle::{Carry, Fate, Item, Over, Refusals, Waits, put_off, send};
use crate::store::{Held, Outcome, StoreError};

/// What holds of a relay live by.
#[derive(Debug, Clone, Copy)]
pub(super) struct Terms {
    pub(super) hold: Duration,
    /// How long a statement may take.
    pub(super) limit: Duration,
    pub(super) refusals: Refusals,
}

/// What becomes of an event, and the run that it ends; none where nothing ran.
#[derive(Debug)]
pub(super) struct Answer {
    pub(super) outcome: Outcome,
    pub(super) attempt: Option<Attempt>,
}

pub(super) type Answers = BTreeMap<EventId, Answer>;

/// What became of a batch of settlements.
#[derive(Debug, Default)]
pub(super) struct Settled {
    /// What was written, or may have been.
    pub(super) written: Vec<Outcome>,
    /// No longer ours: somebody else has them, or they are terminal.
    pub(super) fenced: usize,
    /// Not written yet, or not at all.
    pub(super) unsettled: usize,
}

impl Settled {
    pub(super) fn add(&mut self, other: Self) {
        self.written.extend(other.written);
        self.fenced += other.fenced;
        self.unsettled += other.unsettled;
    }
}

/// The settlements of one batch on their way into the database.
pub(super) struct Settling {
    store: Arc<dyn RelayStore>,
    limit: Duration,
    /// When the holds end.
    until: Vec<Deadline>,
    carry: Carry<()>,
    settled: Settled,
    refused: Vec<Held>,
    /// What the database said when it was last unavailable.
    failed: Option<StoreError>,
}

/// Why no more settlements were sent.
enum End {
    AllOver,
    /// What is left waits for rows of its own, not for the database.
    Waiting,
    /// The holds have ended.
    TooLate,
}

/// How long whoever commits waits for rows that somebody has locked. After that they are settled
/// beside whatever comes next.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Settling {
    pub(super) fn new(
        store: Arc<dyn RelayStore>,
        terms: Terms,
        until: Vec<Deadline>,
        items: Vec<Item<()>>,
    ) -> Self {
        let Terms { hold, limit, refusals } = terms;
        let waits = Waits { row: hold / 40, database: LONGEST_PAUSE };
        let mut carry = Carry::new(waits, refusals);
        carry.add(items, Instant::now());
        let (settled, refused) = (Settled::default(), Vec::new());
        Self { store, limit, until, carry, settled, refused, failed: None }
    }

    /// Sends until the database has taken everything or the holds are over: a settlement that fails
    /// is not a failed delivery. Rows that are locked for longer are waited for by a task of their
    /// own.
    pub(super) async fn run(mut self) -> Result<Settled, StoreError> {
        let end = self.send(Some(PATIENCE)).await?;
        let left = self.carry.ids().len();
        match (end, self.failed.take()) {
            (End::TooLate, Some(error)) => return Err(error),
            (End::Waiting, _) => {
                debug!(rows = left, "somebody has rows of this batch locked; it waits for them");
                let settled = std::mem::take(&mut self.settled);
                // Bounded by the holds, and nobody waits for it: what it does not reach runs out.
                tokio::spawn(async move {
                    let _ = self.send(None).await;
                });
                return Ok(Settled { unsettled: settled.unsettled + left, ..settled });
            }
            (End::AllOver | End::TooLate, _) => {}
        }
        self.settled.unsettled += left;
        Ok(self.settled)
    }

    async fn send(&mut self, patience: Option<Duration>) -> Result<End, StoreError> {
        let began = Instant::now();
        while let Some(at) = self.carry.next_at() {
            let now = Instant::now();
            let pause = at.saturating_duration_since(now);
            if self.until.iter().all(|until| until.is_within(pause)) {
                return Ok(End::TooLate);
            }
            let impatient = patience.is_some_and(|patience| at > now && at > began + patience);
            if impatient && self.carry.takes_more() {
                return Ok(End::Waiting);
            }
            sleep_until(at).await;
            let batch = self.carry.due(Instant::now());
            let answer = send(&*self.store, &batch, self.limit).await;
            let over = self.carry.answered(batch, answer.as_ref().cloned(), Instant::now());
            over.into_iter().for_each(|over| self.end(over));
            match answer {
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(StoreError::Refused(_) | StoreError::Busy(_)) | Ok(_) => self.failed = None,
                Err(error) => self.failed = Some(error),
            }
            put_off(&*self.store, std::mem::take(&mut self.refused), self.limit).await;
        }
        Ok(End::AllOver)
    }

    fn end(&mut self, over: Over<()>) {
        let Over { item, fate } = over;
        let settlement = item.settlement;
        match fate {
            // After a lost reply our own first try may have been carried out.
            Fate::Applied | Fate::InDoubt => self.settled.written.push(settlement.outcome),
            Fate::Fenced => self.settled.fenced += 1,
            Fate::Closed => self.settled.unsettled += 1,
            Fate::Refused => {
                self.settled.unsettled += 1;
                // What is given up runs out by itself.
                if !settlement.outcome.is_given_up() {
                    self.refused.push(settlement.held);
                }
            }
        }
    }
}
