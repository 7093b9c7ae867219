use std::time::Duration;

use rusqlite::Connection;
use sendoff::{Status, Timestamp};

const PENDING: &str = include_str!("sql/pending.sql");

/// What the outbox still owes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stand {
    pub(crate) new: u64,
    pub(crate) retry: u64,
    /// The age of the oldest event that is not delivered.
    pub(crate) lag: Duration,
}

impl Stand {
    pub(crate) fn read(conn: &Connection) -> rusqlite::Result<Self> {
        let mut stand = Self::default();
        let mut pending = conn.prepare_cached(PENDING)?;
        let mut rows = pending.query([])?;
        let now = Timestamp::now();
        while let Some(row) = rows.next()? {
            let count: u64 = row.get(1)?;
            match Status::try_from(row.get::<_, i64>(0)?) {
                Ok(Status::Retry) => stand.retry = count,
                _ => stand.new = count,
            }
            let oldest = Timestamp::from_micros(row.get(2)?);
            stand.lag = stand.lag.max(now.since(oldest));
        }
        Ok(stand)
    }

    pub(crate) fn pending(&self) -> u64 {
        self.new + self.retry
    }
}
