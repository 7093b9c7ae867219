//! What the SQLite store promises beyond the suite that every store passes.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod capture;
mod claim;
mod clients;
mod journal;
mod letters;
mod open;
mod order;
mod outbox;
mod replaced;
mod retain;
mod schema;
mod settle;
mod soak;
#[cfg(feature = "sqlx")]
mod sqlx;
mod start;
mod suites;
mod through;
mod wal;
