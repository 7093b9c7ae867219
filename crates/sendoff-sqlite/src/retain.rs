use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_core::Timestamp;
use sendoff_engine::store::{RetainStore, StoreError};

use crate::options::Retention;
use crate::sql::Sql;
use crate::store::SqliteStore;

/// Rows looked at in one call to the store's thread, so that claims and settlements get their turn.
const ROWS_PER_STEP: usize = 2_000;

#[async_trait]
impl RetainStore for SqliteStore {
    fn keeps(&self) -> Option<Duration> {
        match self.retention() {
            Retention::DeleteWhenDone => None,
            Retention::Keep(duration) => Some(duration),
        }
    }

    async fn purge(&self, older_than: Duration, limit: usize) -> Result<u64, StoreError> {
        let cutoff = self.now().saturating_sub(older_than);
        // Found without a lock, in steps; deleted in one short transaction.
        let mut over = Vec::new();
        let mut after = Some(0);
        while let Some(from) = after {
            let wanted = limit - over.len();
            if wanted == 0 {
                break;
            }
            let step =
                self.read(move |conn, sql, now| walk(conn, sql, from, cutoff, now, wanted)).await?;
            over.extend(step.over);
            after = step.after;
        }
        if over.is_empty() {
            return self.check_open().map(|()| 0);
        }
        self.write(move |tx, sql, _| {
            let mut delete = tx.prepare_cached(&sql.purge_delete)?;
            let mut purged = 0;
            for seq in over {
                purged += delete.execute((seq, cutoff.as_micros()))? as u64;
            }
            Ok(purged)
        })
        .await
    }
}

/// What one step of the walk found.
struct Step {
    /// Rows that may go.
    over: Vec<i64>,
    /// Where the next step begins; `None` at the end.
    after: Option<i64>,
}

fn walk(
    conn: &Connection,
    sql: &Sql,
    from: i64,
    cutoff: Timestamp,
    now: Timestamp,
    wanted: usize,
) -> rusqlite::Result<Step> {
    let mut statement = conn.prepare_cached(&sql.purge_walk)?;
    let mut rows = statement.query((from, cutoff.as_micros(), ROWS_PER_STEP as i64))?;
    let mut step = Step { over: Vec::new(), after: None };
    let mut seen = 0;
    while let Some(row) = rows.next()? {
        let created_at: i64 = row.get(1)?;
        // A row from the future says nothing about those behind it: the clock was wrong then.
        let young = (cutoff.as_micros()..=now.as_micros()).contains(&created_at);
        if young || step.over.len() == wanted {
            return Ok(Step { after: None, ..step });
        }
        let seq = row.get(0)?;
        // NULL where a row was never done.
        if row.get::<_, Option<bool>>(2)?.unwrap_or(false) {
            step.over.push(seq);
        }
        seen += 1;
        step.after = Some(seq);
    }
    if seen < ROWS_PER_STEP {
        step.after = None;
    }
    Ok(step)
}
