//! Through sqlx 0.9.

use sendoff_testkit::capture::sqlx_09 as version;

#[path = "sqlx.rs"]
mod suites;

pub(crate) use suites::Sqlx;
