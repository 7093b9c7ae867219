//! Workers that are stuck, and events that wait for them.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tracing::warn;

use crate::handover::Handover;
use crate::lock::lock;

/// Since when each worker has been running a handler; none while it is free.
#[derive(Debug)]
pub(crate) struct Slots(Mutex<Vec<Option<Instant>>>);

/// A run of a worker, until it is dropped.
#[derive(Debug)]
pub(crate) struct Running<'s> {
    slots: &'s Slots,
    worker: usize,
}

impl Slots {
    pub(crate) fn new(workers: usize) -> Self {
        Self(Mutex::new(vec![None; workers]))
    }

    pub(crate) fn begin(&self, worker: usize) -> Running<'_> {
        self.set(worker, Some(Instant::now()));
        Running { slots: self, worker }
    }

    fn set(&self, worker: usize, since: Option<Instant>) {
        if let Some(slot) = lock(&self.0).get_mut(worker) {
            *slot = since;
        }
    }

    /// Whether every worker has been running one handler for `limit` or longer.
    fn all_stuck(&self, limit: Duration) -> bool {
        lock(&self.0).iter().all(|slot| slot.is_some_and(|since| since.elapsed() >= limit))
    }
}

impl Drop for Running<'_> {
    fn drop(&mut self) {
        self.slots.set(self.worker, None);
    }
}

/// Sees to it that nothing waits here for ever while others could deliver it: an event that no worker
/// began in time is released, and once every worker is stuck nothing is kept or taken at all.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) handover: Arc<Handover>,
    pub(crate) slots: Arc<Slots>,
    /// How long an event may wait for a worker, and after how long a run counts as stuck.
    pub(crate) limit: Duration,
}

/// Looks within the limit, so that an event waits a quarter longer at most.
const LOOKS: u32 = 4;

impl Watch {
    pub(crate) async fn run(self) {
        loop {
            sleep(self.limit / LOOKS).await;
            self.look();
        }
    }

    fn look(&self) {
        if self.slots.all_stuck(self.limit)
            && let Some(waiting) = self.handover.lanes.pause()
        {
            let (limit, rows) = (self.limit, waiting.len());
            warn!(?limit, rows, "every worker is stuck: what waits is released, nothing is taken");
        }
        // Dropped with their tickets, and that releases them.
        let overdue = self.handover.lanes.take_overdue(self.limit);
        if !overdue.is_empty() {
            let (limit, rows) = (self.limit, overdue.len());
            warn!(?limit, rows, "no worker was free for too long: released to others");
        }
    }
}
