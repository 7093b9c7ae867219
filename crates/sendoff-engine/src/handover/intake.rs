use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Attempt, Delivery, Event, Lane, Timestamp, Token};
use tokio::time::Instant;
use tracing::warn;

use super::{Admission, Alarm, Confirmer, Holds, Lanes, Parcel};
use crate::operate::Metrics;
use crate::store::Held;

/// Where events come in: the lanes, the holds, and the way from a commit into them.
pub(crate) struct Handover {
    pub(crate) lanes: Lanes,
    pub(crate) holds: Holds,
    pub(crate) alarm: Alarm,
    pub(crate) confirmer: Confirmer,
    pub(crate) metrics: Arc<dyn Metrics>,
}

/// A row born held, on its way from its commit to the hot lane.
#[derive(Debug, Clone)]
pub(crate) struct HotRow {
    pub(crate) event: Event,
    pub(crate) created_at: Timestamp,
    pub(crate) token: Token,
    pub(crate) until: Instant,
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
        let (id, held) = (row.event.id(), row.held());
        let Admission::Run(run) = self.holds.admit(held, row.until, Lane::Hot) else { return };
        let delivery =
            Delivery { event: row.event, created_at: row.created_at, attempt: 1, lane: Lane::Hot };
        let attempt = Attempt::next(0);
        match self.lanes.offer(Parcel { delivery, attempt, run, age: Duration::ZERO }) {
            Ok(()) => self.metrics.hot_enqueued(),
            Err(_) => {
                self.holds.forget(id, run);
                self.refuse_hot(held);
            }
        }
    }

    /// There is no room for a row that was meant for the hot lane.
    pub(crate) fn refuse_hot(&self, held: Held) {
        self.holds.give_up(held);
        if self.lanes.is_closed() {
            return;
        }
        self.metrics.hot_dropped();
        warn!(event.id = %held.id, "hot lane full: left to the poller");
    }
}
