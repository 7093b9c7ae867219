use std::time::Duration;

use async_trait::async_trait;
use mysql_async::Error;
use sendoff_core::{EventId, limits};
use sendoff_engine::store::{RetainStore, StoreError};

use crate::link::{Session, Tries};
use crate::options::Retention;
use crate::rows;
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

    async fn purge(&self, older_than: Duration, limit: usize) -> Result<u64, StoreError> {
        self.check_open()?;
        let limit = limit.min(limits::BATCH_ROWS);
        if limit == 0 {
            return Ok(0);
        }
        let look = self
            .sql()
            .purge
            .with(&[("older_than", &Literal::span(older_than)), ("limit", &Literal::count(limit))]);
        let mut tries = Tries::default();
        loop {
            let mut session = self.links().upkeep.session().await?;
            match self.forget(&mut session, &look).await {
                Ok(forgotten) => {
                    session.keep();
                    return forgotten;
                }
                Err(error) => session.failed(error, &mut tries).await?,
            }
        }
    }
}

impl MysqlStore {
    async fn forget(
        &self,
        session: &mut Session<'_>,
        look: &str,
    ) -> Result<Result<u64, StoreError>, Error> {
        let rows = session.query(look).await?;
        let ids = rows.iter().map(|row| rows::id(row, 0)).collect::<Result<Vec<EventId>, _>>();
        match ids {
            Ok(ids) if !ids.is_empty() => {
                let count = ids.len() as u64;
                let delete = self.sql().settle_delete.with(&[("ids", &Literal::ids(ids))]);
                session.query(&format!("{delete};\ncommit")).await?;
                Ok(Ok(count))
            }
            nothing => {
                session.query("rollback").await?;
                Ok(nothing.map(|_| 0))
            }
        }
    }
}
