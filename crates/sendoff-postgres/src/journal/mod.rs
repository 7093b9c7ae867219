//! The journal in PostgreSQL.
//!
//! Appending and deciding are functions in the database, so that locks, check and insert are one round
//! trip from any driver, each with a snapshot of its own. The tail has a connection of its own.

mod append;
mod capture;
mod connections;
mod facts;
mod held;
mod locked;
mod member;
mod options;
mod publish;
mod range;
mod reading;
mod retain;
mod schema;
mod search;
mod session;
mod store;
mod tail;

pub use options::{JournalLayout, JournalOptions};
pub use schema::{journal_migration_sql, journal_upgrade_sql};
pub use store::PostgresJournal;
