//! Bringing the journal's tables up to date.

use rusqlite::{Connection, TransactionBehavior};
use sendoff_engine::store::StoreError;

use super::sql::Sql;
use crate::error::failed;

/// Runs what is missing, in one immediate transaction: of several processes that start at once, one
/// migrates and the others find it done.
pub(super) fn migrate(conn: &mut Connection, sql: &Sql) -> Result<(), StoreError> {
    let migrations = [&sql.migration_0001, &sql.migration_0002];
    // Without a lock first: a start must not wait for a writer when there is nothing to do.
    if missing(version(conn, sql).map_err(failed)?, migrations.len())? == 0 {
        return Ok(());
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let missing = missing(version(&tx, sql).map_err(failed)?, migrations.len())?;
    let run = || -> rusqlite::Result<()> {
        tx.execute(&sql.schema_table, [])?;
        for (at, migration) in migrations.iter().enumerate().skip(migrations.len() - missing) {
            tx.execute_batch(migration)?;
            tx.execute(&sql.schema_set, [at as i64 + 1])?;
        }
        Ok(())
    };
    run().map_err(failed)?;
    tx.commit().map_err(failed)
}

/// How many of the `known` migrations have not run.
fn missing(found: i64, known: usize) -> Result<usize, StoreError> {
    let newest = known as i64;
    if found > newest {
        return Err(StoreError::NewerSchema { found, known: newest });
    }
    Ok(known - usize::try_from(found).unwrap_or(0))
}

/// The version found; 0 where there is no journal yet.
fn version(conn: &Connection, sql: &Sql) -> rusqlite::Result<i64> {
    if !conn.query_row(&sql.schema_known, [], |row| row.get(0))? {
        return Ok(0);
    }
    conn.query_row(&sql.schema_version, [], |row| row.get(0))
}
