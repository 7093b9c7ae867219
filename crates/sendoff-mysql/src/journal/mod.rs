//! The journal in MySQL and MariaDB.
//!
//! Positions are the table's own numbers, so an append knows them at once and no row is ever updated.
//! What appends lock are rows of a small table. A tail decides gaps by filling them, and long ones
//! by closing them with one row, on a connection of its own.

mod append;
mod capture;
mod connections;
mod draft;
mod facts;
mod history;
mod hole;
mod locked;
mod member;
mod memory;
mod options;
mod prepares;
mod publish;
mod retain;
mod schema;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod search;
#[cfg(feature = "sqlx-08")]
mod sqlx_08;
#[cfg(feature = "sqlx")]
mod sqlx_09;
mod store;
mod tail;

pub use options::JournalOptions;
pub use schema::{journal_migration_sql, journal_upgrade_sql};
pub use store::MysqlJournal;
