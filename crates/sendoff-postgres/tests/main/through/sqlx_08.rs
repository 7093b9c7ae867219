//! Through sqlx 0.8.

use sendoff_testkit::capture::sqlx_08 as version;

#[path = "sqlx.rs"]
#[expect(clippy::duplicate_mod, reason = "one suite for every version")]
mod suites;
