//! Through sqlx 0.8, whatever the database.

pub use ::sqlx_08 as driver;

#[path = "sqlx.rs"]
#[expect(clippy::duplicate_mod, reason = "one harness stands for every version")]
mod harness;

pub use harness::{Pooled, Sqlx, SqlxDatabase, two_transactions};

/// A text of a test's own.
pub fn ours<T>(text: T) -> T {
    text
}
