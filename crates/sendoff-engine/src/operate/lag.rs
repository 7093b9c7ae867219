use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{limits, report};
use tokio::time::sleep;
use tracing::warn;

use crate::source::Handover;
use crate::store::{Lateness, OutboxStore, within};

/// Reports how late delivery is, how long the oldest event has been in our hands, and how full the lanes
/// are.
#[derive(Clone)]
pub(crate) struct Lag {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) handover: Arc<Handover>,
    pub(crate) interval: Duration,
    pub(crate) store_timeout: Duration,
}

impl Lag {
    /// Runs until it is dropped.
    pub(crate) async fn run(self) {
        let Handover { observer, lanes, holds, .. } = &*self.handover;
        loop {
            observer.tell(|metrics| {
                metrics.lane_depths(lanes.depths());
                metrics.oldest_in_flight(holds.oldest());
            });
            match within(self.store_timeout, self.store.lateness()).await {
                Ok(Lateness { oldest, overdue, .. }) => observer.tell(|metrics| {
                    // What is held here may be older than the rows that were looked at.
                    metrics.oldest_lag(oldest.max(holds.oldest()));
                    metrics.next_overdue(overdue);
                }),
                Err(error) => warn!(error = report(&error), "could not read the oldest lag"),
            }
            let parked = self.store.count_parked(limits::PARKED_KEYS);
            match within(self.store_timeout, parked).await {
                Ok(keys) => observer.tell(|metrics| metrics.parked_keys(keys)),
                Err(error) => warn!(error = report(&error), "could not count parked keys"),
            }
            sleep(self.interval).await;
        }
    }
}
