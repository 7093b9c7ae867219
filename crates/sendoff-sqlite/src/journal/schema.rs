//! The journal's tables, which have versions of their own.

use rusqlite::Connection;

use super::sql::Sql;
use crate::schema::Schema;

impl Schema for Sql {
    fn table(&self) -> &str {
        &self.table
    }

    fn migrations(&self) -> Vec<&str> {
        vec![&self.migration_0001, &self.migration_0002]
    }

    fn version(&self, conn: &Connection) -> rusqlite::Result<i64> {
        if !conn.query_row(&self.schema_known, [], |row| row.get(0))? {
            return Ok(0);
        }
        conn.query_row(&self.schema_version, [], |row| row.get(0))
    }

    fn remember(&self, conn: &Connection, version: i64) -> rusqlite::Result<()> {
        conn.execute(&self.schema_table, [])?;
        conn.execute(&self.schema_set, [version]).map(drop)
    }
}
