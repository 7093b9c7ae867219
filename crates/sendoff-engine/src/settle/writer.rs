use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{EventId, limits, report};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tracing::{debug, error, warn};

use super::Completion;
use super::batch::Batch;
use crate::handover::{Deadline, Handover};
use crate::store::{OutboxStore, Outcome, StoreError};

/// Writes settlements, give-ups and extensions, one statement after the other.
///
/// One writer for all three: an extension that overtook a settlement would make it look stale, and
/// the event would be delivered twice (G4). There is no timer in front of a settlement either:
/// completions gather while the previous statement is under way, so an idle node settles one event
/// at once and a busy one thousands together.
pub(crate) struct SettleWriter {
    store: Arc<dyn OutboxStore>,
    handover: Arc<Handover>,
    completions: mpsc::Receiver<Completion>,
    pace: Pace,
    /// What is to be written, the next one first. Empty unless the database failed us.
    backlog: VecDeque<Batch>,
    retry_at: Instant,
    pause: Duration,
    extend_at: Instant,
}

/// How the writer keeps time.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Pace {
    /// What an extension extends by.
    pub(crate) hold: Duration,
    /// How often to look for holds to extend; twice within the time they are looked at ahead.
    pub(crate) extend_every: Duration,
    /// How long one statement may take.
    pub(crate) store_timeout: Duration,
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);

impl SettleWriter {
    pub(crate) fn new(
        store: Arc<dyn OutboxStore>,
        handover: Arc<Handover>,
        completions: mpsc::Receiver<Completion>,
        pace: Pace,
    ) -> Self {
        let (backlog, retry_at, pause) = (VecDeque::new(), Instant::now(), FIRST_PAUSE);
        let extend_at = Instant::now() + pace.extend_every;
        Self { store, handover, completions, pace, backlog, retry_at, pause, extend_at }
    }

    /// Runs until every sender of completions is gone, then gives up what is still held.
    ///
    /// After a panic it can be run again: what it had in hand is given up by its tickets.
    pub(crate) async fn run(&mut self) {
        let mut completed = Vec::new();
        let mut open = true;
        while open || !self.backlog.is_empty() {
            // While the database refuses what there is, nothing new is taken: workers wait.
            let failing = !self.backlog.is_empty();
            tokio::select! {
                biased;
                // Time first: under endless completions holds must still be extended.
                () = sleep_until(self.extend_at) => self.extend().await,
                () = sleep_until(self.retry_at), if failing => self.write().await,
                count = self.completions.recv_many(&mut completed, limits::BATCH_ROWS), if !failing => {
                    open = count > 0;
                    self.settle(&mut completed).await;
                }
                () = self.handover.holds.unwanted(), if !failing => self.release().await,
            }
        }
        self.backlog.push_back(Batch::releasing(self.handover.holds.take_all()));
        while !self.backlog.is_empty() {
            sleep_until(self.retry_at).await;
            self.write().await;
        }
    }

    async fn settle(&mut self, completed: &mut Vec<Completion>) {
        let mut batch = Batch::default();
        for Completion { ticket, outcome } in completed.drain(..) {
            // The token as it is now: an extension may have changed it since the run began.
            match ticket.held() {
                Some(held) => batch.push(held, outcome, ticket),
                None => self.count_fenced(1),
            }
        }
        self.backlog.push_back(batch);
        self.write().await;
        self.handover.metrics.lane_depths(self.handover.lanes.depths());
    }

    /// Makes rows nobody wants here visible again, for anybody.
    async fn release(&mut self) {
        let unwanted = self.handover.holds.take_unwanted();
        debug!(rows = unwanted.len(), "holds given up");
        self.backlog.push_back(Batch::releasing(unwanted));
        self.write().await;
        self.handover.alarm.ring();
    }

    /// Writes the backlog as far as the database lets us. A settlement that fails is not a failed
    /// delivery: it is tried until it is taken, and what is refused for good is left to run out.
    async fn write(&mut self) {
        while let Some(mut batch) = self.backlog.pop_front() {
            if Instant::now() >= self.extend_at {
                self.extend().await;
            }
            batch.refresh();
            if batch.settlements.len() > limits::BATCH_ROWS {
                self.backlog.push_front(batch.split_off(limits::BATCH_ROWS));
            }
            match self.send(&batch).await {
                Ok(applied) => self.written(batch, &applied),
                Err(error @ (StoreError::Refused(_) | StoreError::Closed)) => {
                    // One row that cannot be written must not hold back the others: halve until it
                    // is alone.
                    if batch.settlements.len() > 1 {
                        let rest = batch.split_off(batch.settlements.len() / 2);
                        self.backlog.push_front(rest);
                        self.backlog.push_front(batch);
                    } else {
                        error!(error = report(&error), "settlement refused");
                        batch.finish();
                    }
                }
                Err(error) => {
                    let rows = batch.settlements.len();
                    warn!(error = report(&error), rows, "settlement failed, trying again");
                    batch.in_doubt = true;
                    self.backlog.push_front(batch);
                    self.retry_at = Instant::now() + self.pause;
                    self.pause = (self.pause * 2).min(LONGEST_PAUSE).min(self.pace.extend_every);
                    return;
                }
            }
        }
        self.pause = FIRST_PAUSE;
    }

    async fn send(&self, batch: &Batch) -> Result<BTreeSet<EventId>, StoreError> {
        if batch.settlements.is_empty() {
            return Ok(BTreeSet::new());
        }
        let statement = self.store.settle(&batch.settlements);
        let answer = timeout(self.pace.store_timeout, statement).await;
        Ok(answer.unwrap_or(Err(StoreError::Timeout))?.applied.into_iter().collect())
    }

    fn written(&self, batch: Batch, applied: &BTreeSet<EventId>) {
        for settlement in batch.settlements.iter().filter(|s| applied.contains(&s.held.id)) {
            match &settlement.outcome {
                Outcome::Retry { delay, .. } => self.handover.alarm.ring_after(*delay),
                Outcome::Dead { attempts, error } => {
                    self.handover.metrics.dead();
                    error!(event.id = %settlement.held.id, attempts, error, "event is dead");
                }
                Outcome::Done | Outcome::Released | Outcome::Restored { .. } => {}
            }
        }
        // After a lost reply our own first try may have been carried out: nobody fenced us then.
        if !batch.in_doubt {
            self.count_fenced(batch.settlements.len().saturating_sub(applied.len()));
        }
        batch.finish();
    }

    fn count_fenced(&self, count: usize) {
        if count > 0 {
            self.handover.metrics.fenced(count as u64);
            warn!(count, "settlements fenced: the rows were no longer held");
        }
    }

    async fn extend(&mut self) {
        self.extend_at = Instant::now() + self.pace.extend_every;
        // A try of these may have been carried out although its reply was lost, or may still be: it
        // must not find another token.
        let in_doubt: BTreeSet<_> =
            self.backlog.iter().flat_map(|batch| &batch.settlements).map(|s| s.held.id).collect();
        let mut ending = self.handover.holds.ending();
        ending.retain(|held| !in_doubt.contains(&held.id));
        for part in ending.chunks(limits::BATCH_ROWS) {
            let until = Deadline::after(self.pace.hold);
            let statement = self.store.extend(part, self.pace.hold);
            let answer = timeout(self.pace.store_timeout, statement).await;
            match answer.unwrap_or(Err(StoreError::Timeout)) {
                Ok(extended) => {
                    let lost = part.len() - extended.held.len() - extended.busy.len();
                    if lost > 0 {
                        warn!(lost, "holds lost to others");
                    }
                    self.handover.holds.extended(part, &extended.held, until);
                }
                Err(error) => {
                    warn!(error = report(&error), holds = part.len(), "holds not extended");
                    return;
                }
            }
        }
    }
}
