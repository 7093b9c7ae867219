//! Everything that can happen to an append, at once.

use std::collections::BTreeMap;
use std::env;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use async_trait::async_trait;
use sendoff_core::journal::{Append, Fact, Position};
use sendoff_core::{Delivery, EventId};
use sendoff_engine::journal::{AppendError, Journal, JournalStore, TailOptions};

use super::harness::{Ending, JournalHarness};
use crate::history::{Expectations, History, Verdict, check};
use crate::wait::within;

/// What a transaction of the application's does, one thing after the other.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Script {
    /// From its beginning on.
    pub steps: Vec<Step>,
    /// In two phases, and how long it stays prepared; only where [`Torture::prepares`] asks for that.
    pub prepared_for: Option<Duration>,
    /// How it ends.
    pub ending: Ending,
}

/// One thing of it. Savepoints are not nested.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    /// It stays open and does nothing.
    Pause(Duration),
    /// It appends.
    Append(Append),
    /// It sets a savepoint.
    Savepoint,
    /// It undoes what it did since.
    RollBackTo,
    /// It keeps what it did since.
    Release,
}

/// A journal's harness that can run scripts.
#[async_trait]
pub trait TortureHarness: JournalHarness {
    /// A connection of a writer's own.
    type Writer: Writer;

    /// Opens one.
    async fn writer(&self) -> Self::Writer;
}

/// Runs scripts on a connection of its own.
#[async_trait]
pub trait Writer: Send + 'static {
    /// Runs a script. [`Busy`](AppendError::Busy) means that nothing of it is there; any other error
    /// is a failure of the test.
    async fn run(&mut self, script: &Script) -> Result<(), AppendError>;
}

/// How a journal is tortured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Torture {
    /// Writers.
    pub writers: u64,
    /// For how long.
    pub lasts: Duration,
    /// Whether some transactions are committed in two phases.
    pub prepares: bool,
    /// How long a fact may wait beside the longest append: a look at a gap, and a machine that has
    /// other things to do.
    pub slack: Duration,
}

impl Default for Torture {
    /// Twelve writers, for ten seconds, or as many as `SENDOFF_TORTURE_SECONDS` says for a soak.
    fn default() -> Self {
        let seconds = env::var("SENDOFF_TORTURE_SECONDS").ok().and_then(|text| text.parse().ok());
        Self {
            writers: 12,
            lasts: Duration::from_secs(seconds.unwrap_or(10)),
            prepares: false,
            slack: Duration::from_secs(2),
        }
    }
}

/// How it went.
#[derive(Debug)]
pub struct Tortured {
    /// Clean, or the test has ended before.
    pub verdict: Verdict,
    /// From a commit to the tail.
    pub longest_wait: Duration,
    /// From the beginning of a transaction to its end.
    pub longest_append: Duration,
}

impl fmt::Display for Tortured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { verdict, longest_wait, longest_append } = self;
        let (written, rolled_back) = (verdict.written, verdict.rolled_back);
        write!(
            f,
            "{written} committed and delivered, {rolled_back} rolled back; longest wait \
             {longest_wait:?}, longest append {longest_append:?}"
        )
    }
}

/// Writers that are slow, that roll back, that undo savepoints and overtake one another, and a tail
/// beside them. Every fact that was committed is passed on once and in order, none is lost, none that
/// was not committed is passed on, and nothing waits longer than the longest append was open.
///
/// # Panics
///
/// Where that does not hold.
pub async fn torture(harness: &impl TortureHarness, torture: Torture) -> Tortured {
    let ring = Arc::<Ring>::default();
    let mut writers = Vec::new();
    for seed in 0..torture.writers {
        let chance = Chance(seed + 1);
        let writer = harness.writer().await;
        writers.push(tokio::spawn(write_on(writer, chance, torture.prepares, Arc::clone(&ring))));
    }
    let reader = tokio::spawn(read_on(harness.journal().clone(), Arc::clone(&ring)));

    tokio::time::sleep(torture.lasts).await;
    ring.stop.store(true, Ordering::Relaxed);
    for writer in writers {
        writer.await.expect("a writer ends in order");
    }
    let committed = lock(&ring.committed_at).len();
    let all = async || reader.is_finished() || lock(&ring.delivered).len() >= committed;
    within(Duration::from_secs(30), "all that was committed", all).await;
    if reader.is_finished() {
        reader.await.expect("a reader ends with an error only");
    } else {
        reader.abort();
    }
    ring.judge(torture.slack)
}

/// What all of them share.
#[derive(Default)]
struct Ring {
    history: History,
    committed_at: Mutex<BTreeMap<EventId, Instant>>,
    delivered: Mutex<Vec<(Position, EventId, Instant)>>,
    longest_append: AtomicU64,
    stop: AtomicBool,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Ring {
    /// The end of a transaction that was opened at `since`.
    fn ended(&self, since: Instant, facts: &[Fact], ending: Ending) {
        let micros = u64::try_from(since.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.longest_append.fetch_max(micros, Ordering::Relaxed);
        let now = Instant::now();
        for fact in facts {
            match ending {
                Ending::Commit => {
                    self.history.committed(fact.event());
                    lock(&self.committed_at).insert(fact.id(), now);
                }
                Ending::RollBack => self.history.rolled_back(fact.event()),
            }
        }
    }

    fn judge(&self, slack: Duration) -> Tortured {
        let verdict = check(&self.history, &Expectations::default());
        assert!(verdict.is_clean(), "{verdict}");
        let (delivered, committed_at) = (lock(&self.delivered), lock(&self.committed_at));
        assert_eq!(delivered.len(), committed_at.len());
        assert!(delivered.is_sorted_by(|(a, ..), (b, ..)| a < b), "in the order of positions");
        let waits = delivered
            .iter()
            .filter_map(|(_, id, at)| Some(at.saturating_duration_since(*committed_at.get(id)?)));
        let longest_wait = waits.max().unwrap_or_default();
        let longest_append = Duration::from_micros(self.longest_append.load(Ordering::Relaxed));
        let tortured = Tortured { verdict, longest_wait, longest_append };
        assert!(longest_wait <= longest_append + slack, "{tortured}");
        tortured
    }
}

/// Appends, in every way, until it is told to stop.
async fn write_on(mut writer: impl Writer, mut chance: Chance, prepares: bool, ring: Arc<Ring>) {
    while !ring.stop.load(Ordering::Relaxed) {
        let (script, kept, undone) = chance.script(prepares);
        let since = Instant::now();
        match writer.run(&script).await {
            Ok(()) => {
                ring.ended(since, &undone, Ending::RollBack);
                ring.ended(since, &kept, script.ending);
            }
            Err(AppendError::Busy(_)) => {
                ring.ended(since, &[kept, undone].concat(), Ending::RollBack);
            }
            Err(error) => panic!("{error}: {error:?}"),
        }
    }
}

/// Reads until it is aborted.
async fn read_on<S: JournalStore>(journal: Journal<S>, ring: Arc<Ring>) {
    let options = TailOptions {
        interval: Duration::from_millis(10),
        gap_interval: Duration::from_millis(2),
        ..TailOptions::default()
    };
    let mut reader = journal.tail(Position::START, options).await.expect("a tail opens");
    loop {
        let batch = reader.next().await.expect("a tail goes on");
        let now = Instant::now();
        for row in batch.rows {
            let recorded = Arc::new(row.recorded.expect("a fact can be read"));
            let delivery = Delivery::of_fact(&recorded, 1);
            ring.history.delivery_started("tail", &delivery).finished(true);
            lock(&ring.delivered).push((row.position, recorded.fact.id(), now));
        }
    }
}

/// Numbers that are the same in every run.
struct Chance(u64);

impl Chance {
    /// A transaction, what of it is kept if it commits, and what is not in any case.
    fn script(&mut self, prepares: bool) -> (Script, Vec<Fact>, Vec<Fact>) {
        let tag = format!("w={}", self.below(20));
        let mut steps = vec![self.pause(5)];
        let (mut kept, mut undone) = (self.facts(&tag, 3), Vec::new());
        steps.extend([append(&kept), self.pause(20)]);
        if self.percent(25) {
            let within = self.facts(&tag, 2);
            steps.extend([Step::Savepoint, append(&within), self.pause(5)]);
            if self.percent(50) {
                steps.push(Step::RollBackTo);
                undone = within;
            } else {
                steps.push(Step::Release);
                kept.extend(within);
            }
        }
        let ending = if self.percent(20) { Ending::RollBack } else { Ending::Commit };
        let prepared_for = (self.percent(20) && prepares).then(|| self.millis(30));
        (Script { steps, prepared_for, ending }, kept, undone)
    }

    fn facts(&mut self, tag: &str, most: u64) -> Vec<Fact> {
        let fact = || {
            let tag = tag.parse().expect("a tag");
            Fact::builder(("t", "{}")).tags([tag]).build().expect("a fact")
        };
        (0..=self.below(most)).map(|_| fact()).collect()
    }

    fn pause(&mut self, most: u64) -> Step {
        Step::Pause(self.millis(most))
    }

    fn millis(&mut self, most: u64) -> Duration {
        Duration::from_micros(self.below(most * 1_000))
    }

    fn percent(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }

    fn below(&mut self, end: u64) -> u64 {
        // xorshift
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % end
    }
}

fn append(facts: &[Fact]) -> Step {
    Step::Append(Append::new(facts.to_vec(), None).expect("a few facts"))
}
