//! Everything that can happen to an append, at once, for ten seconds (or as long as is said).

use std::collections::BTreeMap;
use std::env;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use sendoff_core::EventId;
use sendoff_core::journal::{Fact, Position};
use sendoff_engine::journal::TailOptions;
use sendoff_testkit::history::{Expectations, History, check};
use sendoff_testkit::wait::within;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use super::{Gid, Log, fact, journal};
use crate::place::Place;

const WRITERS: usize = 12;
/// Beside the longest append: one look at a gap, and a machine that has other things to do.
const SLACK: Duration = Duration::from_secs(2);

/// What all of them share.
struct Ring {
    history: History,
    committed_at: Mutex<BTreeMap<EventId, Instant>>,
    longest_append: AtomicU64,
    stop: CancellationToken,
}

impl Ring {
    /// The end of a transaction that was opened at `since`.
    fn ended(&self, since: Instant, facts: &[Fact], committed: bool) {
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap();
        self.longest_append.fetch_max(micros, Ordering::Relaxed);
        let now = Instant::now();
        for fact in facts {
            if committed {
                self.history.committed(fact.event());
                self.committed_at.lock().unwrap().insert(fact.id(), now);
            } else {
                self.history.rolled_back(fact.event());
            }
        }
    }

    fn longest_append(&self) -> Duration {
        Duration::from_micros(self.longest_append.load(Ordering::Relaxed))
    }
}

/// How long it lasts: ten seconds, or as many as the environment says for a soak.
fn duration() -> Duration {
    let seconds = env::var("SENDOFF_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok());
    Duration::from_secs(seconds.unwrap_or(10))
}

/// Holds J6: every fact that was committed is passed on once and in order, none is lost, none that was
/// not committed is passed on, and nothing waits longer than the longest append was open.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_nothing_comes_twice_and_all_is_in_order() {
    let place = Place::new();
    let journal = journal(&place).await;
    place.run("create table foreign_work (n int)").await;
    // Open from before the first append until after the last, and it writes.
    let foreign = place.client().await;
    let write = format!("begin; insert into {}.foreign_work values (1)", place.schema);
    foreign.batch_execute(&write).await.unwrap();

    let ring = Arc::new(Ring {
        history: History::new(),
        committed_at: Mutex::default(),
        longest_append: AtomicU64::new(0),
        stop: CancellationToken::new(),
    });
    let mut writers = Vec::new();
    for seed in 0..WRITERS as u64 {
        let (client, gid) = (place.client().await, Gid::new(&place));
        writers.push(tokio::spawn(write_on(journal.clone(), client, gid, seed, Arc::clone(&ring))));
    }
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let reader = tokio::spawn(read_on(journal.clone(), Arc::clone(&ring), Arc::clone(&delivered)));

    tokio::time::sleep(duration()).await;
    ring.stop.cancel();
    for writer in writers {
        writer.await.unwrap();
    }
    let committed = ring.committed_at.lock().unwrap().len();
    let all = async || delivered.lock().unwrap().len() >= committed;
    within(Duration::from_secs(30), "all that was committed", all).await;
    reader.abort();
    foreign.batch_execute("commit").await.unwrap();

    let verdict = check(&ring.history, &Expectations::default());
    assert!(verdict.is_clean(), "{verdict}");
    let delivered = delivered.lock().unwrap();
    assert_eq!(delivered.len(), committed);
    assert!(delivered.is_sorted_by(|(a, ..), (b, ..)| a < b), "in the order of positions");
    let committed_at = ring.committed_at.lock().unwrap();
    let waits = delivered.iter().filter_map(|(_, id, at): &(Position, EventId, Instant)| {
        Some(at.saturating_duration_since(*committed_at.get(id)?))
    });
    let longest_wait = waits.max().unwrap_or_default();
    let longest_append = ring.longest_append();
    println!(
        "{committed} committed and delivered, {} rolled back; longest wait {longest_wait:?}, \
         longest append {longest_append:?}",
        verdict.rolled_back
    );
    assert!(longest_wait <= longest_append + SLACK, "{longest_wait:?} {longest_append:?}");
    assert!(verdict.rolled_back > 0 && committed > 500, "{verdict}");
}

/// Appends, in every way, until it is told to stop.
async fn write_on(journal: Log, mut client: Client, gid: Gid, seed: u64, ring: Arc<Ring>) {
    let mut chance = Chance(seed + 1);
    while !ring.stop.is_cancelled() {
        let tag = format!("w={}", chance.below(20));
        let facts = |count: u64| -> Vec<Fact> { (0..count).map(|_| fact("t", &[&tag])).collect() };
        let since = Instant::now();
        client.batch_execute("begin").await.unwrap();
        chance.pause(5).await;
        let mut kept = facts(1 + chance.below(3));
        journal.append_in(&mut client, kept.clone(), None).await.unwrap();
        chance.pause(20).await;
        if chance.percent(25) {
            // A savepoint that is undone, and one that is not.
            client.batch_execute("savepoint s").await.unwrap();
            let within = facts(1 + chance.below(2));
            journal.append_in(&mut client, within.clone(), None).await.unwrap();
            chance.pause(5).await;
            if chance.percent(50) {
                client.batch_execute("rollback to s").await.unwrap();
                ring.ended(Instant::now(), &within, false);
            } else {
                client.batch_execute("release s").await.unwrap();
                kept.extend(within);
            }
        }
        let commits = !chance.percent(20);
        if chance.percent(20) {
            gid.prepare(&client).await;
            chance.pause(30).await;
            if commits { gid.commit(&client).await } else { gid.roll_back(&client).await }
        } else {
            let end = if commits { "commit" } else { "rollback" };
            client.batch_execute(end).await.unwrap();
        }
        ring.ended(since, &kept, commits);
    }
}

/// Reads until it is aborted.
async fn read_on(
    journal: Log,
    ring: Arc<Ring>,
    delivered: Arc<Mutex<Vec<(Position, EventId, Instant)>>>,
) {
    let options = TailOptions {
        interval: Duration::from_millis(10),
        gap_interval: Duration::from_millis(2),
        ..TailOptions::default()
    };
    let mut reader = journal.tail(Position::START, options).await.unwrap();
    loop {
        let batch = reader.next().await.unwrap();
        let now = Instant::now();
        for row in batch.rows {
            let recorded = row.recorded.unwrap();
            ring.history.delivery_started("tail", &recorded.delivery(1)).finished(true);
            delivered.lock().unwrap().push((row.position, recorded.fact.id(), now));
        }
    }
}

/// Numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    fn below(&mut self, end: u64) -> u64 {
        // xorshift
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    async fn pause(&mut self, most_millis: u64) {
        let micros = self.below(most_millis * 1_000);
        tokio::time::sleep(Duration::from_micros(micros)).await;
    }
}
