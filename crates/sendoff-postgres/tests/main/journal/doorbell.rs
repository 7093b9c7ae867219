//! Waking tails that sleep.

use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::{Position, Query};
use sendoff_engine::journal::{Journal, TailOptions, TailReader, fold};
use sendoff_postgres::{Doorbell, JournalOptions, PostgresJournal, PostgresOptions};
use sendoff_testkit::wait::eventually;
use tokio::task::JoinHandle;
use tokio::time::timeout;

use super::{Gid, Log, fact, journal, options, positions, tagged};
use crate::doorbell::rings_of;
use crate::place::Place;

const AN_HOUR: Duration = Duration::from_secs(60 * 60);
const PLENTY: Duration = Duration::from_secs(20);

async fn silent(place: &Place) -> Log {
    let server = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let options = JournalOptions { server, ..options(place) };
    Journal::new(PostgresJournal::connect_with(&place.url, options).await.unwrap())
}

async fn is_armed(place: &Place) -> bool {
    place.number("select last_value from journal_bell").await > 1
}

/// A tail that would sleep for an hour: its next batch.
async fn sleeper(journal: &Log) -> JoinHandle<(TailReader, Vec<u64>)> {
    let options = TailOptions { interval: AN_HOUR, ..TailOptions::default() };
    let mut reader = journal.tail_from_now(options).await.unwrap();
    tokio::spawn(async move {
        let batch = reader.next().await.unwrap();
        let positions = positions(&batch);
        (reader, positions)
    })
}

/// Holds I7: whichever way something is appended, in whichever process.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_way_to_append_wakes_a_tail_that_would_sleep_for_an_hour() {
    let place = Place::new();
    let (reading, writer) = (journal(&place).await, journal(&place).await);
    let mut rings = rings_of(&place, "journal").await;
    writer.append([fact("first", &[])]).await.unwrap();
    for way in 0..5 {
        let woken = sleeper(&reading).await;
        eventually("the tail to sleep", async || is_armed(&place).await).await;
        match way {
            0 => drop(writer.append([fact("one", &["a=1"])]).await.unwrap()),
            1 => drop(writer.append([fact("two", &[]), fact("two", &[])]).await.unwrap()),
            2 => {
                let none = Query::all().none_after(writer.head().await.unwrap());
                writer.append_if([fact("condition", &[])], none).await.unwrap();
            }
            3 => {
                let model = || fold(tagged("a=1"), (), |(), _| Ok(()));
                let decide = |_| Ok::<_, BoxError>(vec![fact("decided", &["a=1"])]);
                writer.execute_locked(model, decide).await.unwrap();
            }
            _ => {
                let mut client = place.client().await;
                client.batch_execute("begin; set local sendoff_journal.ring = on").await.unwrap();
                writer.append_in(&mut client, [fact("in", &[])], None).await.unwrap();
                client.batch_execute("commit").await.unwrap();
            }
        }
        let (_, positions) = timeout(PLENTY, woken).await.expect("it wakes").unwrap();
        assert!(!positions.is_empty());
        rings.recv().await.unwrap();
        while rings.try_recv().is_ok() {}
        // Nobody sleeps any more, as far as is known.
        place.run("select setval('journal_bell', 1)").await;
    }
    writer.append([fact("nobody sleeps", &[])]).await.unwrap();
    place.run("notify t").await;
    assert!(rings.try_recv().is_err());
}

/// Holds I7: PostgreSQL prepares no transaction that notifies, and nobody has to know that.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_appended_while_a_tail_sleeps_can_be_prepared() {
    let place = Place::new();
    let journal = journal(&place).await;
    let woken = sleeper(&journal).await;
    eventually("the tail to sleep", async || is_armed(&place).await).await;
    let (gid, mut client) = (Gid::new(&place), place.client().await);
    client.batch_execute("begin").await.unwrap();
    journal.append_in(&mut client, [fact("prepared", &[])], None).await.unwrap();
    gid.prepare(&client).await;
    gid.commit(&client).await;
    // Where it is on, a process without doorbell is silent all the same.
    let silent = silent(&place).await;
    client.batch_execute("set sendoff_journal.ring = on; begin").await.unwrap();
    silent.append_in(&mut client, [fact("prepared", &[])], None).await.unwrap();
    gid.prepare(&client).await;
    gid.commit(&client).await;
    journal.wake();
    assert!(!timeout(PLENTY, woken).await.expect("it wakes").unwrap().1.is_empty());
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_doorbell_a_tail_looks_and_nobody_rings() {
    let place = Place::new();
    let writer = journal(&place).await;
    let mut rings = rings_of(&place, "journal").await;
    let silent = silent(&place).await;
    let options = TailOptions { interval: Duration::from_millis(20), ..TailOptions::default() };
    let mut reader = silent.tail(Position::START, options).await.unwrap();
    assert!(timeout(Duration::from_millis(200), reader.next()).await.is_err());
    assert!(!is_armed(&place).await);
    writer.append([fact("one", &[])]).await.unwrap();
    assert_eq!(positions(&reader.next().await.unwrap()), [1]);
    place.run("select setval('journal_bell', 1000000000000)").await;
    silent.append([fact("two", &[])]).await.unwrap();
    silent.append([fact("two", &[]), fact("two", &[])]).await.unwrap();
    assert!(!reader.next().await.unwrap().rows.is_empty());
    assert!(rings.try_recv().is_err());
}

/// A ring costs whoever appends: a tail that is woken again and again looks by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_tail_that_is_always_woken_is_rung_for_no_longer() {
    let place = Place::new();
    let (reading, writer) = (journal(&place).await, journal(&place).await);
    let options = TailOptions { interval: AN_HOUR, ..TailOptions::default() };
    let mut reader = reading.tail(Position::START, options).await.unwrap();
    let reading = tokio::spawn(async move {
        let mut last = 0;
        while last < 10_000 {
            last = positions(&reader.next().await.unwrap()).last().copied().unwrap_or(last);
        }
    });
    eventually("the tail to sleep", async || is_armed(&place).await).await;
    let disarmed = async || {
        for _ in 0..50 {
            writer.append([fact("often", &[])]).await.unwrap();
        }
        !is_armed(&place).await
    };
    eventually("nobody to ring", disarmed).await;
    eventually("the tail to sleep again", async || is_armed(&place).await).await;
    reading.abort();
}
