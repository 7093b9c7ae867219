//! What the PostgreSQL store promises, beside the suites that every store and driver passes.
//!
//! The tests need a server: `SENDOFF_POSTGRES_URL`, and `SENDOFF_POSTGRES18_URL` for a second version.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod address;
mod busy;
mod cleanup;
mod clients;
mod commit;
mod deadpool;
#[cfg(feature = "diesel-async")]
mod diesel_async;
mod doorbell;
mod durability;
mod emit;
mod exactly_once;
mod hostile;
mod journal;
mod letters;
mod link;
mod nodes;
mod ordeal;
mod order;
mod partition_locks;
mod partitions;
mod place;
mod plans;
mod pooled;
mod pooler;
mod process;
mod relaying;
mod schema;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod server;
mod silence;
mod soak;
#[cfg(feature = "sqlx")]
mod sqlx;
mod start;
mod suites;
mod tally;
mod through;
#[cfg(feature = "tls-rustls")]
mod tls;
mod unknown;
mod values;
