#![cfg_attr(docsrs, feature(doc_cfg))]
//! The outbox in PostgreSQL, from version 13 on.
//!
//! Promise: an event exists if and only if the transaction it was written in committed; two claims
//! never return the same row while its hold lasts; a stale token changes nothing; payloads come back
//! to the byte. Time that decides anything is the server's.
//!
//! [`PostgresStore`] keeps a few connections of its own, for claims, for settlements and for the
//! doorbell, so that an application that uses up its pool does not stop delivery. Applications write
//! through *their* connection: a `tokio-postgres` client or transaction, one of `deadpool`'s or its pool, or,
//! with the feature of that name, what they have of `sqlx` (0.9, or 0.8 with `sqlx-08`), `sea-orm` or
//! `diesel-async`.
//!
//! ```no_run
//! use sendoff_engine::{HandlerResult, Outbox};
//! use sendoff_postgres::PostgresStore;
//!
//! # async fn ship(_: sendoff_core::Delivery) -> HandlerResult { Ok(()) }
//! # async fn example(mut client: tokio_postgres::Client) -> Result<(), Box<dyn std::error::Error>> {
//! let store = PostgresStore::connect("postgres://app@localhost/shop").await?;
//! store.migrate().await?;
//! let outbox = Outbox::builder(store).on("order.placed", ship).start().await?;
//!
//! let mut tx = outbox.begin(&mut client).await?;
//! tx.execute("insert into orders (total) values ($1)", &[&990_i32]).await?;
//! tx.emit(("order.placed", r#"{"total":990}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! Programs in other languages write with the SQL functions `sendoff_emit` and `journal_append`, which the
//! migrations install, inside their own transactions.
//!
//! Not here: delivery, retries and waking (see `sendoff-engine`); a connection pool.

mod bounds;
mod cancel;
mod capture;
mod claim;
mod connect;
mod ddl;
#[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
mod encoded;
mod end;
mod error;
mod fair;
mod inspect;
mod journal;
mod keys;
mod layout;
mod leave;
mod letters;
mod link;
mod locked;
mod migrations;
mod names;
mod options;
mod park;
mod partition;
mod pause;
mod ready;
mod register;
mod replay;
mod resolve;
mod retain;
mod rows;
mod schema;
mod scope;
mod settle;
mod sift;
mod sql;
mod store;
mod tls;
mod wake;
mod wire;

#[cfg(feature = "diesel-async")]
pub use capture::DieselTransaction;
#[cfg(feature = "sea-orm")]
pub use capture::SeaOrmTransaction;
pub use capture::{PooledSavepoint, PooledTransaction, PreparedClient, PreparedTransaction};
pub use journal::{
    JournalLayout, JournalOptions, PostgresJournal, journal_migration_sql, journal_upgrade_sql,
};
pub use options::{Doorbell, Layout, PostgresOptions, RelayCommits, Retention, Tls};
pub use schema::{migration_sql, upgrade_sql};
pub use sendoff_core::partition::Period;
pub use sendoff_engine::store::frame::Address;
pub use store::PostgresStore;
