//! What the engine asks of a store about who handles what.

use std::time::Duration;

use async_trait::async_trait;

use super::{EventKind, StoreError};

/// Stands for events about whatever they are: of one type, or, where it is the type too, of all.
pub const ANY: &str = "";

/// So many kinds are read at once. Whoever handles more kinds than this leaves some to the care of others.
pub const REGISTERED: usize = 5_000;

/// Kinds of events that somebody handles: aggregate type and event type.
pub type Registered = Result<Vec<(String, String)>, StoreError>;

/// Which kinds of events nodes have handlers for, as they said lately: kept in the database, so that a node
/// knows of the others, and ends no event that one of them would deliver.
#[async_trait]
pub trait RegisterStore: Send + Sync + 'static {
    /// Says that somebody handles these kinds, and answers all kinds that somebody said so of within that
    /// time, [so many](REGISTERED) at most. Waits for nobody: what another node says at the same moment may
    /// be left as it is.
    ///
    /// A store that keeps none takes the default, by which every node is alone.
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        let _ = (kinds, lately);
        Ok(Vec::new())
    }
}
