//! Publishing, as only a real server can show it.

mod failover;
mod fence;
mod projected;

use std::time::Duration;

use sendoff_core::journal::Topic;
use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::publish::{
    PairOptions, PublishOptions, Publishing, PublishingBuilder, Which,
};
use sendoff_postgres::PostgresJournal;
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::eventually;

use super::{Log, fact, journal};
use crate::place::Place;

pub(crate) fn everything() -> Topic {
    Topic::builder("everything").build().unwrap()
}

pub(crate) fn pair(publisher: &str) -> PairId {
    PairId::new("everything", publisher).unwrap()
}

/// Rounds that follow one another quickly.
pub(crate) fn quick() -> PublishOptions {
    PublishOptions {
        renew: Duration::from_millis(200),
        lease: Duration::from_secs(5),
        gap_interval: Duration::from_millis(2),
        ..PublishOptions::default()
    }
}

pub(crate) fn often() -> PairOptions {
    PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() }
}

pub(crate) fn builder(journal: &Log) -> PublishingBuilder<PostgresJournal> {
    Publishing::builder(journal).options(quick())
}

pub(crate) async fn append(journal: &Log, count: usize) {
    for number in 0..count {
        journal.append([fact("moved", &[&format!("wallet={}", number % 3)])]).await.unwrap();
    }
}

pub(crate) async fn stored(journal: &Log, publisher: &str, position: u64) {
    let what = format!("{publisher} at {position}");
    // A server that was restarted may refuse the first time.
    let pair = Which::pair(&pair(publisher));
    let there = async || {
        let cursors = journal.publishers().cursors(&pair).await;
        cursors.is_ok_and(|cursors| cursors[0].position.get() == position)
    };
    eventually(&what, there).await;
}

/// Holds J6: with every connection of it cut, again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_skipped_when_connections_are_cut() {
    let place = Place::new();
    let writer = journal(&place).await;
    let name = place.schema.clone();
    let url = format!("{}{}application_name={name}", place.url, joint(&place.url));
    let store = PostgresJournal::connect_with(&url, super::options(&place)).await.unwrap();
    let (log, latch) = (Log::new(store), Latch::new("p"));
    let pair = builder(&log).pair_with(&everything(), latch.publisher(), often());
    let node = pair.start().await.unwrap();
    for round in 1..=5_u64 {
        append(&writer, 20).await;
        eventually("some of it", async || latch.distinct().len() as u64 > (round - 1) * 20).await;
        let cut = "select count(pg_terminate_backend(pid)) from pg_stat_activity";
        assert!(place.number(&format!("{cut} where application_name = '{name}'")).await > 0);
    }
    stored(&writer, "p", 100).await;
    let mut first: Vec<u64> = Vec::new();
    for position in latch.positions() {
        if !first.contains(&position) {
            first.push(position);
        }
    }
    assert_eq!(first, (1..=100).collect::<Vec<_>>(), "first deliveries in order, none missing");
    node.close().await;
}

/// Behind a transaction pooler there is no session of one's own: the lease alone decides.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn it_works_without_a_session() {
    let place = Place::new();
    let mut options = super::options(&place);
    options.server.doorbell = sendoff_postgres::Doorbell::Off;
    let journal = super::journal_with(&place, options).await;
    let latch = Latch::new("p");
    let pair = builder(&journal).pair_with(&everything(), latch.publisher(), often());
    let node = pair.start().await.unwrap();
    append(&journal, 30).await;
    latch.wait_for(30).await;
    stored(&journal, "p", 30).await;
    assert_eq!(place.number("select count(*) from journal_node where lock_key is null").await, 1);
    node.close().await;
    assert_eq!(latch.positions(), (1..=30).collect::<Vec<_>>());
}

fn joint(url: &str) -> char {
    if url.contains('?') { '&' } else { '?' }
}
