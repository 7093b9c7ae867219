//! Who handles what, on PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_engine::store::{EventKind, REGISTERED, RegisterStore, Registered};

use crate::rows::get;
use crate::store::PostgresStore;
use crate::wire::Span;

#[async_trait]
impl RegisterStore for PostgresStore {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        self.check_open()?;
        let about: Vec<_> = kinds.iter().map(|kind| kind.aggregate_type).collect();
        let types: Vec<_> = kinds.iter().map(|kind| kind.event_type).collect();
        let (lately, most) = (Span(lately), REGISTERED as i64);
        let statement = &self.sql().register;
        let rows = self.links().upkeep.query(statement, &[&about, &types, &lately, &most]).await?;
        rows.iter().map(|row| Ok((get(row, 0)?, get(row, 1)?))).collect()
    }
}
