//! Who handles what, in memory.

use std::time::Duration;

use async_trait::async_trait;

use super::store::MemoryStore;
use crate::store::{EventKind, REGISTERED, RegisterStore, Registered};

#[async_trait]
impl RegisterStore for MemoryStore {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        Ok(self.with(|table, now| {
            for kind in kinds {
                let kind = (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
                table.handled.insert(kind, now);
            }
            let since = now.saturating_sub(lately);
            let lately = table.handled.iter().filter(|(_, seen_at)| **seen_at > since);
            lately.map(|(kind, _)| kind.clone()).take(REGISTERED).collect()
        })?)
    }
}
