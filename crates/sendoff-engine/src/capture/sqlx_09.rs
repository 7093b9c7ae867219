//! sqlx 0.9.

use ::sqlx as driver;

/// A text of our own files, which this version asks to be told is safe.
fn ours<T>(text: T) -> driver::AssertSqlSafe<T> {
    driver::AssertSqlSafe(text)
}

#[path = "sqlx.rs"]
mod adapter;

pub use adapter::{ConnectionOf, SqlxStore, begin_on};
