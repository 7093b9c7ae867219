use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{limits, report};
use tokio::time::sleep;
use tracing::{debug, warn};

use crate::store::{OutboxStore, StoreError};

/// Deletes delivered rows past their retention, and frees holds a stepped-back clock left behind.
pub(crate) struct Upkeep {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) interval: Duration,
}

impl Upkeep {
    /// Runs until it is dropped; each statement is short and complete in itself.
    pub(crate) async fn run(self) {
        loop {
            if let Err(error) = self.once().await {
                warn!(error = report(&error), "upkeep failed");
            }
            sleep(self.interval).await;
        }
    }

    async fn once(&self) -> Result<(), StoreError> {
        let freed = self.store.rescue(limits::HOLD).await?;
        if freed > 0 {
            warn!(rows = freed, "freed holds that reached too far ahead: the clock stepped back");
        }
        let Some(keeps) = self.store.keeps() else { return Ok(()) };
        let mut purged = 0;
        loop {
            // Short batches until nothing is left, so that it keeps up with any inflow.
            let count = self.store.purge(keeps, limits::BATCH_ROWS).await?;
            purged += count;
            if count < limits::BATCH_ROWS as u64 {
                break;
            }
        }
        debug!(purged, "delivered rows past their retention deleted");
        Ok(())
    }
}
