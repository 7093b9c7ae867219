//! What of a journal may go, and what stays.

use std::collections::BTreeSet;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_core::journal::retain::Ranges;
use sendoff_core::journal::{Position, Query};
use sendoff_engine::journal::publish::{
    Change, ChangeParked, Move, Moved, Park, ParkedChange, PublishStore, Seen, Which,
};
use sendoff_engine::journal::retain::{JournalMaintainer, RetainOptions, RetainReport, Retained};
use sendoff_engine::journal::{TailOptions, fold};
use sendoff_engine::lead::NodeCard;
use tokio_util::sync::CancellationToken;

use super::{fact, found, position, tagged};
use crate::journal::RetainHarness;

/// Partitions of ten positions, where there are some: whatever goes in these cases goes by tens.
const TENS: Ranges = Ranges {
    size: NonZeroU64::new(10).expect("it is not zero"),
    ahead: 2,
    most_moved: NonZeroU64::new(10).expect("it is not zero"),
};

fn options() -> RetainOptions {
    RetainOptions { ranges: TENS, batch: 7, ..RetainOptions::default() }
}

fn last(keep: u64) -> RetainOptions {
    RetainOptions { keep_last: Some(keep), ..options() }
}

fn maintainer(harness: &impl RetainHarness, options: RetainOptions) -> JournalMaintainer {
    JournalMaintainer::new(Arc::new(harness.journal().store().clone()), options).unwrap()
}

async fn retain(harness: &impl RetainHarness, options: RetainOptions) -> RetainReport {
    here(maintainer(harness, options).run_once().await.unwrap())
}

fn here(retained: Retained) -> RetainReport {
    match retained {
        Retained::Here(report) => report,
        Retained::Elsewhere => panic!("nobody else is at work"),
    }
}

fn pair(name: &str) -> PairId {
    PairId::new("topic", name).unwrap()
}

/// Puts a pair's cursor somewhere, whether it is there already or not.
async fn put_cursor(
    harness: &impl RetainHarness,
    pair: &PairId,
    position: Position,
    status: CursorStatus,
) {
    let (store, which) = (harness.journal().store(), Which::pair(pair));
    store.register(&[(pair.clone(), position)]).await.unwrap();
    store.change(&which, Change::MoveTo(position)).await.unwrap();
    store.change(&which, Change::Reset).await.unwrap();
    match status {
        CursorStatus::Active => {}
        CursorStatus::Paused => drop(store.change(&which, Change::Pause).await.unwrap()),
        CursorStatus::Failed => stay(harness, pair, true, None).await,
    }
}

async fn set_aside(harness: &impl RetainHarness, pair: &PairId, position: u64) {
    stay(harness, pair, false, Some(super::position(position))).await;
}

async fn settle(harness: &impl RetainHarness, pair: &PairId, position: u64) {
    let position = Some(super::position(position));
    let store = harness.journal().store();
    let (which, change) = (&Which::pair(pair), ParkedChange::Discard);
    store.change_parked(ChangeParked { which, position, change }).await.unwrap();
}

/// Stays where it is, as FAILED or with something parked, as whoever leads the pair would have it.
async fn stay(harness: &impl RetainHarness, pair: &PairId, fails: bool, parked: Option<Position>) {
    let (store, pair) = (harness.journal().store(), Arc::new(pair.clone()));
    let card = NodeCard {
        owner: Arc::from("test"),
        knows: BTreeSet::new(),
        renew: Duration::from_secs(1),
        lease: Duration::from_secs(3),
    };
    let member = store.join(&card).await.unwrap();
    let cursors = store.survey().await.unwrap().cursors;
    let cursor = cursors.iter().find(|cursor| cursor.pair == *pair).unwrap();
    let (leader, epoch) = (cursor.leader.clone(), cursor.epoch);
    let taken = store.take("test", &[Seen { pair: Arc::clone(&pair), leader, epoch }]).await;
    let epoch = taken.unwrap()[0].epoch;
    let park = |position| Park { position, attempts: 1, delay: Duration::ZERO, error: "no".into() };
    let next = Move {
        pair: Arc::clone(&pair),
        epoch,
        from: cursor.position,
        to: cursor.position,
        published: false,
        errors: 1,
        last_error: None,
        waits_at: None,
        fails,
        parked: parked.map(park).into_iter().collect(),
    };
    let moved = store.advance("test", &[next]).await.unwrap();
    assert!(matches!(moved[..], [Moved::Made(_)]));
    store.give("test", &[(pair, epoch)]).await.unwrap();
    member.leave().await.unwrap();
}

/// Forty facts, at the positions 1 to 40; every second has a tag that the others have not.
async fn forty(harness: &impl RetainHarness) {
    for number in 1..=40 {
        let tags = [format!("n={number}"), format!("odd={}", number % 2)];
        let tags: Vec<_> = tags.iter().map(String::as_str).collect();
        let receipts = harness.journal().append([fact("t", &tags)]).await.unwrap();
        assert_eq!(receipts[0].position, position(number));
    }
}

/// The positions that are there.
async fn there(harness: &impl RetainHarness, query: Query) -> Vec<u64> {
    found(harness.journal(), query).await.iter().map(|fact| fact.position.get()).collect()
}

async fn lowest(harness: &impl RetainHarness) -> Option<u64> {
    there(harness, Query::all()).await.first().copied()
}

/// A pair that lags, one that is paused and one that has failed hold back alike, and are named.
pub async fn nothing_goes_that_a_cursor_has_not_passed_whatever_its_status(
    harness: impl RetainHarness,
) {
    forty(&harness).await;
    let (quick, slow) = (pair("quick"), pair("slow"));
    put_cursor(&harness, &quick, position(40), CursorStatus::Active).await;
    for (at, status) in
        [(0, CursorStatus::Active), (10, CursorStatus::Paused), (20, CursorStatus::Failed)]
    {
        put_cursor(&harness, &slow, position(at), status).await;
        let report = retain(&harness, last(0)).await;
        assert_eq!(report.release.up_to, position(at));
        assert_eq!(report.release.wanted, position(40));
        let [held] = &*report.release.held_by else { panic!("{report:?}") };
        assert_eq!(held.to_string(), format!("topic:slow is {status} at position {at}"));
        assert_eq!(lowest(&harness).await, Some(at + 1));
        assert!(report.finished);
    }
    put_cursor(&harness, &slow, position(40), CursorStatus::Active).await;
    let report = retain(&harness, last(0)).await;
    assert!(report.release.held_by.is_empty());
    assert_eq!(lowest(&harness).await, None);
}

/// A fact that a pair has parked is there when it is tried again, and so is all after it.
pub async fn what_was_parked_stays_until_it_is_settled(harness: impl RetainHarness) {
    forty(&harness).await;
    let pair = pair("p");
    put_cursor(&harness, &pair, position(40), CursorStatus::Active).await;
    set_aside(&harness, &pair, 31).await;
    set_aside(&harness, &pair, 21).await;
    let report = retain(&harness, last(0)).await;
    let [held] = &*report.release.held_by else { panic!("{report:?}") };
    assert_eq!(held.to_string(), "topic:p has parked position 21");
    assert_eq!(lowest(&harness).await, Some(21));
    settle(&harness, &pair, 21).await;
    retain(&harness, last(0)).await;
    assert_eq!(lowest(&harness).await, Some(31));
    settle(&harness, &pair, 31).await;
    retain(&harness, last(0)).await;
    assert_eq!(lowest(&harness).await, None);
}

/// By count, by age, and by both: then what either keeps.
pub async fn the_newest_and_the_young_stay(harness: impl RetainHarness) {
    forty(&harness).await;
    let hour = Some(Duration::from_secs(3_600));
    for keeping in [last(40), last(1_000), RetainOptions { keep: hour, ..options() }] {
        retain(&harness, keeping).await;
        assert_eq!(lowest(&harness).await, Some(1));
    }
    retain(&harness, last(30)).await;
    assert_eq!(lowest(&harness).await, Some(11));
    retain(&harness, RetainOptions { keep: hour, ..last(0) }).await;
    assert_eq!(lowest(&harness).await, Some(11));
    // Older than a second ago, which is how exact times are: in time all of them are.
    let seconds = Some(Duration::from_millis(1));
    let patient = async || {
        retain(&harness, RetainOptions { keep: seconds, ..last(10) }).await;
        lowest(&harness).await == Some(31)
    };
    crate::wait::eventually("facts to be old enough", patient).await;
}

/// It says what would be done.
pub async fn a_dry_run_changes_nothing(harness: impl RetainHarness) {
    forty(&harness).await;
    // Partitions are there by then, where there are some.
    retain(&harness, options()).await;
    let seen = here(maintainer(&harness, last(20)).dry_run(1_000).await.unwrap());
    assert_eq!(lowest(&harness).await, Some(1));
    let done = retain(&harness, last(20)).await;
    assert_eq!(lowest(&harness).await, Some(21));
    assert_eq!((seen.facts, seen.dropped, seen.release), (done.facts, done.dropped, done.release));
    assert!(done.facts == 20 || seen.facts == 0);
    assert_eq!(done.batches, done.facts.div_ceil(7), "in short transactions");
}

/// By their tags, by a tail from the beginning, and by whoever decides; and an id is not there twice.
pub async fn what_is_left_is_found_and_positions_go_on(harness: impl RetainHarness) {
    forty(&harness).await;
    let journal = harness.journal();
    let kept = found(journal, tagged("n=40")).await;
    retain(&harness, last(10)).await;
    assert_eq!(there(&harness, tagged("odd=1")).await, [31, 33, 35, 37, 39]);
    assert_eq!(there(&harness, tagged("n=7")).await, [0; 0]);
    let again = journal.append([kept[0].fact.clone()]).await.unwrap();
    assert_eq!((again[0].position, again[0].fresh), (position(40), false));

    let mut tail = journal.tail(Position::START, TailOptions::default()).await.unwrap();
    let mut passed = Vec::new();
    while passed.len() < 10 {
        passed.extend(tail.next().await.unwrap().rows.iter().map(|row| row.position.get()));
    }
    assert_eq!(passed, (31..=40).collect::<Vec<_>>());

    retain(&harness, last(0)).await;
    assert_eq!(there(&harness, Query::all()).await, [0; 0]);
    let gone = journal.append([kept[0].fact.clone()]).await.unwrap();
    assert!(gone[0].fresh, "what is gone is forgotten");
    assert!(gone[0].position > position(40), "a position is given once");
    assert_eq!(there(&harness, tagged("n=40")).await.len(), 1);
    let mark = journal.head().await.unwrap();
    let free = tagged("n=41").none_after(mark);
    journal.append_if([fact("t", &["n=41"])], free.clone()).await.unwrap();
    assert!(journal.append_if([fact("t", &["n=41"])], free).await.is_err());
}

/// Whatever the decision before has read: the lowest are gone, or all of them.
pub async fn a_decision_under_locks_is_made_of_what_is_left(harness: impl RetainHarness) {
    forty(&harness).await;
    let count = || {
        fold(tagged("odd=1"), Vec::new(), |positions: &mut Vec<u64>, fact| {
            positions.push(fact.position.get());
            Ok(())
        })
    };
    for (keep, left) in [(40, 20), (40, 20), (20, 10), (20, 10), (0, 0), (0, 0)] {
        retain(&harness, last(keep)).await;
        let mut seen = Vec::new();
        let locked = harness.journal().execute_locked(count, |model| {
            seen = model.state;
            Ok::<_, BoxError>(Vec::new())
        });
        locked.await.unwrap();
        assert_eq!(seen, there(&harness, tagged("odd=1")).await);
        assert_eq!(seen.len(), left);
    }
}

/// Everything is kept that nobody said a word about.
pub async fn without_a_bound_nothing_goes(harness: impl RetainHarness) {
    forty(&harness).await;
    let report = retain(&harness, options()).await;
    assert_eq!((report.facts, report.dropped.len()), (0, 0));
    assert_eq!(lowest(&harness).await, Some(1));
}

/// Between two transactions.
pub async fn a_pass_that_is_cancelled_says_so(harness: impl RetainHarness) {
    forty(&harness).await;
    let cancel = CancellationToken::new();
    cancel.cancel();
    let pass = maintainer(&harness, last(0)).run_once_until(cancel.cancelled()).await.unwrap();
    assert!(!here(pass).finished);
    assert_eq!(lowest(&harness).await, Some(1));
}
