//! Deletes rows that are over, and adds counters up, on MySQL and MariaDB.

use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Row;
use sendoff_core::{Status, limits};
use sendoff_engine::store::{Cutoff, Purge, Purged, RetainStore, StoreError, Trail};

use crate::rows;
use crate::sql::Statement;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl RetainStore for MysqlStore {
    fn keeps(&self) -> Option<Duration> {
        self.retention().keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let limit = purge.limit.min(limits::BATCH_ROWS);
        if limit == 0 {
            return Ok(Purged::default());
        }
        let delete = async |status, limit| {
            let (done, dead) = (&self.sql().purge, &self.sql().purge_dead);
            let text = look(of(status, done, dead), purge, limit);
            count(&self.links().upkeep.query(&text).await?)
        };
        let done = delete(Status::Done, limit).await?;
        let room = usize::try_from(done).map_or(0, |done| limit.saturating_sub(done));
        let dead = if purge.dead && room > 0 { delete(Status::Dead, room).await? } else { 0 };
        Ok(Purged { done, dead })
    }

    async fn fold(&self) -> Result<u64, StoreError> {
        self.check_open()?;
        let text = self.sql().fold.with(&[
            ("limit", &Literal::count(limits::BATCH_ROWS)),
            ("remember", &Literal::span(limits::TALLY)),
        ]);
        count(&self.links().upkeep.query(&text).await?)
    }

    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        self.check_open()?;
        let statement = match trail {
            Trail::Seen => &self.sql().forget_seen,
            Trail::Audit => &self.sql().forget_audit,
        };
        let text = statement.with(&[
            ("cutoff", &Literal::cutoff(cutoff)),
            ("limit", &Literal::count(limit.min(limits::BATCH_ROWS))),
        ]);
        count(&self.links().upkeep.query(&text).await?)
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let found = async |status, limit| {
            let (done, dead) = (&self.sql().purgeable, &self.sql().purgeable_dead);
            let text = look(of(status, done, dead), purge, limit);
            count(&self.links().upkeep.query(&text).await?)
        };
        let done = found(Status::Done, purge.limit).await?;
        let room = usize::try_from(done).map_or(0, |done| purge.limit.saturating_sub(done));
        let dead = if purge.dead { found(Status::Dead, room).await? } else { 0 };
        Ok(Purged { done, dead })
    }
}

/// The number that a statement answers with.
fn count(rows: &[Row]) -> Result<u64, StoreError> {
    let found = rows.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
    Ok(u64::try_from(found).unwrap_or(0))
}

/// The statement for delivered rows, or that for dead ones.
fn of<'s>(status: Status, done: &'s Statement, dead: &'s Statement) -> &'s Statement {
    if status == Status::Dead { dead } else { done }
}

/// One of the statements that look for what is over.
fn look(statement: &Statement, purge: &Purge, limit: usize) -> String {
    statement.with(&[("cutoff", &Literal::cutoff(purge.cutoff)), ("limit", &Literal::count(limit))])
}
