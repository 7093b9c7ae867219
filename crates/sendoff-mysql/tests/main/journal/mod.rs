//! The journal on a real server.

mod append;
mod books;
mod by_sql;
mod charset;
mod decide;
mod drivers;
mod failover;
mod gap_alone;
mod gaps;
mod limits;
mod plans;
mod race;
pub(crate) mod restart;
mod retain;
mod schema;
mod silent;
mod suite;
mod torture;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_engine::journal::{Batch, Journal, TailReader};
use sendoff_mysql::{JournalOptions, MysqlJournal};

pub(crate) use sendoff_testkit::journal::facts::{
    QUICK, count, fact, position, positions, tag, tagged, tail,
};

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

/// A transaction begun by hand, with an append in it.
pub(crate) async fn open_append(journal: &Log, place: &Place) -> Conn {
    let mut conn = place.conn().await;
    run(&mut conn, "begin").await;
    journal.append_in(&mut conn, [fact("open", &[])], None).await.unwrap();
    conn
}

pub(crate) async fn run(conn: &mut Conn, sql: &str) {
    conn.query_drop(sql).await.unwrap();
}

/// Takes so many numbers and gives none of them back, as an import that failed does, only faster.
pub(crate) async fn burn(conn: &mut Conn, numbers: u32) {
    let digits = "(select 0 n union all select 1 union all select 2 union all select 3 union all select 4 \
                  union all select 5 union all select 6 union all select 7 union all select 8 union all \
                  select 9)";
    let from =
        ["a", "b", "c", "d", "e"].map(|name| format!("{digits} {name}")).join(" cross join ");
    for _ in 0..numbers.div_ceil(50_000) {
        run(
            conn,
            &format!(
                "begin; insert into journal_event (recorded_at) select now() from {from} limit 50000; \
                 rollback"
            ),
        )
        .await;
    }
}

/// As many looks as it takes to know what can be known now.
pub(crate) async fn settled(reader: &mut TailReader) -> (Vec<u64>, Batch) {
    let mut passed = Vec::new();
    let mut gap = None;
    loop {
        let at = reader.at();
        let batch = reader.look().await.unwrap();
        passed.extend(positions(&batch));
        // The first look at a gap waits for nobody, the next one does; and one may only step over what is gone.
        if batch.rows.is_empty() && batch.gap == gap && batch.up_to == at {
            return (passed, batch);
        }
        gap = batch.gap;
    }
}
