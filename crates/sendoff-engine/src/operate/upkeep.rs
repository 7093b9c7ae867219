use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{limits, report};
use tokio::time::{Instant, sleep, timeout};
use tracing::{debug, warn};

use crate::store::{OutboxStore, StoreError};

/// Deletes delivered rows past their retention, and frees holds a stepped-back clock left behind.
pub(crate) struct Upkeep {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) purge_interval: Duration,
    pub(crate) store_timeout: Duration,
}

/// How often to look for holds that reach too far ahead. They come with a clock that is set back,
/// which is rare, and the look may have to pass every delayed row.
const RESCUE_INTERVAL: Duration = Duration::from_secs(5 * 60);

impl Upkeep {
    /// Runs until it is dropped; each statement is short and complete in itself.
    pub(crate) async fn run(self) {
        let mut purge_at = Instant::now();
        loop {
            if let Err(error) = self.rescue().await {
                warn!(error = report(&error), "could not look for holds that reach too far ahead");
            }
            if Instant::now() >= purge_at {
                purge_at = Instant::now() + self.purge_interval;
                if let Err(error) = self.purge().await {
                    warn!(error = report(&error), "delivered rows could not be deleted");
                }
            }
            sleep(RESCUE_INTERVAL.min(self.purge_interval)).await;
        }
    }

    async fn rescue(&self) -> Result<(), StoreError> {
        let rows = self.bounded(self.store.rescue(limits::HOLD)).await?;
        if rows > 0 {
            warn!(rows, "freed holds that reached too far ahead: the clock stepped back");
        }
        Ok(())
    }

    async fn purge(&self) -> Result<(), StoreError> {
        let Some(keeps) = self.store.keeps() else { return Ok(()) };
        let mut purged = 0;
        loop {
            // Short batches until nothing is left, so that it keeps up with any inflow.
            let count = self.bounded(self.store.purge(keeps, limits::BATCH_ROWS)).await?;
            purged += count;
            if count < limits::BATCH_ROWS as u64 {
                break;
            }
        }
        debug!(purged, "delivered rows past their retention deleted");
        Ok(())
    }

    async fn bounded<T>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        timeout(self.store_timeout, statement).await.unwrap_or(Err(StoreError::Timeout))
    }
}
