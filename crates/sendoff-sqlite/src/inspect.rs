//! Counts, lag and rows of an outbox on SQLite.

use async_trait::async_trait;
use rusqlite::OptionalExtension;
use sendoff_core::{EventId, Status, Timestamp, limits};
use sendoff_engine::store::{Counts, InspectStore, Lateness, Row, StoreError, TopicCounts};

use crate::claim::oldest_due;
use crate::rows;
use crate::store::SqliteStore;

#[async_trait]
impl InspectStore for SqliteStore {
    async fn check_ready(&self) -> Result<(), StoreError> {
        self.check_ready().await
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        let found = self
            .read(move |conn, sql, _| {
                conn.prepare_cached(&sql.find)?.query_row([id.as_bytes()], rows::row).optional()
            })
            .await?;
        Ok(found.transpose()?)
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        self.read(move |conn, sql, _| {
            let limit = i64::try_from(limit.min(limits::BATCH_ROWS)).unwrap_or(i64::MAX);
            let mut statement = conn.prepare_cached(&sql.peek)?;
            let rows: Vec<_> =
                statement.query_map([limit], rows::row)?.collect::<Result<_, _>>()?;
            Ok(rows.into_iter().flatten().collect())
        })
        .await
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        self.read(|conn, sql, _| {
            let mut counts = Counts::default();
            let mut statement = conn.prepare_cached(&sql.counts)?;
            let mut found = statement.query([])?;
            while let Some(row) = found.next()? {
                // The table's check allows the four of them only.
                if let Ok(status) = Status::try_from(row.get::<_, i64>(0)?) {
                    let count: i64 = row.get(1)?;
                    *counts.of(status) = u64::try_from(count).unwrap_or(0);
                }
            }
            Ok(counts)
        })
        .await
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        self.read(|conn, sql, now| {
            let mut topics: Vec<TopicCounts> = Vec::new();
            let mut statement = conn.prepare_cached(&sql.topics)?;
            let mut found = statement.query([now.as_micros()])?;
            // In the order of the types.
            while let Some(row) = found.next()? {
                // SQLite stores any bytes as text.
                let event_type = String::from_utf8_lossy(row.get_ref(0)?.as_bytes()?).into_owned();
                if topics.last().is_none_or(|topic| topic.event_type != event_type) {
                    topics.push(TopicCounts { event_type, ..TopicCounts::default() });
                }
                let status = Status::try_from(row.get::<_, i64>(1)?);
                if let (Some(topic), Ok(status)) = (topics.last_mut(), status) {
                    *topic.counts.of(status) += u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
                    topic.held += u64::try_from(row.get::<_, i64>(3)?).unwrap_or(0);
                }
            }
            Ok(topics)
        })
        .await
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        self.read(|conn, sql, now| {
            let most = i64::try_from(Lateness::ROWS).unwrap_or(i64::MAX);
            let mut lag = conn.prepare_cached(&sql.lag)?;
            lag.query_row((now.as_micros(), most), |row| {
                let time = |column| -> rusqlite::Result<Option<Timestamp>> {
                    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
                };
                let oldest = [time(0)?, time(1)?].into_iter().flatten().min();
                let seen = u64::try_from(row.get::<_, i64>(2)?).unwrap_or(0);
                Ok(Lateness::seen(seen, oldest, time(3)?, now))
            })
        })
        .await
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        self.read(|conn, sql, now| Ok(oldest_due(conn, sql)?.map_or(now, |due_at| due_at.min(now))))
            .await
    }
}
