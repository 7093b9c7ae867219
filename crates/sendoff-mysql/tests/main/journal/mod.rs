//! The journal on a real server.

mod suite;

use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::journal::{Fact, Position, Query, Tag};
use sendoff_engine::journal::{Batch, Journal, TailOptions, TailReader};
use sendoff_mysql::{JournalOptions, MysqlJournal};

use crate::place::Place;

pub(crate) type Log = Journal<MysqlJournal>;

/// A journal in this place.
pub(crate) async fn journal(place: &Place) -> Log {
    journal_with(place, JournalOptions::default()).await
}

pub(crate) async fn journal_with(place: &Place, options: JournalOptions) -> Log {
    let store = MysqlJournal::connect_with(&place.url, options).await.unwrap();
    store.migrate().await.unwrap();
    Journal::new(store)
}

/// The application's own connection, at READ COMMITTED.
pub(crate) async fn committed(place: &Place) -> Conn {
    let mut conn = place.conn().await;
    let level = "set session transaction isolation level read committed";
    conn.query_drop(level).await.unwrap();
    conn
}
