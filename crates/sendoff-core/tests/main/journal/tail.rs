//! The tail skips nothing: single cases, and random worlds of writers.

use proptest::prelude::*;
use sendoff_core::Timestamp;
use sendoff_core::journal::{Ask, Look, Position, Sequence, Server, Tail, Unsafe};

use super::position;
use super::world::{Reader, SERVER, World};

/// Holds J6.
#[test]
fn numbers_without_a_gap_need_no_proof() {
    let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
    let tx = world.begin();
    (0..3).for_each(|_| world.number(tx));
    world.commit(tx);
    let seen = reader.look(&mut world);
    assert_eq!((seen.deliver, seen.gap), (3, None));
    assert_eq!(reader.tail.ask(), Ask::Rows, "though its locks are still there");
}

/// Holds J6: the lower number commits later.
#[test]
fn a_slow_low_position_holds_back_what_is_above_it_and_nothing_else() {
    let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
    for _ in 0..3 {
        world.begin();
    }
    (0..3).for_each(|tx| world.number(tx));
    world.commit(0);
    world.commit(1);
    let seen = reader.look(&mut world);
    assert_eq!((seen.deliver, seen.gap), (1, Some((position(2), position(2)))));
    assert!(!reader.tail.is_waiting(), "the next look may decide it");
    for _ in 0..5 {
        let seen = reader.look(&mut world);
        assert_eq!((seen.deliver, seen.waits_for.len()), (0, 3));
        assert!(reader.tail.is_waiting());
    }
    world.commit(0);
    assert_eq!(reader.look(&mut world).deliver, 2, "there is no gap any more, so no proof");
    assert_eq!(reader.delivered, [1, 2, 3]);
}

/// What lies after a gap is read when it is found, once more to see who is waited for, and when it has
/// closed; between them only the gap is asked about, however long that takes.
#[test]
fn while_it_waits_at_a_gap_what_lies_after_it_is_not_read_again() {
    for commits in [true, false] {
        let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
        let (slow, quick) = (world.begin(), world.begin());
        (0..2).for_each(|_| world.number(slow));
        (0..10).for_each(|_| world.number(quick));
        world.commit(quick);
        world.release(0);
        reader.look(&mut world);
        reader.look(&mut world);
        assert_eq!(reader.read, 20);
        for _ in 0..50 {
            assert_eq!(reader.tail.up_to(), position(2));
            assert_eq!(reader.look(&mut world).gap, Some((position(1), position(2))));
        }
        assert_eq!(reader.read, 20, "nothing came of the gap");
        world.end_all(commits);
        reader.look(&mut world);
        let (gap, after) = (if commits { 2 } else { 0 }, 10);
        assert_eq!((reader.delivered.len(), reader.read), (gap + after, 20 + gap + after));
    }
}

/// Holds J6: who rolled back is not waited for longer than the two looks it takes to know.
#[test]
fn a_number_that_was_rolled_back_is_passed_without_a_timer() {
    let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
    let (a, b) = (world.begin(), world.begin());
    world.number(a);
    world.number(b);
    world.commit(b);
    world.end_all(false);
    assert_eq!(reader.look(&mut world).deliver, 0);
    assert_eq!(reader.look(&mut world).deliver, 1);
    assert_eq!(reader.delivered, [2]);
}

/// A world where 1 is open and 2 is there, and a reader that has looked at it once.
fn looked_at_a_gap() -> (World, Reader) {
    let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
    world.begin_numbered();
    let there = world.begin_numbered();
    world.commit(there);
    world.release(0);
    reader.look(&mut world);
    (world, reader)
}

/// Holds J6: a commit between the list of holders and the read of the rows.
#[test]
fn who_let_go_before_the_list_is_visible_in_the_rows_after_it() {
    let (mut world, mut reader) = looked_at_a_gap();
    // The list still has it; the rows of the same look have its number.
    let seen = reader.look_while(&mut world, |world| world.commit(0)).unwrap();
    assert_eq!((seen.deliver, seen.gap), (2, None));
}

/// Nothing waits longer than the longest append is open: not for a proof that is under way, and then
/// for one of its own.
#[test]
fn what_is_committed_during_a_proof_waits_only_for_who_was_open_then() {
    // 1 is open for long, and 2 is there.
    let (mut world, mut reader) = looked_at_a_gap();
    reader.look(&mut world);
    // Meanwhile 3 is rolled back and 4 is there.
    world.begin_numbered();
    world.roll_back(1);
    world.begin_numbered();
    world.commit(1);
    while world.holders().len() > 1 {
        world.release(0);
    }
    reader.look(&mut world);
    reader.look(&mut world);
    // Somebody begins before the slow one ends; it has nothing to do with either.
    world.begin_numbered();
    world.commit(0);
    world.release(0);
    reader.look(&mut world);
    assert_eq!(reader.delivered, [1, 2, 4]);
}

/// One proof covers every gap below the head it began with.
#[test]
fn a_history_full_of_gaps_costs_one_proof() {
    let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
    reader.limit = 10;
    for n in 0..100 {
        world.begin();
        world.number(0);
        world.end_all(n % 3 == 0);
    }
    let looks = std::iter::repeat_with(|| {
        let holders = reader.tail.ask() == Ask::HoldersThenRows;
        reader.look(&mut world);
        holders
    });
    let with_holders = looks.take(8).filter(|holders| *holders).count();
    assert_eq!((reader.delivered.len(), with_holders), (34, 1));
    assert_eq!(reader.tail.at(), position(100), "nothing will come up to the head");
}

/// Holds J6: PREPARE between two looks, with the name kept and on servers that give another.
#[test]
fn a_prepared_append_is_still_waited_for() {
    for renamed in [false, true] {
        let (mut world, mut reader) = looked_at_a_gap();
        assert_eq!(reader.look(&mut world).waits_for.len(), 1);
        world.prepare(0, renamed);
        for _ in 0..3 {
            let seen = reader.look(&mut world);
            assert_eq!((seen.deliver, seen.waits_for.len()), (0, 1), "renamed: {renamed}");
        }
        world.commit(0);
        world.release(0);
        reader.look(&mut world);
        assert_eq!(reader.delivered, [1, 2]);
    }
}

/// Somebody else's prepared transaction is not taken for one that vanished.
#[test]
fn a_prepared_append_that_came_later_is_not_waited_for() {
    let (mut world, mut reader) = looked_at_a_gap();
    reader.look(&mut world);
    world.begin_numbered();
    world.prepare(1, true);
    reader.look(&mut world);
    world.roll_back(0);
    world.release(0);
    assert_eq!(reader.look(&mut world).deliver, 1);
}

/// A look at no rows, which are all there are.
const NO_ROWS: Look<'_> = Look {
    server: SERVER,
    sequence: Sequence::ONE_BY_ONE,
    head: Position::END,
    holders: None,
    proved: Position::START,
    rows: &[],
    complete: true,
};

#[test]
fn what_it_cannot_be_sure_on_is_refused() {
    let look = Look { head: position(9), ..NO_ROWS };
    let take = |look: Look<'_>| {
        let mut tail = Tail::after(position(5));
        let first = tail.take(&Look { rows: &[position(6)], complete: false, ..NO_ROWS });
        assert_eq!(first.map(|seen| seen.deliver), Ok(1));
        tail.take(&look).map(|seen| seen.deliver)
    };
    assert_eq!(take(look), Ok(0));
    let standby = Server { in_recovery: true, ..SERVER };
    assert_eq!(take(Look { server: standby, ..look }), Err(Unsafe::Standby));
    let restarted = Server { started_at: Timestamp::from_micros(2), ..SERVER };
    assert_eq!(take(Look { server: restarted, ..look }), Err(Unsafe::Restarted));
    let (at, head) = (position(6), position(5));
    assert_eq!(take(Look { head, ..look }), Err(Unsafe::WentBack { at, head }));
    for rows in [&[position(6)][..], &[position(8), position(7)], &[position(7), position(7)]] {
        assert_eq!(take(Look { rows, ..look }), Err(Unsafe::Disorder));
    }
    for sequence in [
        Sequence { cache: 2, ..Sequence::ONE_BY_ONE },
        Sequence { increment: -1, ..Sequence::ONE_BY_ONE },
        Sequence { cycles: true, ..Sequence::ONE_BY_ONE },
    ] {
        assert_eq!(take(Look { sequence, ..look }), Err(Unsafe::Sequence(sequence)));
    }
}

/// Holds J6: what a store has decided by itself needs no proof, and what it has not is not passed.
#[test]
fn a_store_that_decides_gaps_itself_is_believed() {
    const LOOK: Look<'_> = Look { complete: false, ..NO_ROWS };
    let mut tail = Tail::after(Position::START);
    let rows = [position(2), position(5), position(9)];
    let seen = tail.take(&Look { proved: position(6), rows: &rows, ..LOOK }).unwrap();
    assert_eq!((seen.deliver, seen.gap), (2, Some((position(7), position(8)))));
    assert_eq!(tail.at(), position(5));
    // Nothing but numbers that will never be a fact.
    let seen = tail.take(&Look { proved: position(20), ..LOOK }).unwrap();
    assert_eq!((seen.deliver, seen.gap, tail.at()), (0, None, position(20)));

    let mut tail = Tail::from_now();
    tail.take(&LOOK).unwrap();
    assert!(!tail.wants_rows());
    tail.take(&Look { proved: position(7), ..LOOK }).unwrap();
    assert!(tail.wants_rows() && tail.at() == position(7));
}

/// Who begins now sees what commits later, and waits until everything below is decided.
#[test]
fn from_now_begins_at_a_head_below_which_all_is_decided() {
    let (mut world, mut reader) = (World::default(), Reader::new(Tail::from_now()));
    assert!(!reader.tail.wants_rows());
    for _ in 0..2 {
        world.begin();
        world.number(0);
        world.end_all(true);
    }
    world.begin();
    world.number(0);
    reader.look(&mut world);
    assert_eq!(reader.look(&mut world).waits_for.len(), 1);
    world.end_all(true);
    reader.look(&mut world);
    assert_eq!(reader.tail.at(), position(3));
    world.begin();
    world.number(0);
    world.end_all(true);
    reader.look(&mut world);
    assert_eq!(reader.delivered, [4]);

    let (mut empty, mut reader) = (World::default(), Reader::new(Tail::from_now()));
    reader.look(&mut empty);
    reader.look(&mut empty);
    assert!(reader.tail.wants_rows());
}

/// What may happen in a database.
#[derive(Debug, Clone, Copy)]
enum Step {
    Begin,
    Number(usize),
    Undo(usize),
    Prepare(usize, bool),
    Commit(usize),
    RollBack(usize),
    Release(usize),
}

fn step() -> impl Strategy<Value = Step> {
    let at = 0..8_usize;
    prop_oneof![
        3 => Just(Step::Begin),
        5 => at.clone().prop_map(Step::Number),
        1 => at.clone().prop_map(Step::Undo),
        1 => (at.clone(), any::<bool>()).prop_map(|(at, renamed)| Step::Prepare(at, renamed)),
        3 => at.clone().prop_map(Step::Commit),
        1 => at.clone().prop_map(Step::RollBack),
        4 => at.prop_map(Step::Release),
    ]
}

fn carry_out(world: &mut World, step: Step) {
    match step {
        Step::Begin => drop(world.begin()),
        Step::Number(at) => world.number(at),
        Step::Undo(at) => world.undo(at),
        Step::Prepare(at, renamed) => world.prepare(at, renamed),
        Step::Commit(at) => world.commit(at),
        Step::RollBack(at) => world.roll_back(at),
        Step::Release(at) => world.release(at),
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(500))]

    /// Holds J6: whatever happens between any two steps of any look, nothing is skipped, nothing
    /// comes twice, everything comes in order, and when all is over all has come.
    #[test]
    fn nothing_is_ever_skipped(
        turns in prop::collection::vec(prop::collection::vec(step(), 0..6), 0..60),
        limit in 1..6_usize,
    ) {
        let (mut world, mut reader) = (World::default(), Reader::new(Tail::after(Position::START)));
        reader.limit = limit;
        for turn in turns.chunks(3) {
            let mut between = turn.iter();
            let mut next = |world: &mut World| {
                between.next().into_iter().flatten().for_each(|step| carry_out(world, *step));
            };
            next(&mut world);
            reader.look_while(&mut world, next).unwrap();
            let at = reader.tail.at().get();
            let below = world.visible().iter().filter(|&&n| n <= at);
            prop_assert!(below.eq(&reader.delivered), "{:?} at {at}", world.visible());
        }
        world.end_all(true);
        // A gap takes a look of its own.
        for _ in 0..2 * world.visible().len() + 3 {
            reader.look(&mut world);
        }
        prop_assert_eq!(world.visible(), &reader.delivered[..]);
    }
}
