//! What the PostgreSQL store promises, beside the suites that every store and driver passes.
//!
//! The tests need a server: `SENDOFF_POSTGRES_URL`, and `SENDOFF_POSTGRES18_URL` for a second version.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod commit;
mod deadpool;
mod doorbell;
mod emit;
mod killed;
mod link;
mod nodes;
mod place;
mod plans;
mod process;
mod schema;
mod server;
mod suites;
mod unknown;
mod values;
