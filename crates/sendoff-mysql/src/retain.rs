use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Error;
use sendoff_core::{EventId, Status, limits};
use sendoff_engine::store::{Purge, Purged, RetainStore, StoreError};

use crate::link::{Session, Tries};
use crate::options::Retention;
use crate::rows;
use crate::sql::Statement;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl RetainStore for MysqlStore {
    fn keeps(&self) -> Option<Duration> {
        match self.retention() {
            Retention::DeleteWhenDone => None,
            Retention::Keep(duration) => Some(duration),
        }
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let limit = purge.limit.min(limits::BATCH_ROWS);
        if limit == 0 {
            return Ok(Purged::default());
        }
        let purge = Purge { limit, ..*purge };
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().upkeep.session().await?;
            match self.forget(&mut session, &purge).await {
                Ok(forgotten) => {
                    session.keep();
                    return forgotten;
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        self.check_open()?;
        let count = async |status, limit| {
            let text = look(&self.sql().purgeable, purge, status, limit);
            let rows = self.links().upkeep.query(&text).await?;
            let found = rows.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
            Ok::<_, StoreError>(usize::try_from(found).unwrap_or(0))
        };
        let done = count(Status::Done, purge.limit).await?;
        let dead = if purge.dead { count(Status::Dead, purge.limit - done).await? } else { 0 };
        Ok(Purged { done: done as u64, dead: dead as u64 })
    }
}

/// One of the two statements that look for what is over.
fn look(statement: &Statement, purge: &Purge, status: Status, limit: usize) -> String {
    statement.with(&[
        ("kind", &Literal::number(status.code())),
        ("older_than", &Literal::span(purge.older_than)),
        ("limit", &Literal::count(limit)),
    ])
}

impl MysqlStore {
    async fn forget(
        &self,
        session: &mut Session<'_>,
        purge: &Purge,
    ) -> Result<Result<Purged, StoreError>, Error> {
        session.query("start transaction").await?;
        let found = self.find_over(session, purge).await?;
        match found {
            Ok((ids, purged)) if !ids.is_empty() => {
                let delete = self.sql().settle_delete.with(&[("list", &Literal::id_list(ids))]);
                session.query(&format!("{delete};\ncommit")).await?;
                Ok(Ok(purged))
            }
            nothing => {
                session.query("rollback").await?;
                Ok(nothing.map(|(_, purged)| purged))
            }
        }
    }

    async fn find_over(
        &self,
        session: &mut Session<'_>,
        purge: &Purge,
    ) -> Result<Result<(Vec<EventId>, Purged), StoreError>, Error> {
        let mut rows =
            session.query(&look(&self.sql().purge, purge, Status::Done, purge.limit)).await?;
        let done = rows.len();
        if purge.dead && done < purge.limit {
            let dead = look(&self.sql().purge, purge, Status::Dead, purge.limit - done);
            rows.extend(session.query(&dead).await?);
        }
        let purged = Purged { done: done as u64, dead: (rows.len() - done) as u64 };
        let ids = rows.iter().map(|row| rows::id(row, 0)).collect::<Result<Vec<_>, _>>();
        Ok(ids.map(|ids| (ids, purged)))
    }
}
