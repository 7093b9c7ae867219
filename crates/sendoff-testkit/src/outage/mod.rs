//! A target that is away for minutes, on every face and every server, with every setting as it is by default:
//! nothing is dead, nearly nothing is used up, the log stays short, and all is delivered soon after.
//!
//! On real sockets and in real time; the engine's own tests do the same on paused time.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

mod target;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::{Fact, Topic};
use sendoff_core::{Event, Linear};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{PublishStore, Publishing};
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, RelayStore, TopicWorker};
use sendoff_engine::sink::HandlerSink;
use sendoff_engine::store::{Birth, InspectStore, NewRow};
use sendoff_engine::{Handlers, Outbox};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until};
use tracing::Level;

use self::target::{Caller, Looks, Seen, Target};
use crate::logs::Lines;
use crate::nodes::NodesHarness;
use crate::soak;
use crate::wait::within;

/// A hundred times a second, an event for each handler.
const EVERY: Duration = Duration::from_millis(10);
const BEFORE: Duration = Duration::from_secs(2);
const AFTER: Duration = Duration::from_secs(3);
/// All is delivered so long after the target is back.
const CAUGHT_UP: Duration = Duration::from_secs(60);
/// And the first so long, the longest pause between two tries.
const FIRST: Duration = Duration::from_secs(16);
/// Attempts that a handler's events may use up, all together: those that failed before it was clear that it is
/// an outage, some of which were under way at the same moment.
const USED_UP: u32 = 10;
const LINES: usize = 100;

/// Who delivers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Face {
    /// An outbox, by hot lane and cold.
    Outbox,
    /// A relay.
    Relay(ClaimMode),
    /// A topic worker.
    TopicWorker,
}

impl Face {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Outbox,
        Self::Relay(ClaimMode::Held),
        Self::Relay(ClaimMode::Locked),
        Self::TopicWorker,
    ];
}

/// How an outage went.
struct Account<'a> {
    who: &'a dyn fmt::Debug,
    looks: Looks,
    seen: Seen,
    first: Duration,
}

impl fmt::Display for Account<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Seen { each, used_up, failures, .. } = &self.seen;
        let (who, looks, first) = (self.who, self.looks, self.first);
        write!(f, "{who:?}, {looks:?}: {} delivered, {failures} tries failed, ", each.len())?;
        write!(f, "{used_up} attempts used up, the first {first:?} after its end")
    }
}

impl Account<'_> {
    fn judge(&self, written: usize, most_used_up: u32) {
        eprintln!("{self}");
        assert_eq!(self.seen.each.len(), written, "{self}: all are delivered");
        assert!(self.seen.each.values().all(|times| *times == 1), "{self}: each once");
        let mut keys = self.seen.keys.iter();
        let disordered = keys.find(|(_, numbers)| !numbers.is_sorted());
        assert!(disordered.is_none(), "{self}: out of order: {disordered:?}");
        assert!(self.seen.used_up <= most_used_up, "{self}");
        assert!(self.first <= FIRST, "{self}");
    }
}

/// Whoever does the same on one thread of its own, so that a log is one face's.
fn alone<F: Future<Output = ()>>(run: impl FnOnce() -> F) {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let (lines, _guard) = Lines::keep(Level::INFO);
    runtime.unwrap().block_on(run());
    let said = lines.text();
    let count = said.lines().count();
    eprintln!("{count} lines in the log");
    assert!(count <= LINES, "{count} lines in the log, the first of them:\n{said:.20000}");
}

/// Lets every face go through an outage, side by side, each on its own tables; a publisher as well, whose
/// journal may come with what keeps its tables.
pub fn every_face_goes_through_an_outage<H, S, K>(
    open: impl AsyncFn() -> H + Sync,
    journal: impl AsyncFn() -> (Journal<S>, K) + Sync,
) where
    H: NodesHarness<Store: RelayStore>,
    S: PublishStore,
{
    std::thread::scope(|threads| {
        for face in Face::ALL {
            let open = &open;
            threads.spawn(move || alone(|| async { delivers(&open().await, face).await }));
        }
        threads.spawn(|| {
            alone(|| async {
                let (journal, _kept) = journal().await;
                publishes(&journal).await;
            });
        });
    });
}

/// Writes all the time, and lets the target go and come back meanwhile. Returns how many events each handler
/// was given, and for each how long it took until its first.
async fn endure(
    target: &mut Target,
    callers: &[Caller],
    mut write: impl AsyncFnMut(usize),
) -> (usize, Vec<Duration>) {
    let mut ticks = interval(EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Burst);
    let mut written = 0;
    let mut until = async |ends: Instant| {
        while Instant::now() < ends {
            ticks.tick().await;
            write(written).await;
            written += 1;
        }
        sleep_until(ends).await;
    };
    until(Instant::now() + BEFORE).await;
    target.goes();
    until(Instant::now() + soak::lasting(Duration::from_secs(15), Duration::from_secs(180))).await;
    target.comes_back().await.unwrap();
    let back = Instant::now();
    let mut firsts = vec![None; callers.len()];
    let ends = back + AFTER;
    let mut look = || {
        for (first, caller) in firsts.iter_mut().zip(callers) {
            let last = caller.seen().last.filter(|last| *last >= back);
            *first = first.or(last.map(|last| last - back));
        }
    };
    while Instant::now() < ends {
        until((Instant::now() + 10 * EVERY).min(ends)).await;
        look();
    }
    let all = async || {
        look();
        callers.iter().all(|caller| caller.seen().each.len() >= written)
    };
    within(CAUGHT_UP.saturating_sub(back.elapsed()), "all to be delivered", all).await;
    (written, firsts.into_iter().map(|first| first.unwrap()).collect())
}

const TYPES: [(&str, Looks); 2] = [("refused", Looks::Refused), ("opaque", Looks::Opaque)];

/// An event for each handler, the first, second and so on of its kind. Every other one has one of a few keys.
fn events(number: usize) -> Vec<Event> {
    let event = |(name, _): &(&'static str, Looks)| {
        let builder = Event::builder(*name);
        let builder = match number % 2 {
            0 => builder,
            _ => builder.ordering_key(format!("key {}", number % 10)),
        };
        builder.json(&number).build().unwrap()
    };
    TYPES.iter().map(event).collect()
}

/// One face, on tables of its own.
async fn delivers<H: NodesHarness<Store: RelayStore>>(harness: &H, face: Face) {
    let mut target = Target::open().await.unwrap();
    let callers = TYPES.map(|(_, looks)| target.caller(looks));
    let (store, writer) = (harness.store().await, harness.store().await);
    let rows = |events: Vec<Event>| -> Vec<NewRow> {
        events.into_iter().map(|event| NewRow { event, birth: Birth::Due }).collect()
    };
    let write = async |number| {
        harness.write(&writer, &rows(events(number))).await;
    };
    let (written, firsts) = match face {
        Face::Outbox => {
            let mut builder = Outbox::builder(store);
            for ((name, _), caller) in TYPES.iter().zip(&callers) {
                builder = builder.on(*name, caller.clone());
            }
            let outbox = builder.start().await.unwrap();
            let emit = async |number| harness.emit(&outbox, &events(number)).await;
            let went = endure(&mut target, &callers, emit).await;
            outbox.close().await;
            went
        }
        Face::Relay(mode) => {
            let mut handlers = Handlers::new();
            for ((name, _), caller) in TYPES.iter().zip(&callers) {
                handlers.on(*name, caller.clone()).unwrap();
            }
            let options = RelayOptions { mode, ..RelayOptions::default() };
            let relay = Relay::builder(store).options(options).build_routed(handlers).unwrap();
            let relaying = relay.start().await.unwrap();
            let went = endure(&mut target, &callers, write).await;
            relaying.close().await;
            went
        }
        Face::TopicWorker => {
            // Those that failed before it was clear that it is an outage wait a minute by default.
            let step = soak::lasting(Duration::from_secs(5), Linear::default().step);
            let mut builder =
                TopicWorker::builder(store).retry(Linear { step, ..Linear::default() });
            for ((name, _), caller) in TYPES.iter().zip(&callers) {
                builder = builder.on(*name, caller.clone());
            }
            let working = builder.build().unwrap().start().await.unwrap();
            let went = endure(&mut target, &callers, write).await;
            working.close().await;
            went
        }
    };
    for (caller, first) in callers.iter().zip(firsts) {
        let (looks, seen) = (caller.looks(), caller.seen().clone());
        Account { who: &face, looks, seen, first }.judge(written, USED_UP);
    }
    let counts = writer.counts().await.unwrap();
    assert_eq!((counts.dead, counts.done), (0, 2 * written as u64), "{face:?}");
}

/// A publisher for each kind of error, on one journal: in exact order, too.
async fn publishes<S: PublishStore>(journal: &Journal<S>) {
    let mut target = Target::open().await.unwrap();
    let callers = TYPES.map(|(_, looks)| target.caller(looks));
    let topic = Topic::builder("everything").build().unwrap();
    let mut builder = Publishing::builder(journal);
    for ((name, _), caller) in TYPES.iter().zip(&callers) {
        builder = builder.pair(&topic, Arc::new(HandlerSink::new(*name, caller.clone())));
    }
    let publishing = builder.start().await.unwrap();
    let append = async |_| {
        journal.append([Fact::builder(("moved", "{}")).build().unwrap()]).await.unwrap();
    };
    let (written, firsts) = endure(&mut target, &callers, append).await;
    publishing.close().await;
    for (caller, first) in callers.iter().zip(firsts) {
        let (looks, seen) = (caller.looks(), caller.seen().clone());
        assert!(seen.positions.is_sorted(), "{looks:?}: in order");
        // A pair counts the tries of the one fact that it waits at.
        let tries = seen.failures;
        Account { who: &"Publisher", looks, seen, first }.judge(written, tries);
    }
    assert_eq!(publishing.statistics().parked, 0);
}
