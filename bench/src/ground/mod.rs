//! A database with an outbox and a business table, filled and emptied between rounds.

pub(crate) mod postgres;
pub(crate) mod sqlite;

use anyhow::Result;
use serde_json::Value;

/// A database of ours alone.
#[derive(Debug)]
pub(crate) enum Ground {
    Postgres(postgres::Ground),
    Sqlite(sqlite::Ground),
}

/// Rows to make, in the status they are in.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rows {
    /// Due, a delivery owed.
    Due(u64),
    /// Delivered and kept.
    Done(u64),
}

impl Rows {
    fn count(self) -> u64 {
        match self {
            Self::Due(count) | Self::Done(count) => count,
        }
    }

    fn status(self) -> i16 {
        match self {
            Self::Due(_) => 0,
            Self::Done(_) => 1,
        }
    }
}

impl Ground {
    /// Empties every table.
    pub(crate) async fn clear(&self) -> Result<()> {
        match self {
            Self::Postgres(ground) => ground.clear().await,
            Self::Sqlite(ground) => ground.clear().await,
        }
    }

    /// Makes rows, and lets the database finish what follows from it.
    pub(crate) async fn fill(&self, rows: Rows) -> Result<()> {
        match self {
            Self::Postgres(ground) => ground.fill(rows).await,
            Self::Sqlite(ground) => ground.fill(rows),
        }
    }

    /// Gives up the room that old versions of rows have left.
    pub(crate) async fn compact(&self) -> Result<()> {
        match self {
            Self::Postgres(ground) => ground.compact().await,
            // Rows are changed in place.
            Self::Sqlite(_) => Ok(()),
        }
    }

    /// Fails if any row is still owed a delivery: a drain that left some is no measurement.
    pub(crate) async fn check_drained(&self) -> Result<()> {
        let pending = match self {
            Self::Postgres(ground) => ground.has_pending().await?,
            Self::Sqlite(ground) => ground.has_pending()?,
        };
        anyhow::ensure!(!pending, "rows are left that nobody delivered");
        Ok(())
    }

    /// What another process needs to find it.
    pub(crate) fn address(&self) -> String {
        match self {
            Self::Postgres(ground) => ground.url().to_owned(),
            Self::Sqlite(ground) => ground.path().display().to_string(),
        }
    }

    /// What a reader must know about the database.
    pub(crate) async fn settings(&self) -> Result<Value> {
        match self {
            Self::Postgres(ground) => ground.settings().await,
            Self::Sqlite(_) => Ok(sqlite::settings()),
        }
    }
}
