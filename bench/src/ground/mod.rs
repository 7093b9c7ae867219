//! A database with an outbox and a business table, filled and emptied between rounds.

pub(crate) mod mysql;
pub(crate) mod postgres;
pub(crate) mod sqlite;

use anyhow::{Result, bail};
use serde_json::Value;

/// A database of ours alone.
#[derive(Debug)]
pub(crate) enum Ground {
    Mysql(mysql::Ground),
    Postgres(postgres::Ground),
    Sqlite(sqlite::Ground),
}

/// An open transaction that has seen the tables; over when it is dropped.
#[derive(Debug)]
pub(crate) enum Snapshot {
    Mysql(#[expect(dead_code, reason = "kept open")] mysql_async::Conn),
    Postgres(#[expect(dead_code, reason = "kept open")] tokio_postgres::Client),
}

/// Rows to make, in the status they are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Due, a delivery owed.
    Due(u64),
    /// In line, with so many keys, one after the other.
    InLine {
        /// How many rows.
        count: u64,
        /// How many keys.
        keys: u64,
    },
    /// Delivered and kept.
    Done(u64),
}

impl Rows {
    fn count(self) -> u64 {
        match self {
            Self::Due(count) | Self::Done(count) | Self::InLine { count, .. } => count,
        }
    }

    /// How many keys they have; none where they have no order.
    fn keys(self) -> u64 {
        match self {
            Self::Due(_) | Self::Done(_) => 0,
            Self::InLine { keys, .. } => keys,
        }
    }

    fn status(self) -> i16 {
        match self {
            Self::Due(_) | Self::InLine { .. } => 0,
            Self::Done(_) => 1,
        }
    }
}

impl Ground {
    /// Empties every table.
    pub(crate) async fn clear(&self) -> Result<()> {
        match self {
            Self::Mysql(ground) => ground.clear().await,
            Self::Postgres(ground) => ground.clear().await,
            Self::Sqlite(ground) => ground.clear().await,
        }
    }

    /// Makes rows, and lets the database finish what follows from it.
    pub(crate) async fn fill(&self, rows: Rows) -> Result<()> {
        match self {
            Self::Mysql(ground) => ground.fill(rows).await,
            Self::Postgres(ground) => ground.fill(rows).await,
            Self::Sqlite(ground) => ground.fill(rows),
        }
    }

    /// Gives up the room that old versions of rows have left.
    pub(crate) async fn compact(&self) -> Result<()> {
        match self {
            Self::Postgres(ground) => ground.compact().await,
            // Rows are changed in place.
            Self::Mysql(_) | Self::Sqlite(_) => Ok(()),
        }
    }

    /// A transaction of somebody else's that sees the tables as they are now, for as long as it is
    /// kept: so long the database keeps every version of a row.
    pub(crate) async fn snapshot(&self) -> Result<Snapshot> {
        Ok(match self {
            Self::Mysql(ground) => Snapshot::Mysql(ground.snapshot().await?),
            Self::Postgres(ground) => Snapshot::Postgres(ground.snapshot().await?),
            Self::Sqlite(_) => bail!("SQLite changes rows in place, also beside a reader"),
        })
    }

    /// Fails if any row is still owed a delivery: a drain that left some is no measurement.
    pub(crate) async fn check_drained(&self) -> Result<()> {
        let pending = match self {
            Self::Mysql(ground) => ground.has_pending().await?,
            Self::Postgres(ground) => ground.has_pending().await?,
            Self::Sqlite(ground) => ground.has_pending()?,
        };
        anyhow::ensure!(!pending, "rows are left that nobody delivered");
        Ok(())
    }

    /// What another process needs to find it.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Mysql(ground) => ground.url().to_owned(),
            Self::Postgres(ground) => ground.url().to_owned(),
            Self::Sqlite(ground) => ground.path().display().to_string(),
        }
    }

    /// What a reader must know about the database.
    pub(crate) async fn settings(&self) -> Result<Value> {
        match self {
            Self::Mysql(ground) => ground.settings().await,
            Self::Postgres(ground) => ground.settings().await,
            Self::Sqlite(_) => Ok(sqlite::settings()),
        }
    }
}

/// The same URL with another database.
fn with_database(url: &str, name: &str) -> String {
    let (address, query) = match url.split_once('?') {
        Some((address, query)) => (address, format!("?{query}")),
        None => (url, String::new()),
    };
    let host = address.find("://").map_or(0, |at| at + "://".len());
    let end = address[host..].find('/').map_or(address.len(), |at| host + at);
    format!("{}/{name}{query}", &address[..end])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_database_of_a_url_changes() {
        for (url, changed) in [
            ("postgres://u@h:5/db", "postgres://u@h:5/new"),
            ("postgres://u:p@h/", "postgres://u:p@h/new"),
            ("postgres://h", "postgres://h/new"),
            ("postgres://h/db?sslmode=disable", "postgres://h/new?sslmode=disable"),
        ] {
            assert_eq!(with_database(url, "new"), changed);
        }
    }
}
