//! Counts, lag and rows of an outbox on PostgreSQL.

use async_trait::async_trait;
use futures_util::future::join3;
use sendoff_core::{EventId, Status, Timestamp, limits};
use sendoff_engine::store::{Counts, InspectStore, Lateness, Row, StoreError, TopicCounts};

use crate::error::failed;
use crate::link::Kept;
use crate::rows;
use crate::schema;
use crate::store::PostgresStore;
use crate::wire::Id;

#[async_trait]
impl InspectStore for PostgresStore {
    async fn check_ready(&self) -> Result<(), StoreError> {
        schema::check_ready(self).await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        self.check_open()?;
        let found = self.links().upkeep.query(&self.sql().find, &[&Id(id)]).await?;
        found.first().map(rows::standing).transpose()
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.check_open()?;
        let mut counts = Counts::default();
        for row in self.links().upkeep.query(&self.sql().counts, &[]).await? {
            // The table's check allows the four of them only.
            if let Ok(status) = Status::try_from(i64::from(rows::get::<i16>(&row, 0)?)) {
                *counts.of(status) = u64::try_from(rows::get::<i64>(&row, 1)?).unwrap_or(0);
            }
        }
        Ok(counts)
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.check_open()?;
        let mut topics: Vec<TopicCounts> = Vec::new();
        // In the order of the types.
        for row in self.links().upkeep.query(&self.sql().topics, &[]).await? {
            let event_type: String = rows::get(&row, 0)?;
            if topics.last().is_none_or(|topic| topic.event_type != event_type) {
                topics.push(TopicCounts { event_type, ..TopicCounts::default() });
            }
            let status = Status::try_from(i64::from(rows::get::<i16>(&row, 1)?));
            if let (Some(topic), Ok(status)) = (topics.last_mut(), status) {
                *topic.counts.of(status) = u64::try_from(rows::get::<i64>(&row, 2)?).unwrap_or(0);
                topic.held += u64::try_from(rows::get::<i64>(&row, 3)?).unwrap_or(0);
            }
        }
        Ok(topics)
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.check_open()?;
        let limit = i64::try_from(limit.min(limits::BATCH_ROWS)).unwrap_or(i64::MAX);
        let found = self.links().upkeep.query(&self.sql().peek, &[&limit]).await?;
        Ok(found.iter().filter_map(|row| rows::standing(row).ok()).collect())
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.check_open()?;
        let most = i64::try_from(Lateness::ROWS).unwrap_or(i64::MAX);
        let rows = self.links().upkeep.query(&self.sql().lag, &[&most]).await?;
        let row =
            rows.first().ok_or_else(|| StoreError::Refused("the server gave no time".into()))?;
        let seen = u64::try_from(rows::get::<i64>(row, 1)?).unwrap_or(0);
        let [oldest, due] = [rows::time(row, 0)?, rows::time(row, 2)?].map(Some);
        Ok(Lateness::seen(seen, oldest, due, rows::time(row, 3)?))
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        self.check_open()?;
        // Over a session that nobody waits for, and which may take its time: the server ends it where the
        // process that asks is gone.
        let (link, sql) = (&self.links().upkeep, self.sql());
        let kept = Kept::from(self.doorbell());
        let session = link.take().await?;
        session.prepare(&[&sql.first_due], kept).await.map_err(failed)?;
        let (begun, rows, ended) = join3(
            session.execute("begin; set local statement_timeout = '10min'"),
            session.query(&sql.first_due, &[], kept),
            session.execute("commit"),
        )
        .await;
        begun.map_err(failed)?;
        let rows = rows.map_err(failed)?;
        ended.map_err(failed)?;
        link.give_back(session).await;
        Ok(first_due(&rows)?.0)
    }
}

/// What `first_due` answers: when the first pending row is due, or now if that is earlier; and now.
fn first_due(rows: &[tokio_postgres::Row]) -> Result<(Timestamp, Timestamp), StoreError> {
    let row = rows.first().ok_or_else(|| StoreError::Refused("the server gave no time".into()))?;
    Ok((rows::time(row, 0)?, rows::time(row, 1)?))
}
