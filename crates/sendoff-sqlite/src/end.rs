//! Whether events in an SQLite file are over.

use async_trait::async_trait;
use rusqlite::OptionalExtension;
use sendoff_core::{EventId, limits};
use sendoff_engine::store::frame::end;
use sendoff_engine::store::{EndStore, Horizon, Standing, StoreError};

use crate::rows::all;
use crate::store::SqliteStore;

#[async_trait]
impl EndStore for SqliteStore {
    async fn standing(&self, ids: &[EventId]) -> Result<Vec<Standing>, StoreError> {
        let ids = ids.to_vec();
        let found = self
            .read(move |conn, sql, _| {
                let mut statement = conn.prepare_cached(&sql.standing)?;
                let read = |row: &rusqlite::Row<'_>| Ok(end::standings([all(row)]));
                let mut found = Vec::with_capacity(ids.len());
                for id in ids {
                    found.extend(statement.query_row([id.as_bytes()], read).optional()?);
                }
                Ok(found)
            })
            .await?;
        let mut standings = Vec::with_capacity(found.len());
        for one in found {
            standings.extend(one?);
        }
        Ok(standings)
    }

    async fn horizon(&self) -> Result<Option<Horizon>, StoreError> {
        self.read(|conn, sql, now| {
            let last: Option<i64> =
                conn.prepare_cached(&sql.horizon)?.query_row([], |row| row.get(0))?;
            Ok(last.map(|seq| Horizon { seq, at: now }))
        })
        .await
    }

    async fn pending_within(
        &self,
        Horizon { seq, at }: Horizon,
        limit: usize,
    ) -> Result<Vec<EventId>, StoreError> {
        self.read(move |conn, sql, _| {
            let limit = i64::try_from(limit.min(limits::BATCH_ROWS)).unwrap_or(i64::MAX);
            let mut statement = conn.prepare_cached(&sql.pending_within)?;
            let id = |row: &rusqlite::Row<'_>| row.get(0).map(EventId::from_bytes);
            statement.query_map((seq, at.as_micros(), limit), id)?.collect()
        })
        .await
    }
}
