//! How long callers wait at most.

use std::time::Duration;

use sendoff_engine::journal::Journal;
use sendoff_mysql::{JournalOptions, MysqlJournal};
use sendoff_testkit::journal::limits;
use sendoff_testkit::proxy::Proxy;

use super::{Log, fact, journal, journal_with, run};
use crate::place::{MARIADB, MYSQL, Place, by_way_of, port};

const PATIENCE: Duration = Duration::from_secs(3);

/// A journal behind a line that can fall silent.
async fn behind_a_line(place: &Place) -> (Log, Proxy) {
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let (patience, store_timeout) = (Duration::from_secs(1), Duration::from_secs(2));
    let options = JournalOptions { patience, store_timeout, ..JournalOptions::default() };
    let url = by_way_of(&place.url, &proxy);
    (Journal::new(MysqlJournal::connect_with(&url, options).await.unwrap()), proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_a_silent_line_end() {
    let place = Place::on(MARIADB).await;
    journal(&place).await;
    let (journal, proxy) = behind_a_line(&place).await;
    limits::calls_over_a_silent_line_end(&journal, &proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_over_a_silent_line_is_in_doubt() {
    let place = Place::on(MARIADB).await;
    let healthy = journal(&place).await;
    let (silent, proxy) = behind_a_line(&place).await;
    limits::a_decision_over_a_silent_line_is_in_doubt(&silent, &proxy, &healthy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patience_is_all_that_a_caller_waits() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let options =
            JournalOptions { patience: PATIENCE, connections: 3, ..JournalOptions::default() };
        let journal = journal_with(&place, options).await;
        let mut open = place.conn().await;
        run(&mut open, "begin").await;
        journal.append_in(&mut open, [fact("a", &["wallet=1"])], None).await.unwrap();
        limits::patience_is_all_that_a_caller_waits(&journal, PATIENCE).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_decision_runs_once() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        limits::a_slow_decision_runs_once(&journal(&place).await).await;
    }
}
