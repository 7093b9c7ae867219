//! Bringing the tables up to date.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use sendoff_engine::store::StoreError;

use crate::error::{failed, misconfigured};
use crate::sql::Sql;

/// Runs what is missing, in one immediate transaction: of several processes that start at once, one
/// migrates and the others find it done.
pub(crate) fn migrate(conn: &mut Connection, sql: &Sql) -> Result<(), StoreError> {
    let migrations = [&sql.migration_0001, &sql.migration_0002];
    let known = migrations.len();
    // Without a lock first: a start must not wait for a writer when there is nothing to do.
    if missing(version(conn, sql).map_err(failed)?, known)? == 0 {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let found = version(&tx, sql).map_err(failed)?;
    let missing = missing(found, known)?;
    let run = || -> rusqlite::Result<()> {
        tx.execute(&sql.schema_table, [])?;
        for migration in &migrations[known - missing..] {
            tx.execute_batch(migration)?;
        }
        tx.execute(&sql.schema_set, (&sql.table, known as i64))?;
        Ok(())
    };
    if missing > 0 {
        run().map_err(failed)?;
    }
    tx.commit().map_err(failed)
}

/// Whether there is an outbox. Reads only: a file of somebody else's stays as it is.
pub(crate) fn check_installed(
    path: &Path,
    sql: &Sql,
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
    if version(&conn, sql).map_err(failed)? == 0 {
        return Err(misconfigured(format!(
            "there is no table {} in {}: migrate first, or mend path or prefix",
            sql.table,
            path.display()
        )));
    }
    Ok(())
}

/// How many of the `known` migrations have not run.
fn missing(found: i64, known: usize) -> Result<usize, StoreError> {
    let newest = known as i64;
    if found > newest {
        return Err(StoreError::NewerSchema { found, known: newest });
    }
    Ok(known - usize::try_from(found).unwrap_or(0))
}

/// The version found; 0 where there is no outbox yet.
fn version(conn: &Connection, sql: &Sql) -> rusqlite::Result<i64> {
    if !conn.query_row(&sql.schema_known, [], |row| row.get(0))? {
        return Ok(0);
    }
    let version = conn.query_row(&sql.schema_version, [&sql.table], |row| row.get(0)).optional()?;
    Ok(version.unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_missing_runs_and_a_newer_schema_is_refused() {
        assert_eq!(missing(0, 3).unwrap(), 3);
        assert_eq!(missing(2, 3).unwrap(), 1);
        assert_eq!(missing(3, 3).unwrap(), 0);
        assert!(matches!(missing(4, 3), Err(StoreError::NewerSchema { found: 4, known: 3 })));
    }
}
