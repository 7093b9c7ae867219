//! What the MySQL store promises, beside the suites that every store and driver passes.
//!
//! The tests need a server: `SENDOFF_MARIADB_URL`, and `SENDOFF_MYSQL_URL` for MySQL itself.
#![allow(clippy::print_stdout, reason = "figures of a torture are for people")]
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod address;
mod clients;
mod commit;
mod deadlock;
mod durability;
mod durable;
mod emit;
mod hostile;
mod journal;
mod link;
mod locks;
mod nodes;
mod ordeal;
mod order;
mod partitions;
mod place;
mod plans;
mod process;
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
mod thorny;
mod through;
mod unknown;
mod values;
mod zone;
