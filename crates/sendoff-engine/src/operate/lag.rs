use std::sync::Arc;
use std::time::Duration;

use sendoff_core::report;
use tokio::time::{sleep, timeout};
use tracing::warn;

use crate::handover::Handover;
use crate::store::{OutboxStore, StoreError};

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
        let metrics = &self.handover.metrics;
        loop {
            metrics.lane_depths(self.handover.lanes.depths());
            metrics.oldest_in_flight(self.handover.holds.oldest());
            let lag = timeout(self.store_timeout, self.store.oldest_lag()).await;
            match lag.unwrap_or(Err(StoreError::Timeout)) {
                Ok(lag) => metrics.oldest_lag(lag),
                Err(error) => warn!(error = report(&error), "could not read the oldest lag"),
            }
            sleep(self.interval).await;
        }
    }
}
