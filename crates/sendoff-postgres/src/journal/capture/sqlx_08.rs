//! Appending in transactions of sqlx 0.8.

use crate::capture::sqlx_08 as version;

#[path = "sqlx.rs"]
#[expect(clippy::duplicate_mod, reason = "one adapter stands for every version")]
mod adapter;
