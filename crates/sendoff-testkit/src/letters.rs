//! Operators at work on dead letters, while nodes deliver: on every store.
//!
//! What a store does with one letter is for the [conformance suite](crate::conformance); here it is about
//! sweeps, which a person starts and has to be able to believe.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a store that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::future::join;
use sendoff_core::order::Ending;
use sendoff_core::{
    AuditNote, Delivery, Event, EventId, Failure, LetterAct, LetterFate, LetterFilter, LetterOrder,
};
use sendoff_engine::store::{
    Claim, ClaimStore, Except, HeldKey, InspectStore, KeyStore, NewRow, Outcome, RunEnd,
    SettleStore, Settlement, Suspects, TakeKeys, TakenKey, WalkFrom,
};
use sendoff_engine::{
    CircuitOptions, DeadLetters, Handler, HandlerOptions, HandlerResult, Outbox, OutboxOptions,
    SweepOptions, Swept,
};

use crate::conformance::StoreHarness;
use crate::steps::due;
use crate::wait::within;

/// Rows that are written, or killed, at once.
const AT_ONCE: usize = 1_000;

/// A store that several can work with.
pub trait Shared: StoreHarness<Store: Clone> {}

impl<H: StoreHarness<Store: Clone>> Shared for H {}

fn note(actor: &str) -> AuditNote {
    AuditNote::new(actor, "the cause is mended, so they say").unwrap()
}

fn letters<H: Shared>(harness: &H) -> DeadLetters {
    DeadLetters::new(Arc::new(harness.store().clone()))
}

/// Writes so many events of this type and lets them die.
async fn dead<H: Shared>(harness: &H, event_type: &str, count: usize) -> Vec<EventId> {
    let mut ids = Vec::with_capacity(count);
    while ids.len() < count {
        let some = AT_ONCE.min(count - ids.len());
        let event = |_| due(Event::json_text(event_type, "{}").unwrap());
        let rows: Vec<NewRow> = (0..some).map(event).collect();
        harness.commit(&rows).await.unwrap();
        ids.extend(rows.iter().map(|row| row.event.id()));
        let claim = Claim::new("undertaker", some, Duration::from_secs(60));
        let claimed = harness.store().claim(&claim).await.unwrap().rows;
        let outcome = Outcome::dead(10, "it is no use");
        let end = |held| Settlement { held, outcome: outcome.clone() };
        let batch: Vec<_> = claimed.iter().map(|row| end(row.held())).collect();
        assert_eq!(harness.store().settle(&batch).await.unwrap().applied.len(), some);
    }
    ids
}

/// An event that is dead and parks its key, and the one that waits for it.
type Pair = [EventId; 2];

/// Writes two events of each of so many keys, and lets the first one die.
async fn parked<H: Shared>(harness: &H, event_type: &str, count: usize) -> Vec<Pair> {
    let mut pairs: Vec<Pair> = Vec::with_capacity(count);
    let mut after = 0;
    while pairs.len() < count {
        let some = (AT_ONCE / 2).min(count - pairs.len());
        let key = |number: usize| format!("key {number}");
        let event = |number| {
            let event = Event::builder(event_type).ordering_key(key(number / 2)).json_text("{}");
            due(event.build().unwrap())
        };
        let first = 2 * pairs.len();
        let rows: Vec<NewRow> = (first..first + 2 * some).map(event).collect();
        harness.commit(&rows).await.unwrap();
        let ids: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
        let heads: HashMap<_, _> =
            (pairs.len()..).map(key).zip(ids.iter().step_by(2).copied()).collect();
        pairs.extend(ids.chunks(2).map(|pair| [pair[0], pair[1]]));
        // A look walks so many entries at most, and what an entry is, is the store's own.
        let mut left = some;
        while left > 0 {
            let take = TakeKeys {
                owner: "undertaker",
                limit: left,
                run: 1,
                hold: Duration::from_secs(60),
                except: Except::NOTHING,
                suspects: Suspects::Skip,
                walk: Some(WalkFrom { after, rows: AT_ONCE }),
            };
            let taken = harness.store().take_keys(&take).await.unwrap();
            assert!(!taken.keys.is_empty(), "{left} keys of {some} are not found");
            left -= taken.keys.len();
            after = taken.walked.and_then(|walked| walked.last).unwrap();
            let end = |key: &TakenKey| RunEnd {
                held: HeldKey { key: key.key.clone(), token: key.token },
                rows: vec![(heads[&*key.key], Outcome::dead(10, "it is no use"))],
                ending: Ending::Free,
            };
            let ends: Vec<_> = taken.keys.iter().map(end).collect();
            let settled = harness.store().settle_runs("undertaker", &ends).await.unwrap();
            assert_eq!(settled.applied.len(), ends.len());
        }
    }
    pairs
}

/// A handler that fails until it is mended, and sees who is at work.
#[derive(Clone, Default)]
struct Failing {
    runs: Arc<Mutex<Runs>>,
    mended: Arc<AtomicBool>,
}

#[derive(Default)]
struct Runs {
    now: HashSet<EventId>,
    each: HashMap<EventId, u64>,
    together: Vec<EventId>,
    /// How many runs had begun when the last one of an event did.
    begun: HashMap<EventId, u64>,
    /// And when it had ended well.
    well: HashMap<EventId, u64>,
    count: u64,
}

impl Failing {
    fn runs<T>(&self, look: impl FnOnce(&mut Runs) -> T) -> T {
        look(&mut self.runs.lock().unwrap())
    }
}

impl Handler for Failing {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        let id = delivery.id();
        self.runs(|runs| {
            if !runs.now.insert(id) {
                runs.together.push(id);
            }
            *runs.each.entry(id).or_default() += 1;
            runs.begun.insert(id, runs.count);
            runs.count += 1;
        });
        tokio::task::yield_now().await;
        let mended = self.mended.load(Ordering::Relaxed);
        self.runs(|runs| {
            runs.now.remove(&id);
            if mended {
                runs.well.insert(id, runs.count);
            }
        });
        if mended { Ok(()) } else { Err(Failure::dead("it still is no use")) }
    }
}

/// A node on which everything fails.
async fn failing_node<H: Shared>(harness: &H, handler: &Failing) -> Outbox<H::Store> {
    let options = OutboxOptions {
        poll_interval: Duration::from_millis(20),
        // An outage is not what this is about.
        handler: HandlerOptions { circuit: CircuitOptions::off(), ..HandlerOptions::default() },
        ..OutboxOptions::default()
    };
    let builder = Outbox::builder(harness.store().clone()).options(options);
    builder.on("mail.wanted", handler.clone()).start().await.unwrap()
}

/// Requeues so many letters while every node still fails: it ends, says how far it is, does each once,
/// and what died again is left for the next.
pub async fn a_sweep_ends_while_handlers_still_fail<H: Shared>(harness: &H, count: usize) {
    let ids = dead(harness, "mail.wanted", count).await;
    let others = dead(harness, "other", 3).await;
    let failing = Failing::default();
    let nodes = [failing_node(harness, &failing).await, failing_node(harness, &failing).await];
    let said: Arc<Mutex<Vec<Swept>>> = Arc::default();
    let filter = LetterFilter { event_type: Some("mail.wanted".into()), ..LetterFilter::default() };
    let sweep = letters(harness)
        .sweep(LetterAct::Requeue, filter.clone(), note("ada"), SweepOptions::default())
        .unwrap()
        .on_progress({
            let said = Arc::clone(&said);
            move |swept| said.lock().unwrap().push(*swept)
        });
    let found = sweep.dry_run_up_to(count as u64).await.unwrap();
    assert_eq!((found.counted(), found.is_exact()), (count as u64, true));
    let time = Duration::from_secs(60 + count as u64 / 200);
    let swept = tokio::time::timeout(time, sweep.run()).await.expect("it ends").unwrap();
    assert!(swept.finished, "{swept:?}");
    assert_eq!((swept.done, swept.busy, swept.passed), (count as u64, 0, 0), "{swept:?}");
    let said = said.lock().unwrap().clone();
    assert_eq!(said.len(), count.div_ceil(500));
    assert!(said.is_sorted_by(|a, b| a.done < b.done), "it says how far it is");

    let letters = letters(harness);
    let all_dead = async || {
        let dead = letters.count_up_to(&filter, 2 * count as u64).await.unwrap();
        failing.runs(|runs| runs.each.len() == count && runs.now.is_empty())
            && dead.counted() == count as u64
    };
    within(time, "all of them to die again", all_dead).await;
    for node in &nodes {
        node.close().await;
    }
    failing.runs(|runs| {
        assert!(runs.together.is_empty(), "twice in work: {:?}", runs.together);
        assert!(ids.iter().all(|id| runs.each.get(id) == Some(&1)), "each was tried once");
    });
    let row = harness.store().find(others[0]).await.unwrap().unwrap();
    assert_eq!(row.attempts, 10, "what was not meant is as it was");
    let audit = letters.audit(Some(ids[0]), None, 9).await.unwrap().entries;
    assert_eq!(audit.len(), 1, "{audit:?}");
}

/// Requeues the dead events of so many keys while every node still fails: it ends and says how far it is, no event
/// is in work twice, and what waits for a dead one goes on waiting. When the cause is mended, all are delivered, each
/// key in its order.
pub async fn a_sweep_keeps_the_order_of_keys<H: Shared>(harness: &H, count: usize) {
    let pairs = parked(harness, "mail.wanted", count).await;
    let failing = Failing::default();
    let nodes = [failing_node(harness, &failing).await, failing_node(harness, &failing).await];
    let letters = letters(harness);
    let said: Arc<Mutex<Vec<u64>>> = Arc::default();
    let sweep = || {
        let (all, options) = (LetterFilter::default(), SweepOptions::default());
        let said = Arc::clone(&said);
        let sweep = letters.sweep(LetterAct::Requeue, all, note("ada"), options).unwrap();
        sweep.on_progress(move |swept| said.lock().unwrap().push(swept.done))
    };
    let time = Duration::from_secs(60 + count as u64 / 100);
    let swept = tokio::time::timeout(time, sweep().run()).await.expect("it ends").unwrap();
    // Somebody may have been taking a key's rows out of the way of walks just then.
    assert_eq!(swept.done + swept.busy, count as u64, "{swept:?}");
    assert!(swept.finished && swept.busy <= count as u64 / 10, "{swept:?}");
    let said = said.lock().unwrap().clone();
    assert!(said.len() >= count.div_ceil(500) && said.is_sorted(), "it says how far it is");

    let all_dead = async || {
        let dead = letters.count_up_to(&LetterFilter::default(), 2 * count as u64).await.unwrap();
        failing.runs(|runs| runs.each.len() as u64 == swept.done && runs.now.is_empty())
            && dead.counted() == count as u64
    };
    within(time, "all of them to die again", all_dead).await;
    failing.runs(|runs| {
        assert!(runs.together.is_empty(), "twice in work: {:?}", runs.together);
        assert!(runs.each.values().all(|tries| *tries == 1), "each was tried once");
        let early = pairs.iter().filter(|[_, waits]| runs.each.contains_key(waits)).count();
        assert_eq!(early, 0, "begun although the one before is dead");
    });

    failing.mended.store(true, Ordering::Relaxed);
    let none_left = async || {
        sweep().run().await.unwrap();
        letters.count(&LetterFilter::default()).await.unwrap().counted() == 0
    };
    within(time, "all of them to be requeued", none_left).await;
    let delivered = async || failing.runs(|runs| runs.well.len() == 2 * count);
    within(time, "all of them to be delivered", delivered).await;
    for node in &nodes {
        node.close().await;
    }
    failing.runs(|runs| {
        assert!(runs.together.is_empty(), "twice in work: {:?}", runs.together);
        for [first, waits] in &pairs {
            assert!(runs.well[first] <= runs.begun[waits], "{waits} began before {first} was over");
            assert_eq!(runs.each[waits], 1);
        }
    });
    assert_eq!(harness.store().counts().await.unwrap().pending(), 0);
}

/// Two operators requeue the same letters at once: each letter once, and both are told the truth.
pub async fn two_operators_share_what_they_requeue<H: Shared>(harness: &H) {
    const LETTERS: usize = 1_000;
    let ids = dead(harness, "mail.wanted", LETTERS).await;
    let operator = async |actor: &str| {
        let options = SweepOptions { batch: 100, ..SweepOptions::default() };
        let sweep = letters(harness).sweep(
            LetterAct::Requeue,
            LetterFilter::default(),
            note(actor),
            options,
        );
        sweep.unwrap().run().await.unwrap()
    };
    let (ada, bob) = join(operator("ada"), operator("bob")).await;
    let letters = letters(harness);
    assert!(ada.finished && bob.finished, "{ada:?} {bob:?}");
    let left = letters.count(&LetterFilter::default()).await.unwrap().counted();
    assert_eq!(ada.done + bob.done + left, LETTERS as u64, "{ada:?} {bob:?}");
    assert!(left <= ada.busy.min(bob.busy), "who passed one by said that it was busy");
    let mut requeued: HashMap<String, HashSet<EventId>> = HashMap::new();
    let mut before = None;
    loop {
        let page = letters.audit(None, before, 300).await.unwrap();
        for entry in page.entries {
            requeued.entry(entry.actor).or_default().insert(entry.event.unwrap());
        }
        before = page.next;
        if before.is_none() {
            break;
        }
    }
    let of = |actor: &str| requeued.get(actor).cloned().unwrap_or_default();
    assert_eq!((of("ada").len(), of("bob").len()), (ada.done as usize, bob.done as usize));
    assert!(of("ada").is_disjoint(&of("bob")), "each letter once");

    // By id, of those that are left to nobody.
    let again = letters.requeue(&ids[..100], &note("eve")).await.unwrap();
    let told: HashSet<_> = again.iter().map(|(_, fate)| fate).collect();
    assert!(!told.contains(&LetterFate::NotFound) && !told.contains(&LetterFate::Busy), "{told:?}");
}

/// Letters that somebody has locked are left and counted, and keep no other from being discarded.
pub async fn a_sweep_leaves_what_somebody_has_locked<H: Shared>(harness: &H) {
    let ids = dead(harness, "mail.wanted", 5).await;
    let Some(lock) = harness.lock_row(ids[2]).await else { return };
    let options = SweepOptions { batch: 2, ..SweepOptions::default() };
    let letters = letters(harness);
    let discard = || {
        let (all, options) = (LetterFilter::default(), options.clone());
        letters.sweep(LetterAct::Discard, all, note("ada"), options).unwrap()
    };
    let swept = discard().run().await.unwrap();
    assert_eq!((swept.done, swept.busy, swept.finished), (4, 1, true), "{swept:?}");
    lock.release().await;
    let order = LetterOrder::NewestFirst;
    let left = letters.list(&LetterFilter::default(), order, None, 9).await.unwrap();
    assert_eq!(left.letters.iter().map(|letter| letter.id).collect::<Vec<_>>(), [ids[2]]);
    assert_eq!(discard().run().await.unwrap().done, 1);
}

/// Makes a test of each case but the long one. The expression makes a fresh harness; it may await.
#[macro_export]
macro_rules! letters_suite {
    ($harness:expr) => {
        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn two_operators_share_what_they_requeue() {
            $crate::letters::two_operators_share_what_they_requeue(&$harness).await;
        }

        #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
        async fn a_sweep_leaves_what_somebody_has_locked() {
            $crate::letters::a_sweep_leaves_what_somebody_has_locked(&$harness).await;
        }
    };
}

/// How many letters a soak requeues; a few thousand in a test of every day.
pub fn soaked() -> usize {
    usize::try_from(crate::soak::amount(2_000, 100_000)).unwrap_or(usize::MAX)
}
