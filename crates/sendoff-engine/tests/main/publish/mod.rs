//! Publishing on paused time. What any store does is in `sendoff_testkit::journal::publish`; here is
//! what takes hours, and what no store has a part in.

mod attacked;
mod failing;
mod idle;
mod lagging;
mod leading;
mod logs;
mod lost;
mod operated;
mod outage;
mod settle_in;
mod shaky;

use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::NodeOptions;
use sendoff_engine::journal::publish::{
    Cursor, PairOptions, ParkedOptions, PublishOptions, PublishOptionsError, Publishing, Which,
};
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;

pub(crate) use self::shaky::{Call, Shaky};
use crate::SECOND;

pub(crate) type Log = Journal<MemoryJournal>;

const MINUTE: Duration = Duration::from_secs(60);

pub(crate) fn journal() -> Log {
    Journal::new(MemoryJournal::new())
}

pub(crate) fn everything() -> Topic {
    Topic::builder("everything").build().unwrap()
}

/// Appends so many facts.
async fn append(journal: &Log, count: usize) {
    for _ in 0..count {
        journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
    }
}

pub(crate) async fn cursor(journal: &Log, publisher: &str) -> Cursor {
    let pair = Which::pair(&PairId::new("everything", publisher).unwrap());
    journal.publishers().cursors(&pair).await.unwrap().remove(0)
}

/// Waits until a cursor is somewhere.
async fn stored(journal: &Log, publisher: &str, position: u64) {
    let what = format!("{publisher} at {position}");
    within(2 * MINUTE, &what, async || cursor(journal, publisher).await.position.get() == position)
        .await;
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
    assert!(matches!(twice, Err(PublishOptionsError::SamePair(_))), "{twice:?}");
    let nothing = Publishing::builder(&journal).start().await;
    assert!(matches!(nothing, Err(PublishOptionsError::Pairs { count: 0, .. })), "{nothing:?}");
    let options = PublishOptions { lease: SECOND, ..PublishOptions::default() };
    let builder = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let short = builder.options(options).start().await;
    assert_eq!(short.unwrap_err().to_string(), "lease is 1s; it must be from 2s to 600s");
    let options = PublishOptions {
        node: NodeOptions { store_timeout: Some(6 * SECOND), ..NodeOptions::default() },
        ..PublishOptions::default()
    };
    let builder = Publishing::builder(&journal).pair(&everything(), latch.publisher());
    let slow = builder.options(options).start().await.unwrap_err();
    assert_eq!(slow.to_string(), "node.store_timeout is 6s; it must be from 1ms to 5s");
    for (batch, fine) in [(0, false), (1, true), (1_000, true), (1_001, false)] {
        let options = PairOptions { batch, ..PairOptions::default() };
        let builder = Publishing::builder(&journal);
        let started = builder.pair_with(&everything(), latch.publisher(), options).start().await;
        assert_eq!(started.is_ok(), fine, "{batch}: {started:?}");
    }
    let parked = ParkedOptions { in_a_row: 0, ..ParkedOptions::default() };
    let options = PairOptions { parked, ..PairOptions::default() };
    let builder = Publishing::builder(&journal);
    let none = builder.pair_with(&everything(), latch.publisher(), options).start().await;
    assert_eq!(
        none.unwrap_err().to_string(),
        "(everything:twice).parked.in_a_row is 0; it must be from 1 to 1000000"
    );
}
