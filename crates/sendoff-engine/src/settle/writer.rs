use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{limits, report};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, sleep_until, timeout};
use tracing::{error, info, warn};

use super::Completion;
use crate::handover::Handover;
use crate::store::{Held, OutboxStore, Outcome, Settlement, StoreError};

/// Writes settlements, give-ups and extensions, one statement after the other.
///
/// One writer for all three: an extension that overtook a settlement would make it look stale, and
/// the event would be delivered twice (G4). There is no timer in front of a settlement either:
/// completions gather while the previous statement is under way, so an idle node settles one event
/// at once and a busy one thousands together.
pub(crate) struct SettleWriter {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) completions: mpsc::Receiver<Completion>,
    /// What an extension extends by.
    pub(crate) hold: Duration,
    /// The shorter of the two kinds of hold, which sets the pace of extensions.
    pub(crate) shortest_hold: Duration,
    pub(crate) store_timeout: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl SettleWriter {
    /// Runs until every sender of completions is gone, then gives up what is still held.
    pub(crate) async fn run(mut self) {
        let pace = self.shortest_hold / 4;
        let mut extend_at = Instant::now() + pace;
        let mut batch = Vec::new();
        loop {
            let open = tokio::select! {
                biased;
                // Time first: under endless completions holds must still be extended.
                () = sleep_until(extend_at) => {
                    self.extend().await;
                    extend_at = Instant::now() + pace;
                    true
                }
                count = self.completions.recv_many(&mut batch, limits::BATCH_ROWS) => count > 0,
                () = self.handover.holds.unwanted() => true,
            };
            self.settle(std::mem::take(&mut batch)).await;
            self.release(self.handover.holds.take_unwanted()).await;
            if !open {
                break;
            }
        }
        self.release(self.handover.holds.take_all()).await;
    }

    async fn settle(&self, completions: Vec<Completion>) {
        if completions.is_empty() {
            return;
        }
        let holds = &self.handover.holds;
        let mut batch = Vec::with_capacity(completions.len());
        let mut runs = Vec::with_capacity(completions.len());
        for Completion { id, run, outcome } in completions {
            runs.push((id, run));
            // The token as it is now: an extension may have changed it since the run began.
            match holds.held(id, run) {
                Some(held) => batch.push(Settlement { held, outcome }),
                None => self.count_fenced(1),
            }
        }
        self.write(&batch).await;
        for (id, run) in runs {
            holds.forget(id, run);
        }
        self.handover.metrics.lane_depths(self.handover.lanes.depths());
    }

    /// Makes rows visible again for anybody.
    async fn release(&self, unwanted: Vec<Held>) {
        if unwanted.is_empty() {
            return;
        }
        info!(rows = unwanted.len(), "holds given up");
        let release = |held| Settlement { held, outcome: Outcome::Released };
        let batch: Vec<_> = unwanted.into_iter().map(release).collect();
        for part in batch.chunks(limits::BATCH_ROWS) {
            self.write(part).await;
        }
        self.handover.alarm.ring();
    }

    /// Writes a batch, however long it takes. A settlement that fails is not a failed delivery: it
    /// is tried until the database takes it, and what it refuses for good is left to run out.
    async fn write(&self, batch: &[Settlement]) {
        let mut parts = vec![batch];
        while let Some(part) = parts.pop() {
            match self.write_part(part).await {
                Ok(()) => {}
                // One row that cannot be written must not hold back the others: halve until it is
                // alone.
                Err(_) if part.len() > 1 => {
                    let (left, right) = part.split_at(part.len() / 2);
                    parts.extend([right, left]);
                }
                Err(error) => {
                    let id = part[0].held.id;
                    error!(event.id = %id, error = report(&error), "settlement refused");
                }
            }
        }
    }

    async fn write_part(&self, part: &[Settlement]) -> Result<(), StoreError> {
        if part.is_empty() {
            return Ok(());
        }
        let mut pause = FIRST_PAUSE;
        let mut first = true;
        loop {
            let answer = timeout(self.store_timeout, self.store.settle(part)).await;
            match answer.unwrap_or(Err(StoreError::Timeout)) {
                Ok(applied) => {
                    self.applied(part, &applied.into_iter().collect(), first);
                    return Ok(());
                }
                Err(error @ (StoreError::Refused(_) | StoreError::Closed)) => return Err(error),
                Err(error) => {
                    warn!(
                        error = report(&error),
                        rows = part.len(),
                        "settlement failed, trying again"
                    );
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                    first = false;
                }
            }
        }
    }

    fn applied(&self, part: &[Settlement], applied: &BTreeSet<sendoff_core::EventId>, first: bool) {
        for settlement in part.iter().filter(|s| applied.contains(&s.held.id)) {
            match &settlement.outcome {
                Outcome::Retry { delay, .. } => self.handover.alarm.ring_after(*delay),
                Outcome::Dead { attempts, error } => {
                    self.handover.metrics.dead();
                    error!(event.id = %settlement.held.id, attempts, error, "event is dead");
                }
                Outcome::Done | Outcome::Released => {}
            }
        }
        // After a lost reply our own first try may have been carried out: nobody fenced us then.
        if first {
            self.count_fenced(part.len() - applied.len());
        }
    }

    fn count_fenced(&self, count: usize) {
        if count > 0 {
            self.handover.metrics.fenced(count as u64);
            warn!(count, "settlements fenced: the rows were no longer held");
        }
    }

    async fn extend(&self) {
        let ending = self.handover.holds.ending(self.shortest_hold / 2);
        for part in ending.chunks(limits::BATCH_ROWS) {
            let until = Instant::now() + self.hold;
            let answer = timeout(self.store_timeout, self.store.extend(part, self.hold)).await;
            match answer.unwrap_or(Err(StoreError::Timeout)) {
                Ok(extended) => {
                    if extended.len() < part.len() {
                        warn!(lost = part.len() - extended.len(), "holds lost to others");
                    }
                    self.handover.holds.extended(part, &extended, until);
                }
                Err(error) => {
                    warn!(error = report(&error), holds = part.len(), "holds not extended");
                    return;
                }
            }
        }
    }
}
