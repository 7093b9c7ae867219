//! Everything that can happen to an append, at once.

#![allow(clippy::missing_panics_doc, reason = "a torture that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "what cannot unwrap says less, not more")]

use std::collections::BTreeMap;
use std::env;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sendoff_core::EventId;
use sendoff_core::journal::{Append, Fact, Position};
use sendoff_engine::journal::{AppendError, Journal, JournalStore, Receipt, TailOptions};

use super::cases::fact;
use crate::history::{Expectations, History, check};
use crate::wait::within;

/// Beside the longest append: one look at a gap, and a machine that has other things to do.
const SLACK: Duration = Duration::from_secs(2);

/// A connection of the application's, on which appends are made in every way.
#[async_trait]
pub trait Writer: Send + 'static {
    /// Begins a transaction.
    async fn begin(&mut self);

    /// Appends in it.
    async fn append(&mut self, append: &Append) -> Result<Vec<Receipt>, AppendError>;

    /// Runs a statement in it: one about the savepoint `s`.
    async fn run(&mut self, sql: &str);

    /// Prepares it for the second phase; where the server has none, it is left open instead.
    async fn prepare(&mut self) {}

    /// Ends it, prepared or not.
    async fn end(&mut self, commits: bool);
}

/// What all of them share.
#[derive(Default)]
struct Ring {
    history: History,
    committed_at: Mutex<BTreeMap<EventId, Instant>>,
    longest_append: AtomicU64,
    stop: AtomicBool,
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

/// Lets the writers append for ten seconds, or as many as `SENDOFF_TORTURE_SECONDS` says, beside a
/// tail that reads: every fact that was committed is passed on once and in order, none is lost, none
/// that was not committed is passed on, and nothing waits longer than the longest append was open.
/// Returns the figures, for people.
pub async fn torture<S: JournalStore>(
    journal: &Journal<S>,
    writers: Vec<Box<dyn Writer>>,
) -> String {
    let ring = Arc::new(Ring::default());
    let writers = writers.into_iter().enumerate();
    let writers: Vec<_> = writers
        .map(|(at, writer)| tokio::spawn(write_on(writer, at as u64, Arc::clone(&ring))))
        .collect();
    let delivered = Arc::new(Mutex::new(Vec::new()));
    let reader = tokio::spawn(read_on(journal.clone(), Arc::clone(&ring), Arc::clone(&delivered)));

    tokio::time::sleep(duration()).await;
    ring.stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.unwrap();
    }
    let committed = ring.committed_at.lock().unwrap().len();
    let all = async || delivered.lock().unwrap().len() >= committed || reader.is_finished();
    within(Duration::from_secs(30), "all that was committed", all).await;
    if reader.is_finished() {
        reader.await.unwrap();
    } else {
        reader.abort();
    }

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
    let figures = format!(
        "{committed} committed and delivered, {} rolled back; longest wait {longest_wait:?}, \
         longest append {longest_append:?}",
        verdict.rolled_back
    );
    assert!(longest_wait <= longest_append + SLACK, "{figures}");
    assert!(verdict.rolled_back > 0 && committed > 500, "{figures}");
    figures
}

/// Appends, in every way, until it is told to stop.
async fn write_on(mut writer: Box<dyn Writer>, seed: u64, ring: Arc<Ring>) {
    let mut chance = Chance(seed + 1);
    while !ring.stop.load(Ordering::Relaxed) {
        let tag = format!("w={}", chance.below(20));
        let facts = |count: u64| -> Vec<Fact> { (0..count).map(|_| fact("t", &[&tag])).collect() };
        let append = |facts: &[Fact]| Append::new(facts.to_vec(), None).unwrap();
        let since = Instant::now();
        writer.begin().await;
        chance.pause(5).await;
        let mut kept = facts(1 + chance.below(3));
        writer.append(&append(&kept)).await.unwrap();
        chance.pause(20).await;
        if chance.percent(25) {
            // A savepoint that is undone, and one that is not.
            writer.run("savepoint s").await;
            let within = facts(1 + chance.below(2));
            writer.append(&append(&within)).await.unwrap();
            chance.pause(5).await;
            if chance.percent(50) {
                writer.run("rollback to savepoint s").await;
                ring.ended(Instant::now(), &within, false);
            } else {
                writer.run("release savepoint s").await;
                kept.extend(within);
            }
        }
        let commits = !chance.percent(20);
        if chance.percent(20) {
            writer.prepare().await;
            chance.pause(30).await;
        }
        writer.end(commits).await;
        ring.ended(since, &kept, commits);
    }
}

/// Reads until it is aborted.
async fn read_on<S: JournalStore>(
    journal: Journal<S>,
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
