//! Runs that are stuck, and events that wait for them.

use std::sync::Arc;
use std::time::Duration;

use tokio::time::sleep;
use tracing::warn;

use crate::source::Handover;

/// Sees to it that nothing waits here for ever while others could deliver it: an event that no worker
/// began in time is released. While every run of a handler is stuck nothing is kept or taken for it, and
/// once every worker is, nothing at all.
#[derive(Clone)]
pub(crate) struct Watch {
    pub(crate) handover: Arc<Handover>,
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
        let (Handover { lanes, handlers, keys, holds, .. }, limit) = (&*self.handover, self.limit);
        // What is taken out is dropped with its tickets, and that releases it.
        if let Some(waiting) = lanes.pause_if_stuck(limit) {
            let rows = waiting.len();
            warn!(?limit, rows, "every worker is stuck: what waits is released, nothing is taken");
        }
        let overdue = lanes.take_overdue(limit);
        for kind in handlers.now().kinds_of(&overdue.stuck) {
            warn!(
                aggregate_type = kind.aggregate_type,
                event_type = kind.event_type,
                ?limit,
                "every run of this handler is stuck: nothing is taken for it until one ends"
            );
        }
        if !overdue.parcels.is_empty() {
            let rows = overdue.parcels.len();
            warn!(?limit, rows, "no worker was free for too long: released to others");
        }
        let rows = keys.let_go_after(|id| holds.has_lost(id));
        if rows > 0 {
            warn!(
                ?limit,
                rows,
                "an event that others may have still runs here: those of its key that wait for it are released"
            );
        }
    }
}
