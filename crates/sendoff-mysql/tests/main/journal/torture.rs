//! Everything that can happen to an append, at once, for ten seconds (or as long as is said).

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::journal::Append;
use sendoff_engine::journal::{AppendError, AppendIn, Receipt};
use sendoff_testkit::journal::{Writer, async_trait, torture};

use super::{Log, journal};
use crate::place::{MARIADB, MYSQL, Place};

const WRITERS: usize = 12;

pub(super) struct Connected {
    journal: Log,
    conn: Conn,
}

impl Connected {
    pub(super) async fn new(journal: &Log, place: &Place) -> Self {
        Self { journal: journal.clone(), conn: place.conn().await }
    }
}

#[async_trait]
impl Writer for Connected {
    async fn begin(&mut self) {
        self.run("begin").await;
    }

    async fn append(&mut self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.journal.store().append_in(&mut self.conn, append).await
    }

    async fn run(&mut self, sql: &str) {
        self.conn.query_drop(sql).await.unwrap();
    }

    async fn end(&mut self, commits: bool) {
        self.run(if commits { "commit" } else { "rollback" }).await;
    }
}

/// Beside a foreign transaction that writes and is open throughout, at the server's own isolation.
async fn on(server: &str) {
    let place = Place::on(server).await;
    let journal = journal(&place).await;
    place.run("create table foreign_work (n int)").await;
    let mut foreign = place.conn().await;
    foreign.query_drop("begin; insert into foreign_work values (1)").await.unwrap();
    let read = "select count(*) from journal_event";
    foreign.query_drop(read).await.unwrap();
    let mut writers: Vec<Box<dyn Writer>> = Vec::new();
    for _ in 0..WRITERS {
        writers.push(Box::new(Connected::new(&journal, &place).await));
    }
    println!("{}", torture(&journal, writers).await);
    let voids = place.number("select count(*) from journal_event where event_id is null").await;
    assert!(voids > 0, "nothing was rolled back, and so nothing was tested");
    foreign.query_drop("commit").await.unwrap();
}

/// Holds J6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order() {
    on(MARIADB).await;
}

/// Holds J6.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nor_on_mysql() {
    on(MYSQL).await;
}
