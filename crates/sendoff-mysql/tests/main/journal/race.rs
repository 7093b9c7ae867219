//! Of appends that exclude one another one succeeds.

use mysql_async::Conn;
use sendoff_core::journal::Append;
use sendoff_engine::journal::AppendIn;
use sendoff_testkit::journal::async_trait;
use sendoff_testkit::journal::race::{LANES, OpenWriter, decisions_beside_an_open_append, duels};

use super::{Log, journal, run};
use crate::place::{MARIADB, MYSQL, Place};

struct Low(Log, Conn);

#[async_trait]
impl OpenWriter for Low {
    async fn open(&mut self, append: &Append) {
        run(&mut self.1, "begin").await;
        self.0.store().append_in(&mut self.1, append).await.unwrap();
    }

    async fn commit(&mut self) {
        run(&mut self.1, "commit").await;
    }
}

/// Holds J1: also beside a transaction that has nothing to do with it and is older than everything.
async fn one_wins(server: &str) {
    let place = Place::on(server).await;
    let journal = journal(&place).await;
    place.run("create table foreign_work (n int)").await;
    let mut old = place.conn().await;
    run(&mut old, "begin; insert into foreign_work values (1)").await;
    run(&mut old, "select count(*) from journal_event").await;
    duels(&journal).await;
    run(&mut old, "commit").await;
}

/// Holds J1 and J2.
async fn one_wins_beside_an_open_append(server: &str) {
    let place = Place::on(server).await;
    let journal = journal(&place).await;
    let mut writers: Vec<Box<dyn OpenWriter>> = Vec::new();
    for _ in 0..LANES {
        writers.push(Box::new(Low(journal.clone(), place.conn().await)));
    }
    decisions_beside_an_open_append(&journal, writers).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_conflicting_appends_exactly_one_wins_beside_an_older_open_transaction() {
    one_wins(MARIADB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_wins_though_a_lower_position_was_open_when_it_decided() {
    one_wins_beside_an_open_append(MARIADB).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_conflicting_appends_exactly_one_wins_on_mysql() {
    one_wins(MYSQL).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_wins_beside_an_open_append_on_mysql() {
    one_wins_beside_an_open_append(MYSQL).await;
}
