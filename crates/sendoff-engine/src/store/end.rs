//! What the engine asks of a store for those who wait until events are over.

use async_trait::async_trait;
use sendoff_core::{EventId, Status, Timestamp};

use super::StoreError;

/// Whether events are over: DONE or DEAD. Looks, and changes nothing; waits for no lock, and reads no payload.
#[async_trait]
pub trait EndStore: Send + Sync + 'static {
    /// How these events stand. What is not there, or not committed, is left out; where a table in partitions
    /// has an id twice, each row is told of. No more ids than
    /// [`BATCH_ROWS`](sendoff_core::limits::BATCH_ROWS).
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError>;

    /// The last number among all rows that are committed and pending, and what time it is; `None` if nothing
    /// is pending. Costs as much as there is backlog, along its index.
    async fn horizon(&self) -> Result<Option<Horizon>, StoreError>;

    /// Which rows are still pending of those up to a horizon, `limit` at most, in whichever order costs least;
    /// none means that there are none. Rows whose [delay](sendoff_core::EventBuilder::delay) was not over by
    /// then are left out.
    async fn pending_within(
        &self,
        horizon: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError>;
}

/// How an event stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Standing {
    /// The event.
    pub id: EventId,
    /// Where it stands.
    pub status: Status,
    /// The last error of one that is dead.
    pub error: Option<String>,
}

/// Up to where rows were committed at a moment. Numbers are taken in one order and committed in another: what
/// is committed later may lie within.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Horizon {
    /// The last number in the table.
    pub seq: i64,
    /// The moment, by the database's clock.
    pub at: Timestamp,
}
