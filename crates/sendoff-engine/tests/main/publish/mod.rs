//! Publishing, over the journal in memory and on paused time.

mod leading;
mod operating;
mod poison;

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::Delivery;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_core::journal::{Fact, Position, Topic};
use sendoff_engine::journal::publish::{
    Cursor, HandlerPublisher, LogPublisher, Mode, PairOptions, PublishConfigError, PublishOptions,
    Publishing, Start, StatisticsPublisher, Which,
};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;

use crate::SECOND;

pub(crate) type Log = Journal<MemoryJournal>;

pub(crate) const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn journal() -> Log {
    Journal::new(MemoryJournal::new())
}

pub(crate) fn everything() -> Topic {
    Topic::builder("everything").build().unwrap()
}

pub(crate) fn pair(publisher: &str) -> PairId {
    PairId::new("everything", publisher).unwrap()
}

/// Appends so many facts.
pub(crate) async fn append(journal: &Log, count: usize) {
    for number in 0..count {
        let fact = Fact::builder(("moved", "{}")).tag("wallet", number % 3).build().unwrap();
        journal.append([fact]).await.unwrap();
    }
}

pub(crate) async fn cursor(journal: &Log, publisher: &str) -> Cursor {
    let pair = Which::pair(&pair(publisher));
    journal.publishers().cursors(&pair).await.unwrap().remove(0)
}

/// Waits until a cursor is somewhere.
pub(crate) async fn stored(journal: &Log, publisher: &str, position: u64) {
    let what = format!("{publisher} at {position}");
    within(2 * MINUTE, &what, async || cursor(journal, publisher).await.position.get() == position)
        .await;
}

/// A node with one pair over everything.
pub(crate) async fn node(journal: &Log, latch: &Latch, options: PairOptions) -> Publishing {
    Publishing::builder(journal)
        .pair_with(&everything(), latch.publisher(), options)
        .start()
        .await
        .unwrap()
}

/// Holds J3, J4, J5 and J6.
#[tokio::test(start_paused = true)]
async fn each_pair_gets_what_its_topic_selects_in_order() {
    let journal = journal();
    append(&journal, 250).await;
    let wallet = Topic::builder("first").exact_tags(["wallet=1".parse().unwrap()]).build().unwrap();
    let (all, one, counted) =
        (Latch::new("all"), Latch::new("one"), StatisticsPublisher::default());
    let handled = Arc::new(std::sync::Mutex::new(Vec::new()));
    let handler = {
        let handled = Arc::clone(&handled);
        move |delivery: Delivery| {
            handled.lock().unwrap().push(delivery.id());
            async { Ok(()) }
        }
    };
    let node = Publishing::builder(&journal)
        .pair(&everything(), all.publisher())
        .pair(&wallet, one.publisher())
        .pair(&everything(), Arc::new(counted.clone()))
        .pair(&everything(), Arc::new(LogPublisher::default()))
        .pair(&wallet, Arc::new(HandlerPublisher::new("handler", handler)))
        .start()
        .await
        .unwrap();
    all.wait_for(250).await;
    stored(&journal, "all", 250).await;
    assert_eq!(all.positions(), (1..=250).collect::<Vec<_>>());
    assert_eq!(all.batches(), 3, "of a hundred at most");
    one.wait_for(83).await;
    assert_eq!(one.positions(), (1..=250).filter(|n| n % 3 == 2).collect::<Vec<_>>());
    within(MINUTE, "statistics", async || counted.seen().facts == 250).await;
    assert_eq!(counted.seen().by_type["moved"], 250);
    within(MINUTE, "the handler", async || handled.lock().unwrap().len() == 83).await;
    // What is new comes at once, not with the next interval.
    let before = tokio::time::Instant::now();
    append(&journal, 1).await;
    all.wait_for(251).await;
    assert_eq!(before.elapsed(), Duration::ZERO);
    assert_eq!(node.statistics().published.by_type["moved"], 251 * 3 + 83 * 2);
    node.close().await;
    let cursors = journal.publishers().cursors(&Which::all()).await.unwrap();
    // Also what was not for a pair is behind it.
    assert!(cursors.iter().all(|c| c.position.get() == 251 && c.leader.is_none()), "{cursors:?}");
}

/// Holds J7: an interval of its own, and one at a time where it asks for that.
#[tokio::test(start_paused = true)]
async fn a_pair_has_its_own_interval_and_mode() {
    let (journal, latch) = (journal(), Latch::new("slow"));
    append(&journal, 3).await;
    let options = PairOptions {
        interval: 10 * SECOND,
        eager: false,
        mode: Mode::Single,
        start: Start::After(Position::new(1).unwrap()),
        ..PairOptions::default()
    };
    let node = node(&journal, &latch, options).await;
    latch.wait_for(2).await;
    assert_eq!((latch.positions(), latch.batches()), (vec![2, 3], 2));
    tokio::time::sleep(15 * SECOND).await;
    let before = tokio::time::Instant::now();
    append(&journal, 1).await;
    latch.wait_for(3).await;
    let waited = before.elapsed();
    assert!(waited > SECOND && waited <= 10 * SECOND, "{waited:?}");
    node.close().await;
}

/// One that begins now gets nothing of before.
#[tokio::test(start_paused = true)]
async fn a_pair_can_begin_now() {
    let (journal, latch) = (journal(), Latch::new("now"));
    append(&journal, 20).await;
    let options = PairOptions { start: Start::Now, ..PairOptions::default() };
    let node = node(&journal, &latch, options).await;
    append(&journal, 1).await;
    latch.wait_for(1).await;
    assert_eq!(latch.positions(), [21]);
    node.close().await;
}

/// A pair that lags reads for itself, and rejoins.
#[tokio::test(start_paused = true)]
async fn a_pair_behind_the_window_reads_for_itself_and_rejoins() {
    let (journal, quick, slow) = (journal(), Latch::new("quick"), Latch::new("slow"));
    append(&journal, 500).await;
    slow.set_healthy(false);
    let options = PublishOptions { window_rows: 50, ..PublishOptions::default() };
    let small = PairOptions { batch: 7, ..PairOptions::default() };
    let node = Publishing::builder(&journal)
        .options(options)
        .pair_with(&everything(), quick.publisher(), small.clone())
        .pair_with(&everything(), slow.publisher(), small)
        .start()
        .await
        .unwrap();
    quick.wait_for(500).await;
    append(&journal, 300).await;
    quick.wait_for(800).await;
    assert_eq!(slow.positions(), [0; 0]);
    slow.set_healthy(true);
    slow.wait_for(800).await;
    append(&journal, 10).await;
    slow.wait_for(810).await;
    let all: Vec<_> = (1..=810).collect();
    assert_eq!((quick.positions(), slow.positions()), (all.clone(), all));
    node.close().await;
}

/// Holds J12.
#[tokio::test(start_paused = true)]
async fn a_thousand_pairs_work_on_one_node() {
    let journal = journal();
    let latches: Vec<_> = (0..1_000).map(|number| Latch::new(format!("p{number}"))).collect();
    let mut builder = Publishing::builder(&journal);
    for latch in &latches {
        builder = builder.pair(&everything(), latch.publisher());
    }
    let node = builder.start().await.unwrap();
    append(&journal, 20).await;
    for latch in &latches {
        latch.wait_for(20).await;
        assert_eq!(latch.positions(), (1..=20).collect::<Vec<_>>());
    }
    within(MINUTE, "all are led", async || node.statistics().leading == 1_000).await;
    node.close().await;
    let cursors = journal.publishers().cursors(&Which::all()).await.unwrap();
    assert!(cursors.iter().all(|c| c.position.get() == 20 && c.status == CursorStatus::Active));
}

#[tokio::test]
async fn what_cannot_work_is_refused_by_name() {
    let journal = journal();
    let latch = Latch::new("twice");
    let twice = Publishing::builder(&journal)
        .pair(&everything(), latch.publisher())
        .pair(&everything(), latch.publisher())
        .start()
        .await;
    assert!(matches!(twice, Err(PublishConfigError::SamePair(_))), "{twice:?}");
    let nothing = Publishing::builder(&journal).start().await;
    assert!(matches!(nothing, Err(PublishConfigError::Pairs { count: 0, .. })), "{nothing:?}");
    let options = PublishOptions { lease: SECOND, ..PublishOptions::default() };
    let builder = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let short = builder.options(options).start().await;
    assert!(matches!(short, Err(PublishConfigError::Option { field: "lease", .. })), "{short:?}");
}
