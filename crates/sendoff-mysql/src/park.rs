//! Keys that stand still, on MySQL and MariaDB.

use async_trait::async_trait;
use sendoff_core::limits;
use sendoff_core::order::{KeyFate, KeyStanding, key_subject};
use sendoff_engine::store::frame::key;
use sendoff_engine::store::{KeyPage, ParkStore, ResumeKey, StoreError};

use crate::rows::{self, Taken};
use crate::store::MysqlStore;
use crate::wire::Literal;

/// So many are looked at in one text: each is a statement of its own there, since a number of rows for each of
/// several keys cannot be asked for in one.
const AT_ONCE: usize = 50;

#[async_trait]
impl ParkStore for MysqlStore {
    async fn parked_keys(&self, page: &KeyPage<'_>) -> Result<Vec<KeyStanding>, StoreError> {
        let after = Literal::text(page.after.unwrap_or_default());
        let limit = Literal::count(page.limit);
        let text = self.sql().parked_keys.with(&[("after", &after), ("limit", &limit)]);
        let found = self.ask(&text).await?;
        let keys = found.iter().map(|row| rows::name(row, 0)).collect::<Result<Vec<_>, _>>()?;
        let mut standings = Vec::with_capacity(keys.len());
        for keys in keys.chunks(AT_ONCE) {
            standings.extend(self.standings(keys).await?);
        }
        Ok(standings)
    }

    async fn count_parked(&self, most: usize) -> Result<u64, StoreError> {
        let found =
            self.ask(&self.sql().parked_count.with(&[("most", &Literal::count(most))])).await?;
        let count = found.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        Ok(u64::try_from(count).unwrap_or(0))
    }

    async fn key_standing(&self, key: &str) -> Result<KeyStanding, StoreError> {
        let mut standings = self.standings(&[key.to_owned()]).await?;
        standings.pop().ok_or_else(|| StoreError::Refused("nothing was said of the key".into()))
    }

    async fn resume_key(&self, resume: &ResumeKey<'_>) -> Result<KeyFate, StoreError> {
        let ResumeKey { key, event, note } = *resume;
        let text = self.sql().resume_key.with(&[
            ("key", &Literal::text(key)),
            ("event", &Literal::maybe_id(event)),
            ("actor", &Literal::text(note.actor())),
            ("reason", &Literal::text(note.reason())),
            ("subject", &Literal::text(&key_subject(key))),
        ]);
        let answer = self.once(&text).await?;
        let Some(row) = answer.first() else { return Ok(KeyFate::NotParked) };
        let id = |at| rows::maybe(row, at).map(|_| rows::id(row, at)).transpose();
        Ok(key::fate(id(0)?, id(1)?, event))
    }
}

impl MysqlStore {
    async fn standings(&self, keys: &[String]) -> Result<Vec<KeyStanding>, StoreError> {
        self.check_open()?;
        let most = Literal::count(limits::KEY_EVENTS + 1);
        let text = |key: &String| {
            self.sql().key_standing.with(&[("key", &Literal::text(key)), ("most", &most)])
        };
        let texts: Vec<String> = keys.iter().map(text).collect();
        let mut results = self.links().upkeep.results(&texts.join(";\n")).await?;
        let standing = |(key, rows): (&String, &mut Vec<_>)| {
            let row = rows.first_mut();
            let row = row.ok_or_else(|| StoreError::Refused("nothing was said of a key".into()))?;
            Ok(key::standing(key, &mut Taken(row))?)
        };
        keys.iter().zip(&mut results).map(standing).collect()
    }
}
