//! Who handles what, on SQLite.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_engine::store::{EventKind, REGISTERED, RegisterStore, Registered};

use crate::store::{SqliteStore, in_transaction};

#[async_trait]
impl RegisterStore for SqliteStore {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        let kinds: Vec<_> = kinds
            .iter()
            .map(|kind| (kind.aggregate_type.to_owned(), kind.event_type.to_owned()))
            .collect();
        self.on_thread(move |conn, sql, clock| {
            in_transaction(conn, sql, clock, |tx, sql, now| {
                let mut register = tx.prepare_cached(&sql.register)?;
                for (about, of) in &kinds {
                    register.execute((about, of, now.as_micros()))?;
                }
                let since = now.saturating_sub(lately).as_micros();
                let mut registered = tx.prepare_cached(&sql.registered)?;
                let rows = registered
                    .query_map((since, REGISTERED as i64), |row| Ok((row.get(0)?, row.get(1)?)))?;
                rows.collect()
            })
        })
        .await
    }
}
