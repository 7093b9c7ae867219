//! Bringing the tables up to date.

use std::path::Path;
use std::time::Duration;

use rusqlite::{Connection, OpenFlags, OptionalExtension, TransactionBehavior};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::{Migrated, after, check_complete, missing};

use crate::error::failed;
use crate::options::SqliteOptions;
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

    /// Whatever is asked of the tables.
    fn statements(&self) -> Vec<&str>;

    /// The program's command that migrates.
    fn command(&self) -> &'static str;

    /// Notes that this one ran.
    fn remember(&self, conn: &Connection, version: i64) -> rusqlite::Result<()>;

    /// What makes the table that notes are in.
    fn schema_table(&self) -> &str;

    /// A statement that notes that this one ran.
    fn remembering(&self, version: usize) -> String;
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
        self.migrations.iter().map(String::as_str).collect()
    }

    fn remember(&self, conn: &Connection, version: i64) -> rusqlite::Result<()> {
        conn.execute(&self.schema_table, [])?;
        conn.execute(&self.schema_set, (&self.table, version)).map(drop)
    }

    fn schema_table(&self) -> &str {
        &self.schema_table
    }

    fn remembering(&self, version: usize) -> String {
        let table = format!("'{}'", self.table);
        self.schema_set.replace("?1", &table).replace("?2", &version.to_string())
    }

    fn schema_known(&self) -> &str {
        &self.schema_known
    }

    fn statements(&self) -> Vec<&str> {
        self.all()
    }

    fn command(&self) -> &'static str {
        "sendoff migrate"
    }
}

/// Whether all of it is there, as this version knows it, and can be written.
pub(crate) fn check_ready(conn: &Connection, schema: &impl Schema) -> Result<(), StoreError> {
    let version = schema.version(conn).map_err(failed)?;
    let missing = missing(version, schema.migrations().len())?;
    let missing = (version > 0).then_some(missing);
    check_complete(missing, schema.table(), schema.command(), "path or prefix")?;
    for statement in schema.statements() {
        // It is not run: SQLite looks for tables and columns when it compiles a statement.
        if let Err(error) = conn.prepare(statement) {
            return Err(match failed(error) {
                StoreError::Refused(error) => StoreError::Schema {
                    missing: error.to_string(),
                    remedy: format!(
                        "every migration of {} ran, so that this was changed by hand: put it back, or \
                         run `{}` on another file",
                        schema.table(),
                        schema.command()
                    ),
                },
                error => error,
            });
        }
    }
    if conn.is_readonly("main").map_err(failed)? {
        return Err(StoreError::Rights {
            missing: format!("the file with {} cannot be written", schema.table()),
            remedy: "let the process write to the file and its folder".into(),
        });
    }
    Ok(())
}

/// Runs what is missing, in one immediate transaction: of several processes that start at once, one
/// migrates and the others find it done.
pub(crate) fn migrate(conn: &mut Connection, schema: &impl Schema) -> Result<Migrated, StoreError> {
    let migrations = schema.migrations();
    let missing =
        |conn: &Connection| missing(schema.version(conn).map_err(failed)?, migrations.len());
    // Without a lock first: a start must not wait for a writer when there is nothing to do.
    if missing(conn)? == 0 {
        return Ok(Migrated::ran(0, migrations.len()));
    }
    let tx = conn.transaction_with_behavior(TransactionBehavior::Immediate).map_err(failed)?;
    let done = migrations.len() - missing(&tx)?;
    for (migration, version) in migrations.iter().zip(1..).skip(done) {
        tx.execute_batch(migration).map_err(failed)?;
        schema.remember(&tx, version).map_err(failed)?;
    }
    tx.commit().map_err(failed)?;
    Ok(Migrated::ran(migrations.len() - done, migrations.len()))
}

/// Everything that opening a new file would run in it, as a script.
pub fn migration_sql(options: &SqliteOptions) -> Result<String, StoreError> {
    upgrade_sql(options, 0)
}

/// The same for a file whose tables have this version (the newest in `outbox_schema`).
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) for a version that does not exist.
pub fn upgrade_sql(options: &SqliteOptions, from: usize) -> Result<String, StoreError> {
    options.check()?;
    let sql = Sql::load(options.prefix.as_ref());
    let mut script = script(&sql, from)?;
    if options.tenant_index {
        script.push_str(&sql.tenant_index);
        script.push('\n');
    }
    Ok(script)
}

/// What is missing after this version, in one transaction.
pub(crate) fn script(schema: &impl Schema, from: usize) -> Result<String, StoreError> {
    let all = schema.migrations();
    after(from, all.len())?;
    let mut script = format!("begin immediate;\n{};\n", schema.schema_table());
    for (step, version) in all.iter().zip(1..).skip(from) {
        // The last statement of a file may have lost its end.
        let step = step.trim_end().trim_end_matches(';');
        script.push_str(&format!("{step};\n{};\n", schema.remembering(version)));
    }
    script.push_str("commit;\n");
    Ok(script)
}

/// Whether it is there. Reads only: a file of somebody else's stays as it is.
pub(crate) fn check_installed(
    path: &Path,
    schema: &impl Schema,
    busy_timeout: Duration,
) -> Result<(), StoreError> {
    if !path.exists() {
        return Err(StoreError::NotInstalled {
            missing: format!("there is no file {}", path.display()),
            remedy: "migrate first, or mend the path".into(),
        });
    }
    let conn =
        Connection::open_with_flags(path, OpenFlags::SQLITE_OPEN_READ_ONLY).map_err(failed)?;
    conn.busy_timeout(busy_timeout).map_err(failed)?;
    if schema.version(&conn).map_err(failed)? == 0 {
        return Err(StoreError::NotInstalled {
            missing: format!("there is no table {} in {}", schema.table(), path.display()),
            remedy: "migrate first, or mend path or prefix".into(),
        });
    }
    Ok(())
}
