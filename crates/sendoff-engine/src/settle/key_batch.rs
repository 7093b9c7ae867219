//! Settlements of one batch of keys of a relay, on their way into the database.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::Instant;
use tracing::debug;

use super::{Carry, Fate, KEPT, Over, SettledBatch, Terms, Waits, decided};
use crate::relay::RelayStore;
use crate::source::{Holds, KeyEnd};
use crate::store::{ExtendKeys, RunEnd, StoreError, within};
use crate::until::until;

/// The ends of one batch's keys. Sent until the database has taken them, or the holds are over. While somebody
/// has rows of them locked, their keys are held on, so that nothing is delivered again meanwhile.
pub(crate) struct KeySettling {
    store: Arc<dyn RelayStore>,
    owner: Arc<str>,
    terms: Terms,
    carry: Carry<KeyEnd>,
    /// Until when the last hold is certain.
    end: Instant,
    extend_at: Instant,
    /// What this consumer has in flight: no key is held on when that is too much.
    holds: Arc<Holds>,
    settled: SettledBatch,
}

/// How long whoever commits waits for what somebody has locked. After that it is settled beside whatever
/// comes next.
const PATIENCE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl KeySettling {
    pub(crate) fn new(
        store: Arc<dyn RelayStore>,
        owner: Arc<str>,
        terms: Terms,
        holds: Arc<Holds>,
        ends: Vec<KeyEnd>,
    ) -> Self {
        let waits = Waits { row: terms.hold / 40, database: LONGEST_PAUSE };
        let mut carry = Carry::new(waits, terms.refusals);
        let now = Instant::now();
        carry.add(ends, now);
        let (end, extend_at) = (now + terms.hold, now + terms.hold / 3);
        let settled = SettledBatch::default();
        Self { store, owner, terms, carry, end, extend_at, holds, settled }
    }

    pub(crate) async fn run(mut self) -> Result<SettledBatch, StoreError> {
        let patience = Instant::now() + PATIENCE;
        let failed = self.send(Some(patience)).await?;
        if self.carry.next_at().is_none() {
            return Ok(self.settled);
        }
        if let Some(error) = failed {
            return Err(error);
        }
        let left = self.carry.ids().len();
        debug!(keys = left, "somebody has rows of this batch locked; it waits for them");
        let mut settled = std::mem::take(&mut self.settled);
        settled.unsettled += left;
        // Nobody waits for it: it ends with the locks, or when others have the keys.
        tokio::spawn(async move {
            let _ = self.send(None).await;
        });
        Ok(settled)
    }

    /// Sends until everything is taken; until `patience` is over where something is locked, or until the
    /// holds are where the database does not answer, and says why.
    async fn send(&mut self, patience: Option<Instant>) -> Result<Option<StoreError>, StoreError> {
        let mut failed = None;
        while let Some(at) = self.carry.next_at() {
            let limit = if failed.is_some() { Some(self.end) } else { patience };
            let impatient = limit.is_some_and(|limit| at > limit);
            if at > Instant::now() && (impatient || Instant::now() > self.end) {
                return Ok(failed);
            }
            until(at.min(self.extend_at)).await;
            if Instant::now() >= self.extend_at {
                self.extend().await;
                continue;
            }
            let batch = self.carry.due(Instant::now());
            let ends: Vec<RunEnd> = batch.iter().map(KeyEnd::run_end).collect();
            let asked = self.store.settle_runs(&self.owner, &ends);
            let answer = within(self.terms.limit, asked).await;
            let over = self.carry.answered(batch, decided(&answer), Instant::now());
            over.into_iter().for_each(|over| self.end(over));
            failed = match answer {
                Err(StoreError::Closed) => return Err(StoreError::Closed),
                Err(StoreError::Refused(_) | StoreError::Busy(_)) | Ok(_) => None,
                Err(error) => Some(error),
            };
        }
        Ok(None)
    }

    /// Holds the keys on that are not settled, whose rows somebody has locked: their entries are not.
    async fn extend(&mut self) {
        let hold = self.terms.hold;
        let (end, keys) = (Instant::now() + hold, self.carry.items().map(|end| end.held.clone()));
        let keys: Vec<_> = keys.collect();
        let extend = ExtendKeys { owner: &self.owner, keys: &keys, hold };
        let extended = within(self.terms.limit, self.store.extend_keys(&extend)).await;
        let is_held = extended.as_ref().is_ok_and(|keys| !keys.held.is_empty());
        if is_held && self.holds.len() <= KEPT {
            self.end = end;
        }
        self.extend_at = Instant::now() + hold / if is_held { 3 } else { 12 };
    }

    fn end(&mut self, Over { item: end, fate }: Over<KeyEnd>) {
        for row in end.rows {
            match fate {
                // After a lost reply our own first try may have been carried out.
                Fate::Applied | Fate::InDoubt => self.settled.written.push(row.outcome),
                Fate::Fenced => self.settled.fenced += 1,
                Fate::Closed | Fate::Refused => self.settled.unsettled += 1,
            }
            if let Some(held) = row.ticket.held() {
                row.ticket.settled(held);
            }
        }
    }
}
