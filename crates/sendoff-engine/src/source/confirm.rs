//! Proves that a transaction of the application committed before its events leave from memory.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{EventId, limits, report};
use tokio::sync::Notify;
use tokio_util::sync::CancellationToken;
use tracing::{debug, warn};

use super::{Bound, Handover, HotRow, Parcel};
use crate::lock::lock;
use crate::store::{Confirmed, Held, OutboxStore, StoreError, within};
use crate::weight::weight;

/// Proves commits we did not make ourselves before their events are delivered from memory.
///
/// A driver's `commit()` can report success for a transaction the server rolled back, and a
/// rolled-back savepoint loses the row of a committed one (G3). So released events wait here until
/// one batched SELECT has seen them. One that is not seen is left to the poller, if it exists. So does
/// what waited in a lane while a link was lost: the server that answers now may be another one, which
/// never got it.
#[derive(Debug)]
pub(crate) struct Confirmer {
    queue: Mutex<Queue>,
    bound: Bound,
    some: Notify,
}

#[derive(Debug, Default)]
struct Queue {
    doubtful: VecDeque<Doubtful>,
    bytes: usize,
}

/// An event that must be proved before it runs.
#[derive(Debug)]
pub(crate) enum Doubtful {
    /// Fresh from a transaction that somebody else committed.
    Row(HotRow),
    /// Proved before, by a link that is lost.
    Parcel(Parcel),
}

impl Doubtful {
    fn weight(&self) -> usize {
        match self {
            Self::Row(row) => weight(&row.event),
            Self::Parcel(parcel) => weight(&parcel.delivery.event),
        }
    }

    /// What it is held by; `None` where that was lost meanwhile.
    pub(crate) fn held(&self) -> Option<Held> {
        match self {
            Self::Row(row) => Some(row.held()),
            Self::Parcel(parcel) => parcel.ticket.held(),
        }
    }
}

impl Confirmer {
    pub(crate) fn new(bound: Bound) -> Self {
        Self { queue: Mutex::default(), bound, some: Notify::new() }
    }

    /// Queues an event for its proof; gives it back if it does not fit.
    pub(crate) fn submit(&self, doubtful: Doubtful) -> Result<(), Doubtful> {
        let mut queue = lock(&self.queue);
        if !self.bound.takes(queue.doubtful.len(), queue.bytes) {
            return Err(doubtful);
        }
        queue.bytes = queue.bytes.saturating_add(doubtful.weight());
        queue.doubtful.push_back(doubtful);
        self.some.notify_one();
        Ok(())
    }

    async fn next_batch(&self) -> Vec<Doubtful> {
        loop {
            let batch = self.take(limits::BATCH_ROWS);
            if !batch.is_empty() {
                return batch;
            }
            self.some.notified().await;
        }
    }

    fn take(&self, most: usize) -> Vec<Doubtful> {
        let mut queue = lock(&self.queue);
        let size = queue.doubtful.len().min(most);
        let taken: Vec<_> = queue.doubtful.drain(..size).collect();
        let bytes: usize = taken.iter().map(Doubtful::weight).sum();
        queue.bytes = queue.bytes.saturating_sub(bytes);
        taken
    }

    /// Runs until told to stop. A proof that is under way then is finished first, and what still
    /// waits for one is released, so that others can claim it at once.
    pub(crate) async fn run(
        handover: Arc<Handover>,
        store: Arc<dyn OutboxStore>,
        limit: Duration,
        stop: CancellationToken,
    ) {
        let confirmer = &handover.confirmer;
        while let Some(batch) = stop.run_until_cancelled(confirmer.next_batch()).await {
            let (ordered, batch): (Vec<_>, Vec<_>) =
                batch.into_iter().partition(|doubtful| handover.is_ordered(doubtful));
            // Before the question: what is lost while it is answered is asked again.
            let epoch = store.epoch();
            if !batch.is_empty() {
                let holds: Vec<_> = batch.iter().filter_map(Doubtful::held).collect();
                match within(limit, store.confirm(&holds)).await {
                    Ok(proved) => handover.proved(batch, &proved, epoch),
                    Err(error) => not_proved(&error, batch.len()),
                }
            }
            if !ordered.is_empty() {
                let holds: Vec<_> = ordered.iter().filter_map(Doubtful::held).collect();
                match within(limit, store.confirm_keys(&holds)).await {
                    Ok(proved) => handover.proved_in_order(ordered, &proved, epoch),
                    Err(error) => not_proved(&error, ordered.len()),
                }
            }
        }
        for doubtful in confirmer.take(usize::MAX) {
            // A parcel's ticket releases its hold by itself.
            if let Doubtful::Row(row) = doubtful {
                handover.holds.release(row.held());
            }
        }
    }
}

fn not_proved(error: &StoreError, rows: usize) {
    warn!(error = report(error), rows, "commits not proved: left to the poller");
}

impl Handover {
    /// Whether it must be known of an event what comes before it in its key.
    fn is_ordered(&self, doubtful: &Doubtful) -> bool {
        match doubtful {
            Doubtful::Row(row) => self.key_of(&row.event).is_some(),
            // That is known.
            Doubtful::Parcel(_) => false,
        }
    }

    /// Hands on what the database has seen, in the order of their numbers.
    fn proved_in_order(&self, batch: Vec<Doubtful>, proved: &[Confirmed], epoch: u64) {
        self.waiters.committed(proved.iter().map(|confirmed| confirmed.id));
        let rows = batch.into_iter().filter_map(|doubtful| match doubtful {
            Doubtful::Row(row) => Some((row.event.id(), row)),
            Doubtful::Parcel(_) => None,
        });
        let mut rows: BTreeMap<EventId, HotRow> = rows.collect();
        for confirmed in proved {
            if let Some(row) = rows.remove(&confirmed.id) {
                self.offer_in_order(HotRow { epoch, ..row }, confirmed);
            }
        }
        if !rows.is_empty() {
            debug!(unproved = rows.len(), "released, but not committed: left to the poller");
        }
    }

    /// Hands on what the database has seen, over the links of this epoch.
    fn proved(&self, batch: Vec<Doubtful>, proved: &[EventId], epoch: u64) {
        self.waiters.committed(proved.iter().copied());
        let proved: BTreeSet<_> = proved.iter().collect();
        let is_proved =
            |doubtful: &Doubtful| doubtful.held().is_some_and(|held| proved.contains(&held.id));
        let (good, bad): (Vec<_>, Vec<_>) = batch.into_iter().partition(is_proved);
        let again = bad.iter().filter(|bad| matches!(bad, Doubtful::Parcel(_))).count();
        if again > 0 {
            warn!(again, "gone or no longer held since a link was lost: left to the poller");
        }
        if bad.len() > again {
            debug!(unproved = bad.len() - again, "released, but not committed: left to the poller");
        }
        for doubtful in good {
            match doubtful {
                Doubtful::Row(row) => self.offer_hot(HotRow { epoch, ..row }),
                Doubtful::Parcel(parcel) => self.offer_again(Parcel { epoch, ..parcel }),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::{Event, Timestamp, Token};

    use super::*;
    use crate::source::Deadline;

    fn row(bytes: usize) -> Doubtful {
        let event = Event::builder("t").bytes(vec![0; bytes]).build().unwrap();
        let (created_at, until) = (Timestamp::now(), Deadline::after(Duration::from_secs(60)));
        let token = Token::new(created_at);
        Doubtful::Row(HotRow { event, created_at, token, until, epoch: 0 })
    }

    /// Large events fill it long before many small ones do, and what was proved makes room again.
    #[test]
    fn what_waits_for_its_proof_is_bounded_in_bytes_and_in_number() {
        let confirmer = Confirmer::new(Bound { count: 3, bytes: 1_000 });
        assert!(confirmer.submit(row(999)).is_ok());
        assert!(confirmer.submit(row(2_000)).is_ok(), "one byte is free: the last may exceed it");
        assert!(confirmer.submit(row(1)).is_err(), "there is no room, however few there are");
        assert_eq!(confirmer.take(1).len(), 1);
        assert!(confirmer.submit(row(1)).is_err(), "the larger one is still there");
        assert_eq!(confirmer.take(1).len(), 1);
        for _ in 0..3 {
            assert!(confirmer.submit(row(1)).is_ok());
        }
        assert!(confirmer.submit(row(1)).is_err(), "as many as there may be");
        assert_eq!(confirmer.take(9).len(), 3);
        assert!(
            confirmer.submit(row(5_000)).is_ok(),
            "one that is larger than all of it fits alone"
        );
    }
}
