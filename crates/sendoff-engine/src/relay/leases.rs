use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{EventId, Timestamp, report};
use tokio::runtime::Handle;
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use super::RelayStore;
use crate::handover::Deadline;
use crate::lock::lock;
use crate::store::{Claimed, Held, Outcome, Settlement, StoreError};

/// The holds of one batch: tokens, when their rows were due, and until when they are certain.
///
/// Dropped with holds still in it, it gives them up by itself where a runtime is there to do it.
pub(super) struct Leases {
    store: Arc<dyn RelayStore>,
    hold: Duration,
    store_timeout: Duration,
    table: Mutex<Table>,
}

struct Table {
    rows: BTreeMap<EventId, Lease>,
    until: Deadline,
}

struct Lease {
    /// None once the database said that somebody else has the row.
    held: Option<Held>,
    was_due: Timestamp,
}

/// What became of a batch of settlements.
pub(super) struct Settled {
    pub(super) settlements: Vec<Settlement>,
    pub(super) applied: BTreeSet<EventId>,
    /// Rows that were no longer ours to begin with.
    pub(super) lost: usize,
    /// An answer was lost on the way, so what is missing may have been carried out all the same.
    pub(super) in_doubt: bool,
}

const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

impl Leases {
    pub(super) fn new(
        store: Arc<dyn RelayStore>,
        hold: Duration,
        store_timeout: Duration,
        rows: &[Claimed],
        until: Deadline,
    ) -> Self {
        let lease = |row: &Claimed| {
            let held = Some(Held::row(row.id, row.token));
            (row.id, Lease { held, was_due: row.was_due })
        };
        let rows = rows.iter().map(lease).collect();
        Self { store, hold, store_timeout, table: Mutex::new(Table { rows, until }) }
    }

    /// Whether the row is certainly ours now (I1).
    pub(super) fn is_held(&self, id: EventId) -> bool {
        let table = lock(&self.table);
        !table.until.is_past() && table.rows.get(&id).is_some_and(|lease| lease.held.is_some())
    }

    /// Holds everything for longer, and says how many rows were lost to others.
    ///
    /// Must be awaited to its end: otherwise nobody knows the tokens any more, and the holds are
    /// given up for lost.
    pub(super) async fn extend(&self) -> Result<usize, StoreError> {
        let asked: Vec<Held> =
            lock(&self.table).rows.values().filter_map(|lease| lease.held).collect();
        if asked.is_empty() {
            return Ok(0);
        }
        let until = Deadline::after(self.hold);
        let answer = timeout(self.store_timeout, self.store.extend(&asked, self.hold)).await;
        let extended = answer.unwrap_or(Err(StoreError::Timeout))?;
        let mut table = lock(&self.table);
        let mut tokens: BTreeMap<_, _> =
            extended.held.into_iter().map(|held| (held.id, held)).collect();
        for (id, lease) in &mut table.rows {
            lease.held = tokens.remove(id);
        }
        table.until = until;
        let lost = asked.len() - table.rows.values().filter(|lease| lease.held.is_some()).count();
        if lost > 0 {
            warn!(lost, "holds lost to others");
        }
        Ok(lost)
    }

    /// Puts these rows back before the others are done, without waiting for it, and says how many.
    pub(super) fn release(&self, ids: impl Iterator<Item = EventId>) -> usize {
        let mut table = lock(&self.table);
        let rows: BTreeMap<_, _> = ids.filter_map(|id| table.rows.remove_entry(&id)).collect();
        let (released, until) = (rows.len(), table.until);
        drop(table);
        // As every batch that is dropped.
        drop(Self {
            store: self.store.clone(),
            hold: self.hold,
            store_timeout: self.store_timeout,
            table: Mutex::new(Table { rows, until }),
        });
        released
    }

    /// Settles each row by its answer, and puts back what has none. Tried until the database takes
    /// it or the holds are over: a settlement that fails is not a failed delivery.
    pub(super) async fn settle(
        &self,
        mut answers: BTreeMap<EventId, Outcome>,
    ) -> Result<Settled, StoreError> {
        let rows = std::mem::take(&mut lock(&self.table).rows);
        let settlement = |(id, lease): (EventId, Lease)| {
            let restored = Outcome::Restored { due_at: lease.was_due };
            let outcome = answers.remove(&id).unwrap_or(restored);
            lease.held.map(|held| Settlement { held, outcome })
        };
        let asked = rows.len();
        let batch: Vec<Settlement> = rows.into_iter().filter_map(settlement).collect();
        let lost = asked - batch.len();
        let until = lock(&self.table).until;
        let (mut pause, mut in_doubt) = (FIRST_PAUSE, false);
        loop {
            let answer = timeout(self.store_timeout, self.store.settle(&batch)).await;
            match answer.unwrap_or(Err(StoreError::Timeout)) {
                Ok(answer) => {
                    let applied = answer.applied.into_iter().collect();
                    return Ok(Settled { settlements: batch, applied, lost, in_doubt });
                }
                Err(error @ (StoreError::Unavailable(_) | StoreError::Timeout))
                    if !until.is_within(pause) =>
                {
                    warn!(
                        error = report(&error),
                        rows = batch.len(),
                        "settlement failed, trying again"
                    );
                    in_doubt = true;
                    sleep(pause).await;
                    pause = (pause * 2).min(LONGEST_PAUSE);
                }
                Err(error) => return Err(error),
            }
        }
    }

    /// When to extend next: early enough for a second try.
    pub(super) fn next_extension(&self) -> Instant {
        Instant::now() + self.hold / 3
    }
}

impl Drop for Leases {
    fn drop(&mut self) {
        let rows = std::mem::take(&mut lock(&self.table).rows);
        let restore = |lease: Lease| {
            let outcome = Outcome::Restored { due_at: lease.was_due };
            lease.held.map(|held| Settlement { held, outcome })
        };
        let batch: Vec<_> = rows.into_values().filter_map(restore).collect();
        let Ok(runtime) = Handle::try_current() else { return };
        if batch.is_empty() {
            return;
        }
        let (store, limit) = (self.store.clone(), self.store_timeout);
        // Bounded, and nobody waits for it: what it does not reach runs out.
        runtime.spawn(async move {
            let given_up = timeout(limit, store.settle(&batch)).await;
            if !matches!(given_up, Ok(Ok(_))) {
                debug!(rows = batch.len(), "holds of a dropped batch are left to run out");
            }
        });
    }
}
