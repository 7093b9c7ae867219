use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Event, Lane, Timestamp, Token};
use tokio::time::Instant;
use tracing::warn;

use super::{Admission, Alarm, Confirmer, Deadline, Holds, Lanes, Parcel};
use crate::lock::lock;
use crate::operate::Metrics;
use crate::store::Held;

/// Where events come in: the lanes, the holds, and the way from a commit into them.
pub(crate) struct Handover {
    pub(crate) lanes: Lanes,
    pub(crate) holds: Arc<Holds>,
    pub(crate) alarm: Alarm,
    pub(crate) confirmer: Confirmer,
    pub(crate) metrics: Arc<dyn Metrics>,
    pub(crate) drops: Drops,
}

/// A row born held, on its way from its commit to the hot lane.
#[derive(Debug, Clone)]
pub(crate) struct HotRow {
    pub(crate) event: Event,
    pub(crate) created_at: Timestamp,
    pub(crate) token: Token,
    pub(crate) until: Deadline,
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
        match self.lanes.offer(Parcel { delivery, attempt, ticket, age: Duration::ZERO }) {
            Ok(()) => self.metrics.hot_enqueued(),
            // Its ticket is dropped with it, and that gives the hold up.
            Err(_) => self.count_hot_drop(held),
        }
    }

    /// There is no room for a row that was meant for the hot lane.
    pub(crate) fn refuse_hot(&self, held: Held) {
        self.holds.give_up(held);
        self.count_hot_drop(held);
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
