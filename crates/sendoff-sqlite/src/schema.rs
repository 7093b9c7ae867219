//! Bringing the tables up to date.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::missing;

use crate::error::{failed, misconfigured};
use crate::sql::Sql;

/// Something that has tables, and versions of its own.
pub(crate) trait Schema {
    /// The table that matters.
    fn table(&self) -> &str;

    /// Every migration, the oldest first. What a published one does never changes.
    fn migrations(&self) -> Vec<&str>;

    /// Asks whether any ever ran in this file.
    fn schema_known(&self) -> &str;

    /// The newest that ran, in a file in which some did.
    fn newest(&self, conn: &Connection) -> rusqlite::Result<i64>;

    /// The newest that ran; 0 where none did.
    fn version(&self, conn: &Connection) -> rusqlite::Result<i64> {
        let known: bool = conn.query_row(self.schema_known(), [], |row| row.get(0))?;
        if known { self.newest(conn) } else { Ok(0) }
    }

    /// Notes that this one ran.
    fn remember(&self, conn: &Connection, version: i64) -> rusqlite::Result<()>;
}

impl Schema for Sql {
    fn table(&self) -> &str {
        &self.table
    }

    fn newest(&self, conn: &Connection) -> rusqlite::Result<i64> {
        let version = conn.query_row(&self.schema_version, [&self.table], |row| row.get(0));
        Ok(version.optional()?.unwrap_or(0))
    }

    fn migrations(&self) -> Vec<&str> {
        vec![&self.migration_0001, &self.migration_0002]
    }

    fn remember(&self, conn: &Connection, version: i64) -> rusqlite::Result<()> {
        conn.execute(&self.schema_table, [])?;
        conn.execute(&self.schema_set, (&self.table, version)).map(drop)
    }

    fn schema_known(&self) -> &str {
        &self.schema_known
    }
}

/// Runs what is missing, in one immediate transaction: of several processes that start at once, one
/// migrates and the others find it done.
pub(crate) fn migrate(conn: &mut Connection, schema: &impl Schema) -> Result<(), StoreError> {
    let migrations = schema.migrations();
    let missing =
        |conn: &Connection| missing(schema.version(conn).map_err(failed)?, migrations.len());
    // Without a lock first: a start must not wait for a writer when there is nothing to do.
    if missing(conn)? == 0 {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let done = migrations.len() - missing(&tx)?;
    for (migration, version) in migrations.iter().zip(1..).skip(done) {
        tx.execute_batch(migration).map_err(failed)?;
        schema.remember(&tx, version).map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

/// Whether it is there. Reads only: a file of somebody else's stays as it is.
pub(crate) fn check_installed(
    path: &Path,
    schema: &impl Schema,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    if !path.exists() {
        return Err(misconfigured(format!(
            "there is no file {}: migrate first, or mend the path",
            path.display()
        )));
    }
    let conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    conn.busy_timeout(busy_timeout).map_err(failed)?;
    if schema.version(&conn).map_err(failed)? == 0 {
        return Err(misconfigured(format!(
            "there is no table {} in {}: migrate first, or mend path or prefix",
            schema.table(),
            path.display()
        )));
    }
    Ok(())
}
