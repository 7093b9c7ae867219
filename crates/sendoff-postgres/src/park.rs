//! Keys that stand still, on PostgreSQL.

use async_trait::async_trait;
use sendoff_core::limits;
use sendoff_core::order::{KeyFate, KeyStanding, key_subject};
use sendoff_engine::store::frame::key;
use sendoff_engine::store::{KeyPage, ParkStore, ResumeKey, StoreError};

use crate::rows;
use crate::store::PostgresStore;
use crate::wire::Id;

#[async_trait]
impl ParkStore for PostgresStore {
    async fn parked_keys(&self, page: &KeyPage<'_>) -> Result<Vec<KeyStanding>, StoreError> {
        let (after, limit) = (page.after.unwrap_or_default(), whole(page.limit));
        let found = self.ask(&self.sql().parked_keys, &[&after, &limit]).await?;
        let keys = found.iter().map(|row| rows::get(row, 0)).collect::<Result<Vec<String>, _>>()?;
        self.standings(keys).await
    }

    async fn count_parked(&self, most: usize) -> Result<u64, StoreError> {
        let found = self.ask(&self.sql().parked_count, &[&whole(most)]).await?;
        let count: i64 = found.first().map_or(Ok(0), |row| rows::get(row, 0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn key_standing(&self, key: &str) -> Result<KeyStanding, StoreError> {
        let mut standings = self.standings(vec![key.to_owned()]).await?;
        standings.pop().ok_or_else(|| StoreError::Refused("nothing was said of the key".into()))
    }

    async fn resume_key(&self, resume: &ResumeKey<'_>) -> Result<KeyFate, StoreError> {
        let ResumeKey { key, event, note } = *resume;
        let (actor, reason, subject) = (note.actor(), note.reason(), key_subject(key));
        let (key, id) = (&key, event.map(Id));
        let found =
            self.ask(&self.sql().resume_key, &[key, &id, &actor, &reason, &subject]).await?;
        let Some(row) = found.first() else { return Ok(KeyFate::NotParked) };
        let id = |at| Ok::<_, StoreError>(rows::get::<Option<Id>>(row, at)?.map(|Id(id)| id));
        Ok(key::fate(id(0)?, id(1)?, event))
    }
}

impl PostgresStore {
    async fn standings(&self, keys: Vec<String>) -> Result<Vec<KeyStanding>, StoreError> {
        if keys.is_empty() {
            return Ok(Vec::new());
        }
        let most = whole(limits::KEY_EVENTS + 1);
        let found = self.ask(&self.sql().key_standings, &[&keys, &most]).await?;
        let standing = |(key, row): (&String, _)| Ok(key::standing(key, &mut rows::all(row))?);
        keys.iter().zip(&found).map(standing).collect()
    }
}

fn whole(limit: usize) -> i64 {
    i64::try_from(limit).unwrap_or(i64::MAX)
}
