//! Of appends that exclude one another one succeeds.

use sendoff_testkit::journal::Writer;
use sendoff_testkit::journal::race::{LANES, decisions_beside_an_open_append, duels};

use super::journal;
use super::torture::Connected;
use crate::place::Place;

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
    let mut writers: Vec<Box<dyn Writer>> = Vec::new();
    for _ in 0..LANES {
        writers.push(Box::new(Connected::new(&journal, &place).await));
    }
    decisions_beside_an_open_append(&journal, writers).await;
}
