//! The engine's own maintenance: retention, counters, and rows that a stepped-back clock left in
//! the future.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{limits, report};
use tokio::time::{Instant, sleep};
use tracing::warn;

use super::cleanup::{CleanupError, CleanupMaintainer, CleanupOptions};
use crate::store::{Answer, OutboxStore, RetainStore, StoreError, within};

/// Deletes delivered rows past their retention, and puts right what a stepped-back clock left in the
/// future.
#[derive(Clone)]
pub(crate) struct Upkeep {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) purge_interval: Duration,
    pub(crate) store_timeout: Duration,
}

/// How often to look for rows that are too far ahead. They come with a clock that is set back,
/// which is rare, and the look may have to pass every delayed row.
const RESCUE_INTERVAL: Duration = Duration::from_secs(5 * 60);
/// The first pause after a look, which doubles: a look passes over rows that are locked, and a claim
/// beside it may have one of them for a moment.
const FIRST_RESCUE_PAUSE: Duration = FOLD_INTERVAL;

/// How often to add up what settlements counted: seconds of a busy node's work at a time.
const FOLD_INTERVAL: Duration = Duration::from_secs(30);
/// Statements of one such look: what is left after them is left for the next.
const FOLDS: usize = 100;

impl Upkeep {
    /// Runs until it is dropped; each statement is short and complete in itself.
    pub(crate) async fn run(self) {
        let mut purge_at = Instant::now();
        let mut rescue_at = Instant::now();
        let mut rescue_pause = FIRST_RESCUE_PAUSE;
        loop {
            if Instant::now() >= rescue_at {
                if let Err(error) = self.rescue().await {
                    warn!(error = report(&error), "could not look for rows that are too far ahead");
                    rescue_pause = FIRST_RESCUE_PAUSE;
                }
                rescue_at = Instant::now() + rescue_pause;
                rescue_pause = (rescue_pause * 2).min(RESCUE_INTERVAL);
            }
            if Instant::now() >= purge_at {
                purge_at = Instant::now() + self.purge_interval;
                if let Err(error) = self.purge().await {
                    warn!(error = report(&error), "delivered rows could not be deleted");
                }
            }
            if let Err(error) = self.fold().await {
                warn!(error = report(&error), "counters by type could not be added up");
            }
            sleep(FOLD_INTERVAL.min(self.purge_interval)).await;
        }
    }

    async fn fold(&self) -> Result<(), StoreError> {
        for _ in 0..FOLDS {
            if self.bounded(self.store.fold()).await? == 0 {
                break;
            }
        }
        Ok(())
    }

    async fn rescue(&self) -> Result<(), StoreError> {
        let mut rescued = 0;
        loop {
            let rows = self.bounded(self.store.rescue(limits::HOLD)).await?;
            rescued += rows;
            if rows < limits::BATCH_ROWS as u64 {
                break;
            }
        }
        if rescued > 0 {
            warn!(
                rows = rescued,
                "put right what a clock that stepped back had left in the future"
            );
        }
        Ok(())
    }

    /// Delivered rows only: a dead one is somebody's to look at.
    async fn purge(&self) -> Result<(), CleanupError> {
        let Some(retention) = self.store.keeps() else { return Ok(()) };
        let options = CleanupOptions {
            retention,
            store_timeout: self.store_timeout,
            ..CleanupOptions::default()
        };
        let store: Arc<dyn RetainStore> = self.store.clone();
        CleanupMaintainer::unchecked(store, options).run_once().await.map(|_| ())
    }

    async fn bounded<T>(&self, asked: impl Future<Output = Answer<T>>) -> Answer<T> {
        within(self.store_timeout, asked).await
    }
}
