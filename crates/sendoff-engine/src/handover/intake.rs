use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Event, Lane, Timestamp, Token};
use tokio::time::Instant;
use tracing::warn;

use super::confirm::Doubtful;
use super::{Admission, Alarm, Confirmer, Deadline, Holds, Lanes, Parcel};
use crate::lock::lock;
use crate::operate::Metrics;
use crate::store::{Held, OutboxStore};

/// Where events come in: the lanes, the holds, and the way from a commit into them.
pub(crate) struct Handover {
    pub(crate) lanes: Lanes,
    pub(crate) holds: Arc<Holds>,
    pub(crate) alarm: Alarm,
    pub(crate) confirmer: Confirmer,
    pub(crate) metrics: Arc<dyn Metrics>,
    pub(crate) drops: Drops,
    /// Asked for its epoch only.
    pub(crate) store: Arc<dyn OutboxStore>,
}

/// A row born held, on its way from its commit to the hot lane.
#[derive(Debug, Clone)]
pub(crate) struct HotRow {
    pub(crate) event: Event,
    pub(crate) created_at: Timestamp,
    pub(crate) token: Token,
    pub(crate) until: Deadline,
    /// Over which links its commit is known.
    pub(crate) epoch: u64,
}

/// What was certain before the INSERT of a row was sent.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Stamp {
    /// Until when it will be held.
    pub(crate) until: Deadline,
    /// Which links were there.
    pub(crate) epoch: u64,
}

impl HotRow {
    pub(crate) fn held(&self) -> Held {
        Held::row(self.event.id(), self.token)
    }
}

impl Handover {
    /// Offers a row whose commit is proved to the hot lane. Never fails the writer (G8): a row that
    /// does not fit is given up, and some poller delivers it.
    pub(crate) fn offer_hot(&self, row: HotRow) {
        let held = row.held();
        let Admission::Ticket(ticket) = self.holds.admit(held, row.until, Lane::Hot) else {
            return;
        };
        let delivery =
            Delivery { event: row.event, created_at: row.created_at, attempt: 1, lane: Lane::Hot };
        let attempt = Attempt::next(0);
        let epoch = row.epoch;
        match self.lanes.offer(Parcel { delivery, attempt, ticket, age: Duration::ZERO, epoch }) {
            Ok(()) => self.metrics.hot_enqueued(),
            // Its ticket is dropped with it, and that gives the hold up.
            Err(_) => self.count_hot_drop(held),
        }
    }

    /// Queues rows of a transaction that somebody else committed for the proof that they did.
    pub(crate) fn confirm(&self, rows: Vec<HotRow>) {
        for row in rows {
            let held = row.held();
            if self.confirmer.submit(Doubtful::Row(row)).is_err() {
                self.holds.give_up(held);
                self.count_hot_drop(held);
            }
        }
    }

    /// The next event to run, or `None` once the lanes are closed and empty. What came in before a
    /// link was lost is confirmed once more first: a commit that the server which answers now never
    /// got must not be delivered. Cancel-safe.
    pub(crate) async fn next(&self) -> Option<Parcel> {
        loop {
            let parcel = self.lanes.take().await?;
            if parcel.epoch == self.store.epoch() {
                return Some(parcel);
            }
            // One that does not fit is dropped, and its ticket releases it.
            let _ = self.confirmer.submit(Doubtful::Parcel(parcel));
        }
    }

    /// Puts a parcel back into its lane that was confirmed once more.
    pub(super) fn offer_again(&self, parcel: Parcel) {
        let (held, lane) = (parcel.ticket.held(), parcel.delivery.lane);
        if let (Err(_), Some(held), Lane::Hot) = (self.lanes.offer(parcel), held, lane) {
            self.count_hot_drop(held);
        }
    }

    fn count_hot_drop(&self, held: Held) {
        if self.lanes.is_closed() {
            return;
        }
        self.metrics.hot_dropped();
        if let Some(count) = self.drops.count() {
            warn!(event.id = %held.id, count, "hot lane full: left to the poller");
        }
    }
}

/// Counts what is dropped, and says now and then how much it was: under overload a line for every
/// event would be the next overload.
#[derive(Debug, Default)]
pub(crate) struct Drops(Mutex<(Option<Instant>, u64)>);

const EVERY: Duration = Duration::from_secs(1);

impl Drops {
    /// One more. Answers how many there were since the last answer, at most once a second.
    fn count(&self) -> Option<u64> {
        let mut drops = lock(&self.0);
        drops.1 += 1;
        if drops.0.is_some_and(|last| last.elapsed() < EVERY) {
            return None;
        }
        drops.0 = Some(Instant::now());
        Some(std::mem::take(&mut drops.1))
    }
}
