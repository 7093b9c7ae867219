//! The partitions of the table: looked at, made and dropped on one session.

use std::fmt;

use async_trait::async_trait;
use mysql_async::{Error, Row};
use sendoff_core::Timestamp;
use sendoff_core::partition::{Existing, PartitionName, Planned, Survey};
use sendoff_engine::store::{
    Bounds, Created, Dropped, PartitionSession, PartitionStore, StoreError,
};

use crate::error::{failed, is_lost_race, misconfigured, number};
use crate::link::last_rows;
use crate::rows;
use crate::run::Known;
use crate::store::MysqlStore;
use crate::wire::Literal;

/// After how long a silence the server ends a session that may have locked the table, which no writer
/// may wait for longer than two seconds.
const SILENCE_SECONDS: usize = 1;

/// The tail, which is never dropped.
const TAIL: &str = "pmax";

#[async_trait]
impl PartitionStore for MysqlStore {
    async fn maintain(&self) -> Result<Option<Box<dyn PartitionSession>>, StoreError> {
        self.check_open()?;
        let mut session = Session { store: self.clone(), conn: self.links().upkeep.take().await? };
        session.list().await?;
        let locked = session.query(&lock("get_lock", self, ", 0")).await.map_err(failed)?;
        if locked.first().map_or(Ok(0), |row| rows::integer(row, 0))? == 1 {
            return Ok(Some(Box::new(session)));
        }
        self.links().upkeep.give_back(session.conn).await;
        Ok(None)
    }
}

/// A lock that ends with its session. Its name has 64 characters at most.
fn lock(function: &str, store: &MysqlStore, more: &str) -> String {
    format!(
        "select {function}(concat('sendoff partitions ', left(sha2(concat(database(), '.{}'), 256), \
         44)){more})",
        store.names().plain("outbox_event")
    )
}

struct Session {
    store: MysqlStore,
    conn: Known,
}

#[async_trait]
impl PartitionSession for Session {
    async fn survey(&mut self) -> Result<Survey, StoreError> {
        let (now, partitions) = self.list().await?;
        let tail = self.tail(1).await.map_err(failed)?;
        let tail_oldest = match tail.first() {
            Some(row) if rows::integer(row, 0)? > 0 => Some(rows::time(row, 1)?),
            _ => None,
        };
        Ok(Survey { now, partitions, tail_oldest })
    }

    async fn is_pending(&mut self, name: &PartitionName) -> Result<bool, StoreError> {
        let found = self.pending(name).await.map_err(failed)?;
        Ok(found.first().map_or(Ok(0), |row| rows::integer(row, 0))? > 0)
    }

    async fn has_dead(&mut self, name: &PartitionName) -> Result<bool, StoreError> {
        let name = Literal::partition(name);
        let text = self.store.sql().partition_dead.with(&[("partition", &name)]);
        let found = self.query(&text).await.map_err(failed)?;
        Ok(found.first().map_or(Ok(0), |row| rows::integer(row, 0))? > 0)
    }

    async fn create(&mut self, planned: &Planned, bounds: Bounds) -> Result<Created, StoreError> {
        // All of the tail is written anew, not only what moves.
        let most = usize::try_from(bounds.most_moved).unwrap_or(usize::MAX - 1);
        let tail = self.tail(most.saturating_add(1)).await.map_err(failed)?;
        let tail = tail.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        if usize::try_from(tail).unwrap_or(0) > most {
            return Ok(Created::TailTooFull);
        }
        let sql = self.store.sql();
        let (name, until) = (Literal::partition(&planned.name), Literal::end(planned.to));
        let values = [("partition", &name), ("until", &until)];
        let (moving, create) =
            (sql.partition_moving.with(&values), sql.partition_create.with(&values));
        let moving = self.query(&moving).await.map_err(failed)?;
        let moved = moving.first().map_or(Ok(0), |row| rows::integer(row, 0))?;
        self.wait_at_most(bounds).await?;
        match self.query(&create).await {
            Ok(_) => Ok(Created::Made { moved: u64::try_from(moved).unwrap_or(0) }),
            Err(error) => busy(error, Created::Busy),
        }
    }

    async fn drop(&mut self, name: &PartitionName, bounds: Bounds) -> Result<Dropped, StoreError> {
        self.wait_at_most(bounds).await?;
        let partition = Literal::partition(name);
        let drop = self.store.sql().partition_drop.with(&[("partition", &partition)]);
        let end = self.store.sql().partition_end.with(&[
            ("partition", &partition),
            ("drop", &Literal::text(&drop)),
            ("drop_dead", &Literal::count(bounds.drop_dead.into())),
            ("seconds", &Literal::count(SILENCE_SECONDS)),
        ]);
        match self.query(&end).await {
            Ok(left) => Ok(match left.first().map_or(Ok(0), |row| rows::integer(row, 0))? {
                0 => Dropped::Gone,
                2 => Dropped::Dead,
                _ => Dropped::Pending,
            }),
            Err(error) => {
                // The text ended at the statement that failed, and the lock may be there.
                if number(&error).is_some() {
                    self.query("unlock tables").await.map_err(failed)?;
                }
                busy(error, Dropped::Busy)
            }
        }
    }

    async fn release(mut self: Box<Self>) -> Result<(), StoreError> {
        let unlock = lock("release_lock", &self.store, "");
        self.query(&unlock).await.map_err(failed)?;
        // Its limits are others than those of the link.
        self.conn.disconnect().await;
        Ok(())
    }
}

impl Session {
    async fn query(&mut self, text: &str) -> Result<Vec<Row>, Error> {
        last_rows(&mut *self.conn, text).await
    }

    /// How long a change waits for transactions that use the table. Whole seconds, by the server.
    async fn wait_at_most(&mut self, bounds: Bounds) -> Result<(), StoreError> {
        let seconds = bounds.lock_wait.as_millis().div_ceil(1_000).max(1);
        let set = format!("set session lock_wait_timeout = {seconds}");
        self.query(&set).await.map(|_| ()).map_err(failed)
    }

    async fn tail(&mut self, limit: usize) -> Result<Vec<Row>, Error> {
        let text = self.store.sql().partition_tail.with(&[("limit", &Literal::count(limit))]);
        self.query(&text).await
    }

    async fn pending(&mut self, name: &PartitionName) -> Result<Vec<Row>, Error> {
        let name = Literal::partition(name);
        let text = self.store.sql().partition_pending.with(&[("partition", &name)]);
        self.query(&text).await
    }

    /// The time, and every partition but the tail. Each begins where the one before it ends.
    async fn list(&mut self) -> Result<(Timestamp, Vec<Existing>), StoreError> {
        let (database, table) = (self.store.connector().database(), self.store.table());
        let text = self.store.sql().partition_list.with(&[
            ("database", &Literal::text(database)),
            ("table", &Literal::text(&self.store.names().plain("outbox_event"))),
        ]);
        let listed = self.query(&text).await.map_err(failed)?;
        let Some(first) = listed.first() else {
            return Err(misconfigured(format!(
                "there is no table {table}: migrate first, with the partitioned layout"
            )));
        };
        let now = rows::time(first, 4)?;
        let text = |row: &Row, column| row.get::<Option<String>, _>(column).flatten();
        let Some(method) = text(first, 1) else {
            return Err(misconfigured(format!(
                "the table {table} is flat, not in partitions: clean it up instead, or migrate a new one with \
                 the partitioned layout"
            )));
        };
        let by = text(first, 2).unwrap_or_default();
        if method != "RANGE COLUMNS" || by.trim_matches('`') != "created_at" {
            return Err(misconfigured(format!(
                "the table {table} is partitioned by something else than ranges of created_at"
            )));
        }
        let mut partitions = Vec::with_capacity(listed.len());
        let (mut from, mut tail) = (None, false);
        for row in &listed {
            let name = text(row, 0).unwrap_or_default();
            if name == TAIL {
                tail = true;
                continue;
            }
            let to = match text(row, 3) {
                Some(_) => Some(Timestamp::from_micros(rows::integer(row, 3)?)),
                None => None,
            };
            partitions.push(Existing { name: name.parse().ok(), from, to });
            from = to;
        }
        if tail {
            return Ok((now, partitions));
        }
        Err(misconfigured(format!(
            "the table {table} has no tail: alter table {table} add partition (partition {TAIL} values \
             less than (maxvalue))"
        )))
    }
}

/// Tells a lock that was not to be had in time from an error.
fn busy<T>(error: Error, busy: T) -> Result<T, StoreError> {
    if number(&error).is_some_and(is_lost_race) { Ok(busy) } else { Err(failed(error)) }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("store", &self.store).finish_non_exhaustive()
    }
}
