//! Letting facts go: one by one, or with their partition.

use async_trait::async_trait;
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::retain::{Follower, Followers};
use sendoff_core::limits;
use sendoff_engine::journal::Purpose;
use sendoff_engine::journal::retain::{
    Keeping, PurgeFacts, PurgedFacts, RangeSession, RetainJournalStore,
};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use super::facts::position;
use super::publish::status;
use super::range::Session;
use super::store::PostgresJournal;
use crate::error::misconfigured;
use crate::link::Params;
use crate::options::Doorbell;
use crate::partition::one;
use crate::rows::{get, time};
use crate::wire::At;

#[async_trait]
impl RetainJournalStore for PostgresJournal {
    async fn followers(&self) -> Result<Followers, StoreError> {
        let rows = self.ask(Purpose::Read, &self.sql().journal.followers, &[]).await?;
        let first = one(&rows)?;
        let (now, head) = (time(first, 0)?, position(first, 1)?);
        let (mut cursors, mut parked) = (Vec::new(), Vec::new());
        for row in &rows {
            let Some(topic) = get::<Option<String>>(row, 2)? else { continue };
            let (pair, position) = (PairId::restore(topic, get(row, 3)?), position(row, 4)?);
            match get::<Option<String>>(row, 5)? {
                Some(text) => cursors.push(Follower { pair, position, status: status(&text)? }),
                None => parked.push((pair, position)),
            }
        }
        Ok(Followers { now, head, cursors, parked })
    }

    async fn keeping(&self) -> Result<Keeping, StoreError> {
        let table = self.table();
        let found = self.ask(Purpose::Read, &self.sql().journal.layout, &[]).await?;
        let Some(row) = found.first() else {
            return Err(misconfigured(format!("there is no table {table}: migrate first")));
        };
        if get::<&str>(row, 0)? != "p" {
            return Ok(Keeping::Rows);
        }
        if !get::<bool>(row, 1)? {
            return Err(misconfigured(format!(
                "the table {table} is partitioned by something else than ranges of position"
            )));
        }
        if !get::<bool>(row, 2)? {
            let (facts, tags) = (
                self.names().qualified("journal_event_pmax"),
                self.names().qualified("journal_tag_pmax"),
            );
            return Err(misconfigured(format!(
                "a tail is missing: {facts} and {tags} must be the default partitions of the facts \
                 and their tags"
            )));
        }
        if self.options().server.doorbell == Doorbell::Off {
            return Err(misconfigured(
                "keeping partitions takes a lock that belongs to a session, and a journal without a \
                 doorbell uses none: connect directly, not through a transaction pooler, and leave \
                 the doorbell on",
            ));
        }
        let session = Session::open(self.clone()).await?;
        Ok(session.map_or(Keeping::Elsewhere, |session| {
            Keeping::Ranges(Box::new(session) as Box<dyn RangeSession>)
        }))
    }

    async fn purge_facts(&self, purge: &PurgeFacts) -> Result<PurgedFacts, StoreError> {
        let (after, up_to, before, limit) = bounds(purge);
        let limit = limit.min(limits::BATCH_ROWS as i64);
        let params: Params<'_> = &[&after, &up_to, &before, &limit];
        let rows = self.ask(Purpose::Append, &self.sql().journal.purge, params).await?;
        let row = one(&rows)?;
        Ok(PurgedFacts { facts: count(row)?, last: position(row, 1)? })
    }

    async fn purgeable_facts(&self, purge: &PurgeFacts) -> Result<u64, StoreError> {
        let (after, up_to, before, limit) = bounds(purge);
        let params: Params<'_> = &[&after, &up_to, &before, &limit];
        count(one(&self.ask(Purpose::Read, &self.sql().journal.purgeable, params).await?)?)
    }
}

fn bounds(purge: &PurgeFacts) -> (i64, i64, Option<At>, i64) {
    let limit = i64::try_from(purge.limit).unwrap_or(i64::MAX);
    (purge.after.into(), purge.up_to.into(), purge.before.map(At), limit)
}

fn count(row: &Row) -> Result<u64, StoreError> {
    Ok(u64::try_from(get::<i64>(row, 0)?).unwrap_or(0))
}
