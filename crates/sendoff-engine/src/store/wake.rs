use async_trait::async_trait;

use super::StoreError;

/// Waking a poller in another process when there is work.
///
/// Affects latency only (I7): a bell that is never rung is covered by the poll interval. A store
/// without one takes the defaults.
#[async_trait]
pub trait WakeStore: Send + Sync + 'static {
    /// The poller found nothing and is about to wait: from now on writers shall ring. Answers
    /// whether there is a bell; if so the poller looks once more before it waits, since a writer
    /// may have come between.
    async fn arm(&self) -> Result<bool, StoreError> {
        Ok(false)
    }

    /// The poller is at work: writers need not ring.
    async fn disarm(&self) -> Result<(), StoreError> {
        Ok(())
    }

    /// Waits until somebody rings. Cancel-safe: a ring is kept until it is heard.
    async fn rung(&self) {
        std::future::pending().await
    }
}
