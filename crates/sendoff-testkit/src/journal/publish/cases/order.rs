//! Publishing in the order of positions, across nodes that come and go.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use sendoff_core::Delivery;
use sendoff_core::journal::{Append, Fact, Position, Query, Topic};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{
    PairOptions, PublishOptions, PublishStore, Publishing, Start, Which,
};
use sendoff_engine::sink::BatchSink;

use super::{HOUR, pair, position};
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use super::{
    append, builder, cursor, everything, mortal, node, numbers, often, quick, stored, watched,
};
use crate::history::{Fault, FaultKind, LogHistory};
use crate::journal::{Ending, JournalHarness, Latch, PublishHarness};
use crate::wait::eventually;

const WRITERS: usize = 4;

/// What writers did.
#[derive(Default)]
struct Written {
    committed: Vec<Fact>,
    rolled_back: Vec<Fact>,
}

/// Writers that are slow, that roll back, and that overtake one another, until they are told to stop.
struct Writers {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Written>>,
}

impl Writers {
    fn start(harness: &Arc<impl JournalHarness>) -> Self {
        let stop = Arc::<AtomicBool>::default();
        let start = |_| tokio::spawn(write(Arc::clone(harness), Arc::clone(&stop)));
        Self { tasks: (0..WRITERS).map(start).collect(), stop }
    }

    /// When there is something to judge.
    async fn stop(self, latches: &BTreeMap<&str, (Topic, Latch)>) -> Vec<Written> {
        let enough = async || latches.values().all(|(_, latch)| latch.distinct().len() > 20);
        eventually("enough is published", enough).await;
        self.stop.store(true, Ordering::Relaxed);
        let mut written = Vec::new();
        for task in self.tasks {
            written.push(task.await.unwrap());
        }
        written
    }
}

async fn write(harness: Arc<impl JournalHarness>, stop: Arc<AtomicBool>) -> Written {
    let mut written = Written::default();
    for round in 0_usize.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let number = fastrand::usize(..20);
        let facts: Vec<_> = (0..fastrand::usize(1..4)).map(|_| super::fact(number)).collect();
        let ending = if round % 5 == 4 { Ending::RollBack } else { Ending::Commit };
        let open = Duration::from_micros(fastrand::u64(..20_000));
        let append = Append::new(facts.clone(), None).unwrap();
        harness.append_in(&append, open, ending).await.unwrap();
        match ending {
            Ending::Commit => written.committed.extend(facts),
            Ending::RollBack => written.rolled_back.extend(facts),
        }
    }
    written
}

/// Four pairs, two for everything and two for a third of it.
fn readers() -> Vec<(&'static str, Topic)> {
    let wallet =
        |name| Topic::builder(name).exact_tags(["wallet=1".parse().unwrap()]).build().unwrap();
    vec![("a", everything()), ("b", everything()), ("c", wallet("c")), ("d", wallet("d"))]
}

async fn start<S: PublishStore>(
    journal: &Journal<S>,
    latches: &BTreeMap<&str, (Topic, Latch)>,
    name: &str,
) -> Publishing {
    let pairs = latches.values().fold(builder(journal), |builder, (topic, latch)| {
        builder.pair_with(topic, latch.on(name), often())
    });
    pairs.start().await.unwrap()
}

/// Waits until every pair is at the journal's end, and puts down what was written.
async fn judge<S: PublishStore>(
    journal: &Journal<S>,
    history: &LogHistory,
    written: impl IntoIterator<Item = Written>,
) {
    let recorded: Vec<_> = journal.read(Query::all(), Position::START).try_collect().await.unwrap();
    let places: BTreeMap<_, _> =
        recorded.iter().map(|fact| (fact.fact.id(), fact.position)).collect();
    let mut count = 0;
    for Written { committed, rolled_back } in written {
        for fact in &committed {
            history.recorded(fact, *places.get(&fact.id()).expect("it was committed"));
        }
        count += committed.len();
        rolled_back.iter().for_each(|fact| history.rolled_back(fact));
    }
    assert_eq!(count, recorded.len(), "and nothing else is there");
    for (reader, verdict) in history.verdicts() {
        assert!(verdict.is_clean(), "{reader}: {verdict}");
        assert!(verdict.delivered > 10 && verdict.rolled_back > 0, "{reader}: {verdict}");
    }
}

/// Waits until every pair has passed everything there is.
async fn passed<S: PublishStore>(journal: &Journal<S>, latches: &BTreeMap<&str, (Topic, Latch)>) {
    let facts: Vec<_> = journal.read(Query::all(), Position::START).try_collect().await.unwrap();
    for (topic, latch) in latches.values() {
        let last = facts.iter().filter(|fact| topic.selects(&fact.fact)).map(|fact| fact.position);
        let last = last.max().expect("it selects something");
        let there = async || latch.distinct().contains(&last);
        eventually("the last fact", there).await;
    }
}

/// A latch for each reader, and what all of them get.
fn recording() -> (LogHistory, BTreeMap<&'static str, (Topic, Latch)>) {
    let history = LogHistory::of(readers());
    let latch = |(name, topic)| (name, (topic, Latch::recording(name, &history)));
    let latches = readers().into_iter().map(latch).collect();
    (history, latches)
}

/// Holds J3, J6, J8, J12 and G4: beside writers that overtake one another, nodes share the pairs and hand
/// them over, and everything is published once and in order.
pub async fn everything_is_published_once_and_in_order_while_nodes_come_and_go(
    harness: impl PublishHarness,
) {
    let harness = Arc::new(harness);
    let (history, latches) = recording();
    let writers = Writers::start(&harness);
    let journal = harness.journal();
    let first = start(journal, &latches, "first").await;
    let leads = |node: &Publishing, pairs| node.statistics().leading == pairs;
    eventually("the first leads all", async || leads(&first, 4)).await;
    let elsewhere = harness.elsewhere().await;
    let second = start(&elsewhere, &latches, "second").await;
    let shared = async || leads(&first, 2) && leads(&second, 2);
    eventually("both lead two", shared).await;
    first.close().await;
    eventually("the second leads all", async || leads(&second, 4)).await;
    let third = start(journal, &latches, "third").await;
    eventually("it leads some", async || third.statistics().leading > 0).await;
    let written = writers.stop(&latches).await;
    passed(journal, &latches).await;
    third.close().await;
    second.close().await;
    assert_eq!((second.statistics().failovers, third.statistics().failovers), (0, 0));
    judge(journal, &history, written).await;
    let cursors = journal.publishers().cursors(&Which::all()).await.unwrap();
    assert!(cursors.iter().all(|cursor| cursor.leader.is_none()), "{cursors:?}");
    assert_eq!(journal.store().survey().await.unwrap().nodes, [], "they said goodbye");
}

/// Holds J6 and J8: nodes that die repeat a little, and neither lose nor disorder anything.
pub async fn nothing_is_lost_when_nodes_die(harness: impl PublishHarness) {
    let harness = Arc::new(harness);
    let (history, latches) = recording();
    let writers = Writers::start(&harness);
    let journal = harness.journal();
    for round in 0..3 {
        let name = format!("node-{round}");
        let pairs = latches.values().fold(builder(journal).options(mortal()), |builder, pair| {
            builder.pair_with(&pair.0, pair.1.on(&*name), often())
        });
        let node = pairs.start().await.unwrap();
        eventually("it leads all", async || node.statistics().leading == 4).await;
        let before = latches["a"].1.distinct().len();
        let more = async || latches["a"].1.distinct().len() > before + 10;
        if round < 2 {
            eventually("it publishes", more).await;
            latches.values().for_each(|(_, latch)| latch.kill(&*name));
            history.fault(&Fault::on(&*name, FaultKind::Crash));
            drop(node);
            continue;
        }
        assert_eq!(node.statistics().failovers, 4);
        eventually("it publishes", more).await;
        let written = writers.stop(&latches).await;
        passed(journal, &latches).await;
        node.close().await;
        judge(journal, &history, written).await;
        return;
    }
}

/// Holds J6 and J8: a server that lost its last commits gives their positions again, and what is recorded
/// there then is published.
pub async fn positions_that_are_given_again_are_published_again(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    append(journal, 10).await;
    let (node, rounds) = watched(journal, &[&latch]).await;
    stored(journal, "p", 10).await;
    harness.lose_after(position(6)).await;
    rounds.pass(&pair("p")).await;
    assert_eq!(cursor(journal, "p").await.position.get(), 6);
    append(journal, 3).await;
    latch.wait_for(13).await;
    assert_eq!(latch.positions()[10..], [7, 8, 9]);
    stored(journal, "p", 9).await;
    node.close().await;
}

/// Holds J8: a node that was not closed is followed by another, where the cursor is.
pub async fn who_follows_a_dead_node_goes_on_where_the_cursor_is(harness: impl PublishHarness) {
    let (journal, latch) = (harness.journal(), Latch::new("p"));
    append(journal, 10).await;
    let pair = builder(journal).options(mortal());
    let dead = pair.pair_with(&everything(), latch.publisher(), often()).start().await.unwrap();
    stored(journal, "p", 10).await;
    drop(dead);
    append(journal, 10).await;
    let node = node(&harness.elsewhere().await, &[&latch]).await;
    stored(journal, "p", 20).await;
    assert_eq!(latch.positions(), numbers(1..=20));
    assert_eq!(node.statistics().failovers, 1);
    node.close().await;
}

/// Holds J3 and J6: whatever has to be read again, a publisher that is busy holds no other back, and what it
/// was given before does not count.
pub async fn a_busy_publisher_holds_no_other_back_when_positions_go_back(
    harness: impl PublishHarness,
) {
    let journal = harness.journal();
    let (quick_latch, busy_latch) = (Latch::new("quick"), Latch::new("busy"));
    let gate = Arc::new(Semaphore::new(0));
    let busy = {
        let (gate, latch) = (Arc::clone(&gate), busy_latch.clone());
        BatchSink::new("busy", move |deliveries: Vec<Delivery>| {
            let (gate, latch) = (Arc::clone(&gate), latch.clone());
            async move {
                let _open = gate.acquire().await?;
                latch.take(&deliveries).await
            }
        })
    };
    append(journal, 10).await;
    let node = builder(journal)
        .pair_with(&everything(), Arc::new(busy), PairOptions { publish_timeout: HOUR, ..often() })
        .pair_with(&everything(), quick_latch.publisher(), often())
        .start()
        .await
        .unwrap();
    stored(journal, "quick", 10).await;
    harness.lose_after(position(6)).await;
    append(journal, 3).await;
    quick_latch.wait_for(13).await;
    assert_eq!(quick_latch.positions()[10..], [7, 8, 9]);
    gate.add_permits(1);
    // The facts that are lost, and then those that are there.
    busy_latch.wait_for(19).await;
    assert_eq!(busy_latch.positions(), numbers((1..=10).chain(1..=9)));
    stored(journal, "busy", 9).await;
    node.close().await;
}

/// Holds J6: also for a pair that lags before gaps, beside one that somebody put ahead of them, and of
/// an append that is open at a lower position.
pub async fn gaps_far_from_the_end_hide_nothing(harness: impl PublishHarness) {
    let journal = harness.journal();
    let (far, ahead) = (Latch::new("far"), Latch::new("ahead"));
    let one = |ending, open| {
        let facts = vec![Fact::builder(("moved", "{}")).build().unwrap()];
        let append = Append::new(facts, None).unwrap();
        let harness = &harness;
        async move { harness.append_in(&append, open, ending).await.unwrap() }
    };
    for _ in 0..3 {
        one(Ending::RollBack, Duration::ZERO).await;
        append(journal, 60).await;
    }
    let late = one(Ending::Commit, Duration::from_millis(500));
    let work = async {
        append(journal, 100).await;
        let start = PairOptions { start: Start::After(journal.head().await.unwrap()), ..often() };
        let options = PublishOptions { window_rows: 40, ..quick() };
        let node = builder(journal)
            .options(options)
            .pair_with(&everything(), far.publisher(), often())
            .pair_with(&everything(), ahead.publisher(), start);
        node.start().await.unwrap()
    };
    let (_, node) = tokio::join!(late, work);
    far.wait_for(281).await;
    let all: Vec<_> = journal.read(Query::all(), Position::START).try_collect().await.unwrap();
    let all: Vec<_> = all.iter().map(|fact| fact.position.get()).collect();
    assert_eq!(far.positions(), all);
    node.close().await;
}
