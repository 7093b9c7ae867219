//! Walks a table on SQLite for rows that are over, in steps that leave others their turn.

use std::sync::atomic::Ordering;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_core::{Status, Timestamp, limits};
use sendoff_engine::store::{Cutoff, Purge, Purged, RetainStore, StoreError, Trail};

use crate::sql::Sql;
use crate::store::SqliteStore;

/// Rows looked at in one call to the store's thread, so that claims and settlements get their turn.
const ROWS_PER_STEP: usize = 2_000;

#[async_trait]
impl RetainStore for SqliteStore {
    fn keeps(&self) -> Option<Duration> {
        self.retention().keeps()
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        let cutoff = purge.cutoff.at(self.now());
        let mut purged = Purged::default();
        loop {
            let left = purge.limit - usize::try_from(purged.total()).unwrap_or(purge.limit);
            let (found, gone) = self.purge_found(&Purge { limit: left, ..*purge }, cutoff).await?;
            purged += gone;
            // Fewer gone than found: somebody else was quicker, and there may be more.
            if found < left || gone.total() == left as u64 {
                return Ok(purged);
            }
        }
    }

    /// There are no parts: only what is over is forgotten. Looked for without a lock first, which every
    /// writer of the file would wait for.
    async fn fold(&self) -> Result<u64, StoreError> {
        let cutoff = self.now().saturating_sub(limits::TALLY).as_micros();
        let over = self.read(move |conn, sql, _| {
            conn.prepare_cached(&sql.tally_over)?.query_row([cutoff], |row| row.get(0))
        });
        if over.await? {
            self.write(move |tx, sql, _| tx.prepare_cached(&sql.tally_forget)?.execute([cutoff]))
                .await?;
        }
        Ok(0)
    }

    async fn forget(&self, trail: Trail, cutoff: Cutoff, limit: usize) -> Result<u64, StoreError> {
        let limit = limit.min(limits::BATCH_ROWS) as i64;
        let gone = self.write(move |tx, sql, now| {
            let (before, now) = (cutoff.at(now).as_micros(), now.as_micros());
            match trail {
                Trail::Seen => tx.prepare_cached(&sql.forget_seen)?.execute((before, limit)),
                Trail::Audit => tx.prepare_cached(&sql.forget_audit)?.execute((before, limit, now)),
            }
        });
        Ok(gone.await? as u64)
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        let cutoff = purge.cutoff.at(self.now());
        let Over { done, dead } = self.over(purge, cutoff, 0).await?;
        self.check_open()?;
        Ok(Purged { done: done.len() as u64, dead: dead.len() as u64 })
    }
}

/// Rows that may go, by their numbers.
struct Over {
    done: Vec<i64>,
    dead: Vec<i64>,
}

impl SqliteStore {
    /// Looks, and deletes what it found: how many of each.
    async fn purge_found(
        &self,
        purge: &Purge,
        cutoff: Timestamp,
    ) -> Result<(usize, Purged), StoreError> {
        // The next batch goes on where the last one ended: rows that stay are not passed again for
        // every batch.
        let walked = self.walked();
        let Over { done, dead } = self.over(purge, cutoff, walked.load(Ordering::Relaxed)).await?;
        let full = done.len() == purge.limit;
        let reached = done.last().copied().filter(|_| full).unwrap_or(0);
        walked.store(reached, Ordering::Relaxed);
        let found = done.len() + dead.len();
        if found == 0 {
            return self.check_open().map(|()| (0, Purged::default()));
        }
        let gone = self
            .write(move |tx, sql, _| {
                let mut delete = tx.prepare_cached(&sql.purge_delete)?;
                let mut forget = |rows: Vec<i64>, status: Status| -> rusqlite::Result<u64> {
                    let mut gone = 0;
                    for seq in rows {
                        gone += delete.execute((seq, cutoff.as_micros(), status.code()))? as u64;
                    }
                    Ok(gone)
                };
                Ok(Purged { done: forget(done, Status::Done)?, dead: forget(dead, Status::Dead)? })
            })
            .await?;
        Ok((found, gone))
    }

    /// Found without a lock, in steps, from the row `resumed` on.
    async fn over(
        &self,
        purge: &Purge,
        cutoff: Timestamp,
        resumed: i64,
    ) -> Result<Over, StoreError> {
        let mut done = self.walk_done(resumed, i64::MAX, cutoff, purge.limit).await?;
        if done.len() < purge.limit && resumed > 0 {
            // At the end. What was not over when it was passed may be now.
            let wanted = purge.limit - done.len();
            done.extend(self.walk_done(0, resumed, cutoff, wanted).await?);
        }
        let wanted = purge.limit - done.len();
        if !purge.dead || wanted == 0 {
            return Ok(Over { done, dead: Vec::new() });
        }
        let dead = self
            .read(move |conn, sql, _| {
                let mut statement = conn.prepare_cached(&sql.purge_dead)?;
                let limit = i64::try_from(wanted).unwrap_or(i64::MAX);
                statement.query_map((cutoff.as_micros(), limit), |row| row.get(0))?.collect()
            })
            .await?;
        Ok(Over { done, dead })
    }

    /// Delivered rows over, after the row `after` and up to `last`.
    async fn walk_done(
        &self,
        after: i64,
        last: i64,
        cutoff: Timestamp,
        wanted: usize,
    ) -> Result<Vec<i64>, StoreError> {
        let mut over = Vec::new();
        let mut next = Some(after);
        while let Some(from) = next.filter(|from| *from < last) {
            let wanted = wanted - over.len();
            if wanted == 0 {
                break;
            }
            let step =
                self.read(move |conn, sql, now| walk(conn, sql, from, cutoff, now, wanted)).await?;
            over.extend(step.over.into_iter().filter(|seq| *seq <= last));
            next = step.after;
        }
        Ok(over)
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
        // A row from the future says nothing about those after it: the clock was wrong then.
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
