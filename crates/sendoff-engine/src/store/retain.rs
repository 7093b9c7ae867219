use std::time::Duration;

use async_trait::async_trait;

use super::StoreError;

/// Forgetting what is over.
#[async_trait]
pub trait RetainStore: Send + Sync + 'static {
    /// How long delivered rows are kept; `None` where they are deleted when done.
    fn keeps(&self) -> Option<Duration>;

    /// Deletes up to `limit` DONE rows that were done longer than `older_than` ago, in whichever
    /// order costs least, in one short transaction, and returns how many. Pending and dead rows are
    /// never touched.
    async fn purge(&self, older_than: Duration, limit: usize) -> Result<u64, StoreError>;
}
