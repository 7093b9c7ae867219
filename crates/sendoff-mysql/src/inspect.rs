//! Counts, lag and rows of an outbox on MySQL and MariaDB.

use async_trait::async_trait;
use sendoff_core::journal::doctor::ForgetfulSetting;
use sendoff_core::{EventId, Status, Timestamp, limits};
use sendoff_engine::store::{Counts, InspectStore, Lateness, Row, StoreError, TopicCounts};

use crate::error::failed;
use crate::link::{Link, last_rows};
use crate::rows;
use crate::schema;
use crate::sql::Sql;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl InspectStore for MysqlStore {
    async fn check_ready(&self) -> Result<(), StoreError> {
        schema::check_ready(self).await
    }

    async fn forgetful(&self) -> Result<Vec<ForgetfulSetting>, StoreError> {
        self.check_open()?;
        forgetful(&self.links().upkeep, self.sql()).await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.check_open()?;
        let text = self.sql().find.with(&[("id", &Literal::id(id))]);
        let found = self.links().upkeep.query(&text).await?;
        found.into_iter().next().map(rows::standing).transpose()
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.check_open()?;
        let mut counts = Counts::default();
        for row in self.links().upkeep.query(self.sql().counts.text()).await? {
            // The table's check allows the four of them only.
            if let Ok(status) = Status::try_from(rows::integer(&row, 0)?) {
                *counts.of(status) = u64::try_from(rows::integer(&row, 1)?).unwrap_or(0);
            }
        }
        Ok(counts)
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.check_open()?;
        let mut topics: Vec<TopicCounts> = Vec::new();
        for row in self.links().upkeep.query(self.sql().topics.text()).await? {
            let event_type = rows::name(&row, 0)?;
            if topics.last().is_none_or(|topic| topic.event_type != event_type) {
                topics.push(TopicCounts { event_type, ..TopicCounts::default() });
            }
            let number =
                |column| rows::integer(&row, column).map(|n| u64::try_from(n).unwrap_or(0));
            if let Some(topic) = topics.last_mut()
                && let Ok(status) = Status::try_from(rows::integer(&row, 1)?)
            {
                *topic.counts.of(status) += number(2)?;
                topic.held += number(3)?;
            }
        }
        Ok(topics)
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.check_open()?;
        let limit = Literal::numbers([limit.min(limits::BATCH_ROWS) as u64]);
        let found = self.links().upkeep.query(&self.sql().peek.with(&[("limit", &limit)])).await?;
        Ok(found.into_iter().filter_map(|row| rows::standing(row).ok()).collect())
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.check_open()?;
        let most = Literal::numbers([Lateness::ROWS]);
        let rows = self.links().upkeep.query(&self.sql().lag.with(&[("most", &most)])).await?;
        let row =
            rows.first().ok_or_else(|| StoreError::Refused("the server gave no time".into()))?;
        let seen = u64::try_from(rows::integer(row, 1)?).unwrap_or(0);
        let [oldest, due] = [rows::time(row, 0)?, rows::time(row, 2)?].map(Some);
        Ok(Lateness::seen(seen, oldest, due, rows::time(row, 3)?))
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        self.check_open()?;
        // Over a connection that nobody waits for.
        let link = &self.links().upkeep;
        let mut conn = link.take().await?;
        let rows = last_rows(&mut *conn, self.sql().first_due.text()).await.map_err(failed)?;
        link.give_back(conn).await;
        Ok(first_due(&rows)?.0)
    }
}

/// What `first_due` answers: when the first pending row is due, or now if that is earlier; and now.
fn first_due(rows: &[mysql_async::Row]) -> Result<(Timestamp, Timestamp), StoreError> {
    let row = rows.first().ok_or_else(|| StoreError::Refused("the server gave no time".into()))?;
    Ok((rows::time(row, 0)?, rows::time(row, 1)?))
}

/// What the server forgets in a crash, whatever lives on it.
pub(crate) async fn forgetful(link: &Link, sql: &Sql) -> Result<Vec<ForgetfulSetting>, StoreError> {
    let rows = link.query(sql.forgetful.text()).await?;
    let mut forgetful = Vec::new();
    for (column, name) in [(0, "innodb_flush_log_at_trx_commit"), (1, "sync_binlog")] {
        if let Some(row) = rows.first().filter(|row| rows::maybe(row, column).is_some()) {
            let value = rows::integer(row, column)?.to_string();
            forgetful.push(ForgetfulSetting { name: name.into(), value, durable: "1".into() });
        }
    }
    Ok(forgetful)
}
