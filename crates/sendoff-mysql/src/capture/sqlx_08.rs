//! sqlx 0.8: the same adapter, compiled once more.

pub(crate) use ::sqlx_08 as driver;
use sendoff_engine::capture::sqlx_08 as shared;

/// A text of our own files.
pub(crate) fn ours<T>(text: T) -> T {
    text
}

#[path = "sqlx.rs"]
#[expect(clippy::duplicate_mod, reason = "one adapter stands for every version")]
pub(crate) mod adapter;
