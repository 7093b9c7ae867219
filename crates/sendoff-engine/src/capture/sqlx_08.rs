//! sqlx 0.8: the same, compiled once more.

use ::sqlx_08 as driver;

/// A text of our own files.
fn ours<T>(text: T) -> T {
    text
}

#[path = "sqlx.rs"]
#[cfg_attr(feature = "sqlx", expect(clippy::duplicate_mod, reason = "one for every version"))]
mod adapter;

pub use adapter::{ConnectionOf, SqlxStore, begin_on};
