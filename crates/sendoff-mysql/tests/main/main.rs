//! What the MySQL store promises, beside the suites that every store and driver passes.
//!
//! The tests need a server: `SENDOFF_MARIADB_URL`, and `SENDOFF_MYSQL_URL` for MySQL itself.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod partitions;
mod place;
mod suites;
