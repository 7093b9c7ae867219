//! Of appends that exclude one another one succeeds.

use sendoff_core::journal::Append;
use sendoff_engine::journal::AppendIn;
use sendoff_testkit::journal::async_trait;
use sendoff_testkit::journal::race::{LANES, OpenWriter, decisions_beside_an_open_append, duels};
use tokio_postgres::Client;

use super::{Log, journal};
use crate::place::Place;

struct Low(Log, Client);

#[async_trait]
impl OpenWriter for Low {
    async fn open(&mut self, append: &Append) {
        self.1.batch_execute("begin").await.unwrap();
        self.0.store().append_in(&mut self.1, append).await.unwrap();
    }

    async fn commit(&mut self) {
        self.1.batch_execute("commit").await.unwrap();
    }
}

/// Holds J1.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_conflicting_appends_exactly_one_wins() {
    let place = Place::new();
    duels(&journal(&place).await).await;
}

/// Holds J1: a transaction that has nothing to do with it and is older than everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_wins_beside_an_older_open_transaction() {
    let place = Place::new();
    let journal = journal(&place).await;
    let old = place.client().await;
    let write = "begin; create table foreign_work (n int); insert into foreign_work values (1)";
    old.batch_execute(&format!("set search_path = {}; {write}", place.schema)).await.unwrap();
    duels(&journal).await;
    old.batch_execute("commit").await.unwrap();
}

/// Holds J1 and J2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exactly_one_wins_though_a_lower_position_was_open_when_it_decided() {
    let place = Place::new();
    let journal = journal(&place).await;
    let mut writers: Vec<Box<dyn OpenWriter>> = Vec::new();
    for _ in 0..LANES {
        writers.push(Box::new(Low(journal.clone(), place.client().await)));
    }
    decisions_beside_an_open_append(&journal, writers).await;
}
