//! What may go, and which partitions there should be.

use std::num::NonZeroU64;

use proptest::collection::vec;
use proptest::prelude::*;
use sendoff_core::Timestamp;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_core::journal::retain::{
    ExistingRange, Follower, Followers, HeldBy, PlannedRange, RangeSurvey, Ranges, Wanted, below,
    release, to_drop, to_make,
};

use super::position;

fn pair(number: usize) -> PairId {
    PairId::new(format!("topic-{number}"), "p").unwrap()
}

fn followers(head: u64, cursors: &[(u64, CursorStatus)], parked: &[u64]) -> Followers {
    Followers {
        now: Timestamp::from_micros(0),
        head: position(head),
        cursors: cursors
            .iter()
            .enumerate()
            .map(|(at, (place, status))| Follower {
                pair: pair(at),
                position: position(*place),
                status: *status,
            })
            .collect(),
        parked: parked.iter().enumerate().map(|(at, place)| (pair(at), position(*place))).collect(),
    }
}

fn last(count: u64) -> Wanted {
    Wanted { last: Some(count), aged: None }
}

#[test]
fn whoever_lags_is_named_and_the_one_that_holds_most_comes_first() {
    use CursorStatus::{Active, Failed, Paused};
    let seen = followers(1_000, &[(990, Active), (400, Paused), (500, Failed)], &[301]);
    let decided = release(last(100), &seen);
    assert_eq!((decided.up_to, decided.wanted), (position(300), position(900)));
    let shown: Vec<_> = decided.held_by.iter().map(ToString::to_string).collect();
    assert_eq!(
        shown,
        [
            "topic-0:p has parked position 301",
            "topic-1:p is PAUSED at position 400",
            "topic-2:p is FAILED at position 500",
        ]
    );
}

#[test]
fn without_a_bound_everything_is_kept() {
    assert_eq!(release(Wanted::default(), &followers(1_000, &[], &[])).up_to, position(0));
    assert_eq!(release(last(0), &followers(1_000, &[], &[])).up_to, position(1_000));
    assert_eq!(release(last(5_000), &followers(1_000, &[], &[])).up_to, position(0));
}

fn status() -> impl Strategy<Value = CursorStatus> {
    prop_oneof![Just(CursorStatus::Active), Just(CursorStatus::Paused), Just(CursorStatus::Failed)]
}

proptest! {
    #[test]
    fn nothing_goes_that_anybody_needs(
        head in 0_u64..1_000,
        cursors in vec((0_u64..1_200, status()), 0..5),
        parked in vec(1_u64..1_000, 0..5),
        keep in proptest::option::of(0_u64..1_200),
        aged in proptest::option::of(0_u64..1_200),
    ) {
        let seen = followers(head, &cursors, &parked);
        let decided = release(Wanted { last: keep, aged: aged.map(position) }, &seen);
        let up_to = decided.up_to.get();
        prop_assert!(up_to <= head && decided.up_to <= decided.wanted);
        prop_assert!(cursors.iter().all(|(place, _)| up_to <= *place), "a cursor has passed it");
        prop_assert!(parked.iter().all(|place| up_to < *place), "nobody has parked it");
        prop_assert!(aged.is_none_or(|aged| up_to <= aged), "it is old enough");
        prop_assert!(keep.is_none_or(|keep| up_to + keep <= head || up_to == 0), "newer ones stay");
        prop_assert!(keep.is_some() || aged.is_some() || up_to == 0);
        // And no less than may go: somebody is named who holds the next one, or it is wanted.
        let named = decided.held_by.first().map_or(decided.wanted, HeldBy::lets_go);
        prop_assert_eq!(named, decided.up_to);
        prop_assert!(decided.held_by.is_sorted_by_key(HeldBy::lets_go));
    }
}

fn ranges(size: u64, ahead: u32) -> Ranges {
    let number = |number| NonZeroU64::new(number).unwrap();
    Ranges { size: number(size), ahead, most_moved: number(10) }
}

fn there(made: &PlannedRange) -> ExistingRange {
    ExistingRange { name: Some(made.name), from: Some(made.from), to: Some(made.to) }
}

fn spans(made: &[PlannedRange]) -> Vec<(u64, u64)> {
    made.iter().map(|range| (range.from.get(), range.to.get())).collect()
}

#[test]
fn partitions_are_made_ahead_and_only_once() {
    let mut survey = RangeSurvey::default();
    let made = to_make(&ranges(100, 2), position(0), &survey);
    assert_eq!(spans(&made), [(1, 101), (101, 201), (201, 301)]);
    assert_eq!(made[1].name.to_string(), "p101");
    survey.partitions = made.iter().map(there).collect();
    assert!(to_make(&ranges(100, 2), position(99), &survey).is_empty());
    // The next position is in the second one.
    assert_eq!(spans(&to_make(&ranges(100, 2), position(100), &survey)), [(301, 401)]);
    assert_eq!(to_drop(position(99), &survey.partitions), []);
    assert_eq!(to_drop(position(100), &survey.partitions), [made[0].name]);
    assert_eq!(below(&survey), position(0));
}

#[test]
fn rows_of_the_tail_get_partitions_that_are_small_enough_to_move() {
    let survey = RangeSurvey { tail_lowest: Some(position(86)), ..RangeSurvey::default() };
    let made = to_make(&ranges(100, 1), position(117), &survey);
    assert_eq!(spans(&made)[..3], [(86, 96), (96, 101), (101, 111)]);
    assert!(
        made.iter().all(|range| range.from > position(117) || range.to.since(range.from) <= 10)
    );
    assert_eq!(made.last().unwrap().to, position(301));
}

#[test]
fn what_was_dropped_is_not_made_again() {
    let range =
        |from, to| ExistingRange { name: None, from: Some(position(from)), to: Some(position(to)) };
    let survey = RangeSurvey { partitions: vec![range(41, 51)], tail_lowest: None };
    assert_eq!(spans(&to_make(&ranges(100, 0), position(45), &survey)), [(51, 101)]);
    assert_eq!(spans(&to_make(&ranges(100, 0), position(60), &survey)), [(51, 101)]);
    assert!(to_drop(position(100), &survey.partitions).is_empty(), "and it is not ours");
}

proptest! {
    #[test]
    fn partitions_never_overlap_and_the_next_positions_have_one(
        size in 1_u64..50,
        before in 1_u64..50,
        ahead in 0_u32..4,
        heads in vec(0_u64..400, 1..6),
        tail in proptest::option::of(1_u64..400),
        dropped in 0_u64..400,
    ) {
        let mut heads = heads;
        heads.sort_unstable();
        // A first maintainer had another size.
        let mut survey = RangeSurvey::default();
        let first = to_make(&ranges(before, ahead), position(heads[0]), &survey);
        survey.partitions.extend(first.iter().map(there));
        for head in heads {
            survey.tail_lowest = tail.map(position).filter(|tail| tail.get() <= head);
            let made = to_make(&ranges(size, ahead), position(head), &survey);
            survey.partitions.extend(made.iter().map(there));
            let again = to_make(&ranges(size, ahead), position(head), &survey);
            prop_assert!(again.is_empty(), "{again:?}");
            let mut all: Vec<_> = survey
                .partitions
                .iter()
                .map(|range| (range.from.unwrap().get(), range.to.unwrap().get()))
                .collect();
            all.sort_unstable();
            prop_assert!(all.windows(2).all(|two| two[0].1 <= two[1].0), "{all:?}");
            let covered = |place: u64| all.iter().any(|(from, to)| (*from..*to).contains(&place));
            let next = head + 1;
            prop_assert!((next..=next + size * u64::from(ahead)).all(covered), "{all:?} {next}");
            prop_assert!(survey.tail_lowest.is_none_or(|tail| covered(tail.get())));
            let over = to_drop(position(dropped.min(head)), &survey.partitions);
            for name in over {
                let gone = survey.partitions.iter().position(|range| range.name == Some(name));
                let gone = survey.partitions.swap_remove(gone.unwrap());
                prop_assert!(gone.to.unwrap().get() - 1 <= dropped.min(head));
            }
        }
    }
}
