//! The journal's tables, which have versions of their own.

use rusqlite::Connection;

use super::sql::Sql;
use crate::schema::Schema;

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
