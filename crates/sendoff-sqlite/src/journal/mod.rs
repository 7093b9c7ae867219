//! The journal in an SQLite file.
//!
//! There is one writer at a time, so an append needs no locks of its own: who writes has seen
//! everything that was committed. Positions are in the order of commits, and what is rolled back gives
//! its position back, so a tail never meets a gap that is not one for good.

mod append;
mod conn;
mod join;
mod publish;
mod retain;
mod schema;
mod search;
mod sql;
#[cfg(feature = "sqlx")]
mod sqlx;
mod store;

pub use schema::{journal_migration_sql, journal_upgrade_sql};
pub use store::SqliteJournal;
