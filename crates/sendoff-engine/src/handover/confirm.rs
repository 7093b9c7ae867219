use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{limits, report};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Handover, HotRow};
use crate::lock::lock;
use crate::store::{OutboxStore, StoreError};

/// Proves commits we did not make ourselves before their events are delivered from memory.
///
/// A driver's `commit()` can report success for a transaction the server rolled back, and a
/// rolled-back savepoint loses the row of a committed one (G3). So released events wait here until
/// one batched SELECT has seen them. One that is not seen is left to the poller, if it exists.
#[derive(Debug)]
pub(crate) struct Confirmer {
    released: Mutex<Vec<HotRow>>,
    capacity: usize,
    some: Notify,
}

impl Confirmer {
    pub(crate) fn new(capacity: usize) -> Self {
        Self { released: Mutex::default(), capacity, some: Notify::new() }
    }

    /// Queues rows for the proof; gives back those that do not fit.
    pub(crate) fn submit(&self, mut rows: Vec<HotRow>) -> Vec<HotRow> {
        let mut released = lock(&self.released);
        let room = self.capacity.saturating_sub(released.len());
        let rest = rows.split_off(rows.len().min(room));
        released.append(&mut rows);
        self.some.notify_one();
        rest
    }

    async fn next_batch(&self) -> Vec<HotRow> {
        loop {
            let batch = self.take(limits::BATCH_ROWS);
            if !batch.is_empty() {
                return batch;
            }
            self.some.notified().await;
        }
    }

    fn take(&self, most: usize) -> Vec<HotRow> {
        let mut released = lock(&self.released);
        let size = released.len().min(most);
        released.drain(..size).collect()
    }

    /// Runs until told to stop. A proof that is under way then is finished first, and what still
    /// waits for one is given up, so that others can claim it at once.
    pub(crate) async fn run(
        handover: Arc<Handover>,
        store: Arc<dyn OutboxStore>,
        limit: Duration,
        stop: CancellationToken,
    ) {
        let confirmer = &handover.confirmer;
        while let Some(rows) = stop.run_until_cancelled(confirmer.next_batch()).await {
            let holds: Vec<_> = rows.iter().map(HotRow::held).collect();
            let answer = tokio::time::timeout(limit, store.confirm(&holds)).await;
            match answer.unwrap_or(Err(StoreError::Timeout)) {
                Ok(proved) => {
                    let unproved = rows.len().saturating_sub(proved.len());
                    if unproved > 0 {
                        debug!(unproved, "released, but not committed: left to the poller");
                    }
                    let proved: BTreeSet<_> = proved.into_iter().collect();
                    for row in rows.into_iter().filter(|row| proved.contains(&row.event.id())) {
                        handover.offer_hot(row);
                    }
                }
                Err(error) => {
                    let (error, rows) = (report(&error), rows.len());
                    warn!(error, rows, "commits not proved: left to the poller");
                }
            }
        }
        for row in confirmer.take(usize::MAX) {
            handover.holds.give_up(row.held());
        }
    }
}
