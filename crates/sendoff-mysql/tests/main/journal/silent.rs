//! Nobody waits for long for what a process had locked when it fell silent.

use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::{Fact, Position, Topic};
use sendoff_engine::journal::publish::{PairOptions, Publishing};
use sendoff_engine::journal::{DecideError, ExecuteError};
use sendoff_mysql::{JournalOptions, MysqlJournal, MysqlOptions};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::wait::{eventually, within};
use tokio::time::timeout;

use super::retain::keep_last;
use super::{Log, count, fact, journal, journal_with, run, tag, tagged};
use crate::place::{MARIADB, Place, by_way_of, port};

/// More than half of what one text of an append has room for.
const LARGE: usize = 600 * 1024;
const PLENTY: Duration = Duration::from_secs(60);
/// Less than the server would let a session be silent for.
const SOON: Duration = Duration::from_secs(10);

fn large(tags: &[&str]) -> Fact {
    let payload = format!("\"{}\"", "x".repeat(LARGE));
    let tags = tags.iter().map(|text| tag(text));
    Fact::builder(("large", &*payload)).tags(tags).build().unwrap()
}

/// An append of several texts that falls silent between two of them: the server ends it, and its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_append_that_falls_silent_under_its_locks_is_ended_by_the_server() {
    let place = Place::on(MARIADB).await;
    let server = MysqlOptions {
        // The shortest there is.
        idle_in_transaction_timeout: Duration::from_secs(10),
        ..MysqlOptions::default()
    };
    let options =
        JournalOptions { server, patience: Duration::from_secs(1), ..JournalOptions::default() };
    let journal =
        journal_with(&place, JournalOptions { patience: PLENTY, ..options.clone() }).await;
    let impatient = journal_with(&place, options.clone()).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let options = JournalOptions { patience: PLENTY, ..options };
    let silent = MysqlJournal::connect_with(&by_way_of(&place.url, &proxy), options).await.unwrap();

    // Its second text waits for somebody who has one of its ids; its third never comes.
    let facts = [large(&["w=1"]), large(&["w=1"]), large(&["w=1"])];
    let mut open = place.conn().await;
    run(&mut open, "begin").await;
    journal.append_in(&mut open, [facts[1].clone()], None).await.unwrap();
    let silent = tokio::spawn(async move { Log::new(silent).append(facts).await });
    eventually("it waits", async || place.number(&waiting("insert")).await == 1).await;
    proxy.silence(true);
    run(&mut open, "rollback").await;

    let next = |_| Ok::<_, BoxError>(vec![fact("b", &["w=1"])]);
    let busy = impatient.execute_locked(|| count(tagged("w=1")), next).await;
    assert!(matches!(busy, Err(ExecuteError::Decide(DecideError::Busy(_)))), "{busy:?}");
    let next_turn = journal.execute_locked(|| count(tagged("w=1")), next);
    let done = timeout(PLENTY, next_turn).await.expect("the server lets it be silent").unwrap();
    assert_eq!(done.receipts.len(), 1);
    assert_eq!(place.number("select count(*) from journal_tag").await, 1, "all or none");
    silent.abort();
}

/// A process that lets facts go and falls silent in the middle of it: what is appended meanwhile under a
/// condition on the same tags, and published, does not wait for it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_silent_process_that_lets_facts_go_keeps_nobody_waiting() {
    let place = Place::on(MARIADB).await;
    let (journal, latch) = (journal(&place).await, Latch::new("p"));
    journal.append((0..3).map(|_| fact("a", &["w=1"]))).await.unwrap();
    let topic = Topic::builder("everything").build().unwrap();
    let often = PairOptions { interval: Duration::from_millis(20), ..PairOptions::default() };
    let pair = Publishing::builder(&journal).pair_with(&topic, latch.publisher(), often);
    let node = pair.start().await.unwrap();
    let passed = "select count(*) from journal_cursor where last_position = 3";
    eventually("all is published", async || place.number(passed).await == 1).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let silent = MysqlJournal::connect(&by_way_of(&place.url, &proxy)).await.unwrap();

    let mut open = place.conn().await;
    run(&mut open, "begin; select * from journal_tag where position = 1 for update").await;
    let silent = tokio::spawn(async move { keep_last(&Log::new(silent), 0).await });
    eventually("it waits", async || place.number(&waiting("delete")).await == 1).await;
    proxy.silence(true);
    run(&mut open, "rollback").await;

    // Comes by whatever was let go; excluded until then.
    let first = tagged("w=1").none_after(Position::START);
    let append = async || journal.append_if([fact("b", &["w=1"])], first.clone()).await.is_ok();
    within(SOON, "nothing is left that anybody waits for", append).await;
    within(SOON, "it is published", async || latch.positions() == [1, 2, 3, 4]).await;
    silent.abort();
    node.close().await;
}

/// How many statements of a kind have waited for a while.
fn waiting(kind: &str) -> String {
    format!(
        "select count(*) from information_schema.processlist
          where db = database() and info like '{kind} %' and time_ms > 500"
    )
}
