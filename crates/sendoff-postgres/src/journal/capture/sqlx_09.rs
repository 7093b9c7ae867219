//! Appending in transactions of sqlx 0.9.

use crate::capture::sqlx_09 as version;

#[path = "sqlx.rs"]
mod adapter;
