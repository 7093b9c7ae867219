#![cfg_attr(docsrs, feature(doc_cfg))]
//! The outbox and the journal in MySQL, from version 8.0.17 on, and in MariaDB, from 10.6 on.
//!
//! Promise: an event exists if and only if the transaction it was written in committed; two claims
//! never return the same row while its hold lasts; a stale token changes nothing; payloads come back
//! to the byte. Time that decides anything is the server's, in UTC and microseconds, whatever the time
//! zone of a session.
//!
//! [`MysqlStore`] keeps a few connections of its own, so that an application that uses up its pool
//! does not stop delivery. Applications write through *their* connection: one of `mysql_async`, or,
//! with the feature of that name, what they have of `sqlx` (0.9, or 0.8 with `sqlx-08`) or `sea-orm`.
//!
//! ```no_run
//! use mysql_async::prelude::Queryable;
//! use sendoff_engine::{HandlerResult, Outbox};
//! use sendoff_mysql::MysqlStore;
//!
//! # async fn ship(_: sendoff_core::Delivery) -> HandlerResult { Ok(()) }
//! # async fn example(pool: mysql_async::Pool) -> Result<(), Box<dyn std::error::Error>> {
//! let store = MysqlStore::connect("mysql://app@localhost/shop").await?;
//! store.migrate().await?;
//! let outbox = Outbox::builder(store).on("order.placed", ship).start().await?;
//!
//! let mut tx = outbox.begin(&pool).await?;
//! tx.exec_drop("insert into orders (total) values (?)", (990,)).await?;
//! tx.emit(("order.placed", r#"{"total":990}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```
//!
//! [`MysqlJournal`] is the other shape: a log of facts that are appended under conditions and read in
//! order. It needs no outbox; see its own documentation.
//!
//! Programs in other languages write with the procedures `sendoff_emit` and `journal_append`, which the
//! migrations install, inside their own transactions.
//!
//! Not here: delivery, retries and waking (see `sendoff-engine`); a connection pool. Neither server can
//! wake a relay in another process, so there events wait for its next poll.

mod capture;
mod claim;
mod connect;
mod durable;
mod end;
mod error;
mod fair;
mod inspect;
mod journal;
mod keys;
mod letters;
mod link;
mod locked;
mod names;
mod options;
mod park;
mod partition;
mod partitions;
mod pause;
mod register;
mod replay;
mod resolve;
mod retain;
mod routine;
mod rows;
mod run;
mod schema;
mod settle;
mod sift;
mod sql;
mod store;
mod values;
mod wake;
mod wire;

#[cfg(feature = "sea-orm")]
pub use capture::SeaOrmTransaction;
pub use capture::{MysqlConnSavepoint, MysqlConnTransaction, MysqlSavepoint, MysqlTransaction};
pub use journal::{JournalOptions, MysqlJournal, journal_migration_sql, journal_upgrade_sql};
pub use options::{Layout, MysqlOptions, Payloads, Retention, Tls};
pub use schema::{migration_sql, upgrade_sql};
pub use sendoff_core::partition::Period;
pub use sendoff_engine::store::frame::Address;
pub use store::MysqlStore;
