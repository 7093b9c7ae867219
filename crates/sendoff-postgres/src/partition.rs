//! The partitions of the table: looked at, made and dropped on one session.

use std::fmt;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::partition::{Existing, PartitionName, Planned, Survey};
use sendoff_engine::store::{
    Bounds, Created, Dropped, PartitionSession, PartitionStore, StoreError,
};
use tokio_postgres::{Error, Row, SimpleQueryMessage};

use crate::ddl;
use crate::error::{failed, misconfigured};
use crate::link::{Params, Taken, query_unnamed};
use crate::options::Doorbell;
use crate::rows;
use crate::sql::Statement;
use crate::store::PostgresStore;
use crate::wire::At;

/// How far the clocks of writers' statements may be ahead of what we asked the server for.
const PRESENT: std::time::Duration = std::time::Duration::from_secs(60 * 60);

/// How long a maintainer may be silent before the server takes it for frozen, and another may work.
const SILENT_MILLIS: &str = "60000";

/// What a name may have; PostgreSQL cuts what is longer.
const NAME_BYTES: usize = 63;

/// What the texts say by a code of their own.
const PENDING: &str = "SD001";
const DEAD: &str = "SD002";
const TAIL_TOO_FULL: &str = "SD003";

fn says(error: &Error, code: &str) -> bool {
    error.code().is_some_and(|said| said.code() == code)
}

#[async_trait]
impl PartitionStore for PostgresStore {
    async fn maintain(&self) -> Result<Option<Box<dyn PartitionSession>>, StoreError> {
        self.check_open()?;
        if self.doorbell() == Doorbell::Off {
            return Err(misconfigured(
                "keeping partitions takes a lock that belongs to a session, and a store without a \
                 doorbell uses none: connect directly, not through a transaction pooler, and leave \
                 the doorbell on",
            ));
        }
        let session = Session { store: self.clone(), taken: self.links().upkeep.take().await? };
        session.check_layout().await?;
        let locked = session.query(&self.sql().partition_lock, &[]).await.map_err(failed)?;
        if rows::get(one(&locked)?, 0)? {
            session.may_be_silent(SILENT_MILLIS).await?;
            return Ok(Some(Box::new(session)));
        }
        self.links().upkeep.give_back(session.taken).await;
        Ok(None)
    }
}

struct Session {
    store: PostgresStore,
    taken: Taken,
}

#[async_trait]
impl PartitionSession for Session {
    async fn survey(&mut self) -> Result<Survey, StoreError> {
        let sql = self.store.sql();
        let listed = self.query(&sql.partition_list, &[]).await.map_err(failed)?;
        let first = one(&listed)?;
        let prefix = self.store.names().plain("outbox_event_");
        let mut partitions = Vec::with_capacity(listed.len());
        for row in &listed {
            let Some(name) = rows::get::<Option<&str>>(row, 2)? else { continue };
            let ours = rows::get::<bool>(row, 3)?;
            let short = name.strip_prefix(&*prefix).filter(|_| ours);
            partitions.push(Existing {
                name: short.and_then(|name| name.parse().ok()),
                from: optional_time(row, 4)?,
                to: optional_time(row, 5)?,
            });
        }
        Ok(Survey { now: rows::time(first, 0)?, tail_oldest: optional_time(first, 1)?, partitions })
    }

    async fn is_pending(&mut self, name: &PartitionName) -> Result<bool, StoreError> {
        self.exists(include_str!("../sql/outbox/partition_pending.sql"), name).await
    }

    async fn has_dead(&mut self, name: &PartitionName) -> Result<bool, StoreError> {
        self.exists(include_str!("../sql/outbox/partition_dead.sql"), name).await
    }

    async fn create(&mut self, planned: &Planned, bounds: Bounds) -> Result<Created, StoreError> {
        self.check_length(&planned.name)?;
        let created = self.try_create(planned, bounds).await;
        ddl::ended(self.taken.client(), created, Created::Busy).await
    }

    async fn drop(&mut self, name: &PartitionName, bounds: Bounds) -> Result<Dropped, StoreError> {
        let dropped = self.try_drop(name, bounds).await;
        ddl::ended(self.taken.client(), dropped, Dropped::Busy).await
    }

    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        self.query(&self.store.sql().partition_unlock, &[]).await.map_err(failed)?;
        self.may_be_silent("0").await?;
        let Self { store, taken } = *self;
        store.links().upkeep.give_back(taken).await;
        Ok(())
    }
}

impl Session {
    async fn query(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, Error> {
        query_unnamed(self.taken.client(), statement, params).await
    }

    async fn run(&self, script: &str) -> Result<(), Error> {
        self.taken.client().batch_execute(script).await
    }

    /// A name that the server cuts would be that of another hour.
    fn check_length(&self, name: &PartitionName) -> Result<(), StoreError> {
        let name = self.store.names().plain(&format!("outbox_event_{name}"));
        if name.len() > NAME_BYTES {
            return Err(misconfigured(format!(
                "the partition {name} has a name of {} bytes, and PostgreSQL cuts names at {NAME_BYTES}: \
                 choose a shorter prefix for a new table, or partitions by day",
                name.len()
            )));
        }
        Ok(())
    }

    async fn check_layout(&self) -> Result<(), StoreError> {
        let table = self.store.table();
        let found = self.query(&self.store.sql().partition_layout, &[]).await.map_err(failed)?;
        let Some(row) = found.first() else {
            return Err(misconfigured(format!(
                "there is no table {table}: migrate first, with the partitioned layout"
            )));
        };
        if rows::get::<&str>(row, 0)? != "p" {
            return Err(misconfigured(format!(
                "the table {table} is flat, not in partitions, and PostgreSQL cannot change that: clean it \
                 up instead, or migrate a new one with the partitioned layout"
            )));
        }
        if !rows::get::<bool>(row, 1)? {
            return Err(misconfigured(format!(
                "the table {table} is partitioned by something else than ranges of created_at"
            )));
        }
        if !rows::get::<bool>(row, 2)? {
            return Err(misconfigured(format!(
                "the table {table} has no tail: create table {} partition of {table} default",
                self.store.names().qualified("outbox_event_pmax")
            )));
        }
        Ok(())
    }

    /// Whether there is such a row in a partition.
    async fn exists(&self, text: &str, name: &PartitionName) -> Result<bool, StoreError> {
        let text = self.script(text, name);
        let found = self.taken.client().query_typed(&text, &[]).await.map_err(failed)?;
        found.first().map_or(Ok(false), |row| rows::get(row, 0))
    }

    /// How long the server lets this session be silent; `0` for ever.
    async fn may_be_silent(&self, millis: &str) -> Result<(), StoreError> {
        let idle = &self.store.sql().partition_idle;
        self.query(idle, &[&millis]).await.map(|_| ()).map_err(failed)
    }

    async fn try_create(&self, planned: &Planned, bounds: Bounds) -> Result<Created, Error> {
        // In the database's time: nobody writes further ahead than its clock.
        let asked = self.taken.client().query_typed("select now()", &[]).await?;
        let At(now) = asked.first().map_or(Ok(At(planned.from)), |row| row.try_get(0))?;
        let lock = if planned.from > now.saturating_add(PRESENT) {
            include_str!("../sql/outbox/partition_lock_ahead.sql")
        } else {
            include_str!("../sql/outbox/partition_lock_present.sql")
        };
        let most = i64::try_from(bounds.most_moved).unwrap_or(i64::MAX - 1);
        let create = include_str!("../sql/outbox/partition_create.sql");
        let text = self
            .script(&format!("{lock}{create}"), &planned.name)
            .replace("range_from", &planned.from.to_string())
            .replace("range_to", &planned.to.to_string())
            .replace("most_moved", &most.to_string());
        match self.change(bounds, &text).await {
            Ok(moved) => Ok(Created::Made { moved }),
            Err(error) if says(&error, TAIL_TOO_FULL) => {
                self.run("rollback").await?;
                Ok(Created::TailTooFull)
            }
            Err(error) => Err(error),
        }
    }

    async fn try_drop(&self, name: &PartitionName, bounds: Bounds) -> Result<Dropped, Error> {
        let text = self
            .script(include_str!("../sql/outbox/partition_drop.sql"), name)
            .replace("drop_dead", &bounds.drop_dead.to_string());
        let kept = match self.change(bounds, &text).await {
            Ok(_) => return Ok(Dropped::Gone),
            Err(error) if says(&error, PENDING) => Dropped::Pending,
            Err(error) if says(&error, DEAD) => Dropped::Dead,
            Err(error) => return Err(error),
        };
        self.run("rollback").await?;
        Ok(kept)
    }

    /// Runs a whole transaction in one round trip, and says how many rows it wrote.
    async fn change(&self, bounds: Bounds, text: &str) -> Result<u64, Error> {
        let text = format!("{}; {text}", ddl::beginning(bounds.lock_wait));
        let answers = self.taken.client().simple_query(&text).await?;
        let written = answers.iter().map(|answer| match answer {
            SimpleQueryMessage::CommandComplete(rows) => *rows,
            _ => 0,
        });
        Ok(written.sum())
    }

    /// A file's text for one partition. Only checked names are put in.
    fn script(&self, text: &str, name: &PartitionName) -> String {
        let partition = format!("outbox_event_{name}");
        self.store.names().put_into(&text.replace("outbox_event_partition", &partition))
    }
}

/// The first row of an answer that always has one.
pub(crate) fn one(rows: &[Row]) -> Result<&Row, StoreError> {
    rows.first().ok_or_else(|| StoreError::Refused("the server answered without a row".into()))
}

fn optional_time(row: &Row, column: usize) -> Result<Option<Timestamp>, StoreError> {
    Ok(rows::get::<Option<At>>(row, column)?.map(|At(time)| time))
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("store", &self.store).finish_non_exhaustive()
    }
}
