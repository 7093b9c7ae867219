//! Through sqlx 0.9, whatever the database.

pub use ::sqlx as driver;

#[path = "sqlx.rs"]
mod harness;

pub use harness::{Pooled, Sqlx, SqlxDatabase, two_transactions};

/// A text of a test's own, which this version asks to be told is safe.
pub fn ours<T>(text: T) -> driver::AssertSqlSafe<T> {
    driver::AssertSqlSafe(text)
}
