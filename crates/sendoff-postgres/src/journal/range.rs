//! The journal's partitions: looked at, made and taken out on one session.
//!
//! The facts and their tags are changed one after the other, in transactions of their own: appends
//! lock the facts first and reads the tags, so whoever locked both would stand in somebody's way.

use std::fmt;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::Timestamp;
use sendoff_core::journal::Position;
use sendoff_core::journal::retain::{ExistingRange, PlannedRange, RangeName, RangeSurvey};
use sendoff_engine::journal::retain::{Fate, Leaving, RangeSession, RangeTable};
use sendoff_engine::store::{Bounds, Created, Dropped, StoreError};
use tokio_postgres::types::{ToSql, Type};
use tokio_postgres::{Client, Error, Row};

use super::facts::position;
use super::store::PostgresJournal;
use crate::ddl;
use crate::error::failed;
use crate::link::{Params, Taken, query_unnamed};
use crate::partition::one;
use crate::rows::get;
use crate::sql::Statement;
use crate::wire::At;

/// A partition that begins further ahead than this is made while appends go on. More positions than
/// can be taken in the moment between the look and the commit.
const AHEAD: u64 = 10_000;

/// What a partition is called once it is taken out, until its ids are forgotten.
const DROPPING: &str = "journal_dropping_";
const ARCHIVING: &str = "journal_archiving_";
/// What it is called in the end.
const ARCHIVE: &str = "journal_archive_";

/// How long a maintainer may be silent before the server takes it for frozen, and another may work.
const SILENT_MILLIS: &str = "20000";

pub(super) struct Session {
    journal: PostgresJournal,
    taken: Taken,
}

impl Session {
    /// A session with the one lock of maintenance; `None` where somebody else has it.
    pub(super) async fn open(journal: PostgresJournal) -> Result<Option<Self>, StoreError> {
        let opened = journal.connector().open(None).await?;
        let session = Self { journal, taken: Taken::of(opened) };
        let lock = &session.journal.sql().journal.keeper_lock;
        let locked = session.query(lock, &[]).await.map_err(failed)?;
        if !get::<bool>(one(&locked)?, 0)? {
            return Ok(None);
        }
        let idle = &session.journal.sql().partition_idle;
        session.query(idle, &[&SILENT_MILLIS]).await.map_err(failed)?;
        Ok(Some(session))
    }

    fn client(&self) -> &Client {
        self.taken.client()
    }

    async fn query(&self, statement: &Statement, params: Params<'_>) -> Result<Vec<Row>, Error> {
        query_unnamed(self.client(), statement, params).await
    }

    async fn run(&self, script: &str) -> Result<(), Error> {
        self.client().batch_execute(script).await
    }

    /// One row of a text that has no parameters.
    async fn row(&self, text: &str) -> Result<Option<Row>, Error> {
        Ok(self.client().query_typed(text, &[]).await?.into_iter().next())
    }

    async fn try_make(
        &self,
        table: RangeTable,
        planned: &PlannedRange,
        lock_wait: Duration,
    ) -> Result<Created, Error> {
        let ahead = planned.from > self.head().await?.ahead(AHEAD);
        let script = |text| self.script(text, table, planned.name);
        let locks = script(if ahead {
            include_str!("../../sql/journal/range_lock_ahead.sql")
        } else {
            include_str!("../../sql/journal/range_lock_now.sql")
        });
        ddl::begin(self.client(), lock_wait).await?;
        let locked = ddl::lock(self.client(), &locks, lock_wait).await?;
        // Appends may have come near while it waited: the next try keeps them out.
        if !locked || (ahead && planned.from <= self.head().await?.ahead(AHEAD)) {
            self.run("rollback").await?;
            return Ok(Created::Busy);
        }
        let ranged = |text| {
            script(text)
                .replace("range_from", &planned.from.to_string())
                .replace("range_to", &planned.to.to_string())
        };
        let counted = self.row(&ranged(include_str!("../../sql/journal/range_tail.sql"))).await?;
        let moved: i64 = counted.map_or(Ok(0), |row| row.try_get(0))?;
        self.run(&ranged(include_str!("../../sql/journal/range_make.sql"))).await?;
        self.run("commit").await?;
        Ok(Created::Made { moved: u64::try_from(moved).unwrap_or(0) })
    }

    async fn head(&self) -> Result<Position, Error> {
        let row = self.row(&self.journal.sql().journal.head.text).await?;
        let head: i64 = row.map_or(Ok(0), |row| row.try_get(0))?;
        Ok(Position::try_from(head).unwrap_or(Position::END))
    }

    async fn try_take_out(
        &self,
        table: RangeTable,
        name: RangeName,
        fate: Fate,
        lock_wait: Duration,
    ) -> Result<Dropped, Error> {
        let script = |text| self.script(text, table, name);
        ddl::begin(self.client(), lock_wait).await?;
        let locks = script(include_str!("../../sql/journal/range_lock_old.sql"));
        if !ddl::lock(self.client(), &locks, lock_wait).await? {
            self.run("rollback").await?;
            return Ok(Dropped::Busy);
        }
        // Tags go where no fact is any more, and have no index to ask by.
        if table == RangeTable::Facts {
            let passed = script(include_str!("../../sql/journal/range_passed.sql"));
            if !self.row(&passed).await?.map_or(Ok(false), |row| row.try_get(0))? {
                self.run("rollback").await?;
                return Ok(Dropped::Pending);
            }
        }
        self.run(&script(match table {
            RangeTable::Facts => {
                "alter table sendoff.journal_table detach partition sendoff.journal_table_partition"
            }
            RangeTable::Tags => "drop table sendoff.journal_table_partition",
        }))
        .await?;
        if table == RangeTable::Facts {
            let leaving = self.plain(Leaving { name, fate });
            let rename = "alter table sendoff.journal_table_partition rename to ";
            self.run(&format!("{}{leaving}", script(rename))).await?;
        }
        self.run("commit").await?;
        Ok(Dropped::Gone)
    }

    /// The name of a partition that was taken out, without its schema.
    fn plain(&self, leaving: Leaving) -> String {
        self.journal.names().plain(&named(leaving))
    }

    /// The same with its schema.
    fn qualified(&self, leaving: Leaving) -> String {
        self.journal.names().qualified(&named(leaving))
    }

    /// A file's text for one partition. Only checked names are put in.
    fn script(&self, text: &str, table: RangeTable, name: RangeName) -> String {
        let table = match table {
            RangeTable::Facts => "journal_event",
            RangeTable::Tags => "journal_tag",
        };
        let text = text
            .replace("journal_table_partition", &format!("{table}_{name}"))
            .replace("journal_table", table);
        self.journal.names().put_into(&text)
    }
}

fn named(leaving: Leaving) -> String {
    let stem = match leaving.fate {
        Fate::Drop => DROPPING,
        Fate::Archive => ARCHIVING,
    };
    format!("{stem}{}", leaving.name)
}

#[async_trait]
impl RangeSession for Session {
    async fn survey(&mut self, table: RangeTable) -> Result<RangeSurvey, StoreError> {
        let (tags, stem) = match table {
            RangeTable::Facts => (false, "journal_event_"),
            RangeTable::Tags => (true, "journal_tag_"),
        };
        let rows = self.query(&self.journal.sql().journal.ranges, &[&tags]).await;
        let rows = rows.map_err(failed)?;
        let prefix = self.journal.names().plain(stem);
        let mut partitions = Vec::with_capacity(rows.len());
        for row in &rows {
            let Some(name) = get::<Option<&str>>(row, 1)? else { continue };
            let ours = get::<bool>(row, 2)?;
            let short = name.strip_prefix(&*prefix).filter(|_| ours);
            partitions.push(ExistingRange {
                name: short.and_then(|name| name.parse().ok()),
                from: optional(row, 3)?,
                to: optional(row, 4)?,
            });
        }
        Ok(RangeSurvey { partitions, tail_lowest: optional(one(&rows)?, 0)? })
    }

    async fn make(
        &mut self,
        table: RangeTable,
        planned: &PlannedRange,
        bounds: Bounds,
    ) -> Result<Created, StoreError> {
        let made = self.try_make(table, planned, bounds.lock_wait).await;
        ddl::ended(self.client(), made, Created::Busy).await
    }

    async fn holds_since(&mut self, name: RangeName, time: Timestamp) -> Result<bool, StoreError> {
        let text = include_str!("../../sql/journal/range_since.sql");
        let text = self.script(text, RangeTable::Facts, name);
        let params: [(&(dyn ToSql + Sync), Type); 1] = [(&At(time), Type::TIMESTAMPTZ)];
        let rows = self.client().query_typed(&text, &params).await.map_err(failed)?;
        get(one(&rows)?, 0)
    }

    async fn take_out(
        &mut self,
        table: RangeTable,
        name: RangeName,
        fate: Fate,
        lock_wait: Duration,
    ) -> Result<Dropped, StoreError> {
        let taken = self.try_take_out(table, name, fate, lock_wait).await;
        ddl::ended(self.client(), taken, Dropped::Busy).await
    }

    async fn leaving(&mut self) -> Result<Vec<Leaving>, StoreError> {
        let rows = self.query(&self.journal.sql().journal.leaving, &[]).await.map_err(failed)?;
        let mut leaving = Vec::new();
        for row in &rows {
            let table: &str = get(row, 0)?;
            for (stem, fate) in [(DROPPING, Fate::Drop), (ARCHIVING, Fate::Archive)] {
                let short = table.strip_prefix(&*self.journal.names().plain(stem));
                let name = short.and_then(|name| name.parse().ok());
                leaving.extend(name.map(|name| Leaving { name, fate }));
            }
        }
        // Names sort as texts there, and here by the positions in them.
        leaving.sort_by_key(|leaving| leaving.name);
        Ok(leaving)
    }

    async fn forget_ids(
        &mut self,
        leaving: Leaving,
        after: Position,
        limit: usize,
    ) -> Result<Option<Position>, StoreError> {
        let text = include_str!("../../sql/journal/forget_ids.sql")
            .replace("journal_partition", &named(leaving))
            .replace("after_position", &after.to_string())
            .replace("most", &limit.to_string());
        let row = self.row(&self.journal.names().put_into(&text)).await.map_err(failed)?;
        row.map(|row| position(&row, 0)).transpose()
    }

    async fn finish(&mut self, leaving: Leaving) -> Result<Option<String>, StoreError> {
        let table = self.qualified(leaving);
        match leaving.fate {
            Fate::Drop => {
                self.run(&format!("drop table {table}")).await.map_err(failed)?;
                Ok(None)
            }
            Fate::Archive => {
                let archive = format!("{ARCHIVE}{}", leaving.name);
                let plain = self.journal.names().plain(&archive);
                let rename = format!("alter table {table} rename to {plain}");
                self.run(&rename).await.map_err(failed)?;
                Ok(Some(self.journal.names().qualified(&archive)))
            }
        }
    }

    async fn release(self: Box<Self>) -> Result<(), StoreError> {
        let unlock = &self.journal.sql().journal.keeper_unlock;
        self.query(unlock, &[]).await.map(drop).map_err(failed)
    }
}

fn optional(row: &Row, column: usize) -> Result<Option<Position>, StoreError> {
    let number: Option<i64> = get(row, column)?;
    number
        .map(|number| {
            Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
        })
        .transpose()
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").field("journal", &self.journal).finish_non_exhaustive()
    }
}
