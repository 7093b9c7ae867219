#![cfg_attr(docsrs, feature(doc_cfg))]
//! The outbox in an SQLite file: the store for a program that brings its own database.
//!
//! Promise: an event exists if and only if the transaction it was written in committed; two claims
//! never return the same row while its hold lasts; a stale token changes nothing; payloads come back
//! to the byte. Several processes may share one file, on one host.
//!
//! [`SqliteStore`] keeps one connection of its own, on one thread of its own, for claims and
//! settlements. Applications write through *their* connection: a `rusqlite` transaction, savepoint or
//! connection, or, with the feature `sqlx`, an `sqlx` transaction. [`SqliteStore::connect`] opens a
//! connection that is set up to share the file well.
//!
//! ```
//! use rusqlite::params;
//! use sendoff_core::Event;
//! use sendoff_engine::capture::{BeginBlocking, CommitBlocking};
//! use sendoff_engine::store::{Birth, InspectStore, NewRow};
//! use sendoff_sqlite::SqliteStore;
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let dir = tempfile::tempdir()?;
//! # let path = dir.path().join("shop.db");
//! let store = SqliteStore::open(&path).await?;
//! let mut conn = store.connect()?;
//! conn.execute("create table orders (id integer primary key)", [])?;
//!
//! let tx = store.begin_blocking(&mut conn)?;
//! tx.execute("insert into orders values (?1)", params![4711])?;
//! let event = Event::json("order.placed", &4711)?;
//! store.commit_blocking(tx, &[NewRow { event, birth: Birth::Due }])?;
//!
//! assert_eq!(store.counts().await?.new, 1);
//! # Ok(())
//! # }
//! ```
//!
//! Not here: delivery, retries and wake-ups (see `sendoff-engine`); databases in memory, since every
//! connection would see another one; network file systems, where SQLite's locks do not hold; any
//! setting of the file beyond write-ahead logging.

mod busy;
mod capture;
mod claim;
mod connect;
mod durable;
mod end;
mod error;
mod fair;
mod file;
mod inspect;
mod journal;
mod keys;
mod letters;
mod locked;
mod opened;
mod options;
mod park;
mod pause;
mod register;
mod replay;
mod retain;
mod rows;
mod schema;
mod settle;
mod sql;
mod store;
mod wake;
mod wal;
mod writer;

pub use file::FileLost;
pub use journal::{SqliteJournal, journal_migration_sql, journal_upgrade_sql};
pub use options::{Retention, SqliteOptions, Synchronous};
pub use schema::{migration_sql, upgrade_sql};
pub use store::SqliteStore;
