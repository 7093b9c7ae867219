use std::sync::Arc;
use std::time::Duration;

use sendoff_core::report;
use tokio::time::sleep;
use tracing::warn;

use crate::source::Handover;
use crate::store::{OutboxStore, within};

/// Reports how long the oldest pending event has been due, how long the oldest one has been in our
/// hands, and how full the lanes are.
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
            match within(self.store_timeout, self.store.oldest_lag()).await {
                Ok(lag) => observer.tell(|metrics| metrics.oldest_lag(lag)),
                Err(error) => warn!(error = report(&error), "could not read the oldest lag"),
            }
            sleep(self.interval).await;
        }
    }
}
