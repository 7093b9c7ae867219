//! The journal's tables, which have versions of their own.

use rusqlite::Connection;
use sendoff_engine::store::StoreError;

use super::sql::Sql;
use crate::options::SqliteOptions;
use crate::schema::{Schema, script};

impl Schema for Sql {
    fn table(&self) -> &str {
        &self.table
    }

    fn newest(&self, conn: &Connection) -> rusqlite::Result<i64> {
        conn.query_row(&self.schema_version, [], |row| row.get(0))
    }

    fn migrations(&self) -> Vec<&str> {
        self.migrations.iter().map(String::as_str).collect()
    }

    fn remember(&self, conn: &Connection, version: i64) -> rusqlite::Result<()> {
        conn.execute(&self.schema_table, [])?;
        conn.execute(&self.schema_set, [version]).map(drop)
    }

    fn schema_table(&self) -> &str {
        &self.schema_table
    }

    fn remembering(&self, version: usize) -> String {
        self.schema_set.replace("?1", &version.to_string())
    }

    fn schema_known(&self) -> &str {
        &self.schema_known
    }

    fn statements(&self) -> Vec<&str> {
        self.all()
    }

    fn command(&self) -> &'static str {
        "sendoff journal migrate"
    }
}

/// Everything that opening a new file as a journal would run in it, as a script.
pub fn journal_migration_sql(options: &SqliteOptions) -> Result<String, StoreError> {
    journal_upgrade_sql(options, 0)
}

/// The same for a file whose tables have this version (the newest in `journal_schema`).
///
/// # Errors
///
/// [`Misconfigured`](StoreError::Misconfigured) for a version that does not exist.
pub fn journal_upgrade_sql(options: &SqliteOptions, from: usize) -> Result<String, StoreError> {
    options.check()?;
    script(&Sql::load(options.prefix.as_ref()), from)
}
