//! How long callers wait at most.

use std::time::Duration;

use sendoff_engine::journal::Journal;
use sendoff_postgres::{JournalOptions, PostgresJournal};
use sendoff_testkit::journal::limits;
use sendoff_testkit::proxy::Proxy;

use super::{Log, fact, journal, journal_with, options};
use crate::place::{Place, by_way_of, port};

const PATIENCE: Duration = Duration::from_secs(2);

fn short(place: &Place) -> JournalOptions {
    let (patience, store_timeout) = (Duration::from_secs(1), Duration::from_secs(2));
    JournalOptions { patience, store_timeout, ..options(place) }
}

/// A journal behind a line that can fall silent.
async fn behind_a_line(place: &Place) -> (Log, Proxy) {
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let url = by_way_of(&place.url, &proxy);
    (Journal::new(PostgresJournal::connect_with(&url, short(place)).await.unwrap()), proxy)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_over_a_silent_line_end() {
    let place = Place::new();
    journal(&place).await;
    let (journal, proxy) = behind_a_line(&place).await;
    limits::calls_over_a_silent_line_end(&journal, &proxy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_decision_over_a_silent_line_is_in_doubt() {
    let place = Place::new();
    let healthy = journal(&place).await;
    let (silent, proxy) = behind_a_line(&place).await;
    limits::a_decision_over_a_silent_line_is_in_doubt(&silent, &proxy, &healthy).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn patience_is_all_that_a_caller_waits() {
    let place = Place::new();
    let options = JournalOptions { patience: PATIENCE, connections: 3, ..options(&place) };
    let journal = journal_with(&place, options).await;
    let mut client = place.client().await;
    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, [fact("a", &["wallet=1"])], None).await.unwrap();
    limits::patience_is_all_that_a_caller_waits(&journal, PATIENCE).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_decision_runs_once() {
    let place = Place::new();
    limits::a_slow_decision_runs_once(&journal(&place).await).await;
}
