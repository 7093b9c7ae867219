//! Keys that stand still, on SQLite.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension};
use sendoff_core::order::{KeyFate, KeyStanding, key_subject};
use sendoff_core::{EventId, Timestamp, limits};
use sendoff_engine::store::frame::key;
use sendoff_engine::store::{KeyPage, ParkStore, ResumeKey, StoreError};

use crate::rows::{all, readable};
use crate::sql::Sql;
use crate::store::SqliteStore;

type Standing = Result<KeyStanding, StoreError>;

#[async_trait]
impl ParkStore for SqliteStore {
    async fn parked_keys(&self, page: &KeyPage<'_>) -> Result<Vec<KeyStanding>, StoreError> {
        let (after, limit) = (page.after.unwrap_or_default().to_owned(), whole(page.limit));
        let found = self
            .read(move |conn, sql, now| {
                let mut parked = conn.prepare_cached(&sql.parked_keys)?;
                let keys = parked.query_map((after, limit), |row| Ok(readable(row.get_ref(0)?)))?;
                // One that is no text is nobody's: no event can have it.
                let keys = keys.filter_map(Result::transpose);
                keys.map(|key| standing(conn, sql, &key?, now))
                    .collect::<rusqlite::Result<Vec<_>>>()
            })
            .await?;
        found.into_iter().collect()
    }

    async fn count_parked(&self, most: usize) -> Result<u64, StoreError> {
        let count: i64 = self
            .read(move |conn, sql, _| {
                conn.prepare_cached(&sql.parked_count)?.query_row([whole(most)], |row| row.get(0))
            })
            .await?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn key_standing(&self, key: &str) -> Result<KeyStanding, StoreError> {
        let key = key.to_owned();
        self.read(move |conn, sql, now| standing(conn, sql, &key, now)).await?
    }

    async fn resume_key(&self, resume: &ResumeKey<'_>) -> Result<KeyFate, StoreError> {
        let ResumeKey { key, event, note } = *resume;
        let (key, note) = (key.to_owned(), note.clone());
        self.order(move |tx, sql, now| {
            let parked: Option<EventId> = tx
                .prepare_cached(&sql.key_parked)?
                .query_row([&key], |row| row.get(0).map(EventId::from_bytes))
                .optional()?;
            let Some(parked) = parked else { return Ok(KeyFate::NotParked) };
            if event.is_some_and(|event| event != parked) {
                return Ok(KeyFate::ParkedBy { event: parked });
            }
            let at = now.as_micros();
            let (actor, reason) = (note.actor(), note.reason());
            let noted = (at, actor, reason, parked.as_bytes(), key_subject(&key));
            tx.prepare_cached(&sql.audit_key)?.execute(noted)?;
            tx.prepare_cached(&sql.key_unpark)?.execute((&key, parked.as_bytes(), at))?;
            Ok(KeyFate::Resumed { event: parked })
        })
        .await
    }
}

fn standing(conn: &Connection, sql: &Sql, key: &str, now: Timestamp) -> rusqlite::Result<Standing> {
    let most = whole(limits::KEY_EVENTS + 1);
    conn.prepare_cached(&sql.key_standing)?.query_row((key, now.as_micros(), most), |row| {
        Ok(key::standing(key, &mut all(row)).map_err(StoreError::from))
    })
}

fn whole(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
