//! The simulation itself: that it repeats, that it is clean, and that it would notice.

use std::sync::Once;
use std::time::Duration;

use sendoff_testkit::history::{Entry, History, Violation};
use sendoff_testkit::sim::{Bug, Report, SCRIPTED_PANIC, simulate, simulate_with};

/// Scripted panics belong to every world and would drown a real one.
fn hush() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let hook = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |panic| {
            if panic.payload().downcast_ref::<&str>() != Some(&SCRIPTED_PANIC) {
                hook(panic);
            }
        }));
    });
}

#[test]
fn a_seed_repeats_to_the_last_entry() {
    hush();
    for seed in 0..10 {
        let (first, again) = (simulate(seed), simulate(seed));
        same(seed, &first.history, &again.history);
        let pairs = first.published.log.histories().zip(again.published.log.histories());
        pairs.for_each(|((_, first), (_, again))| same(seed, first, again));
    }
}

fn same(seed: u64, first: &History, again: &History) {
    let (first, again) = (first.entries(), again.entries());
    let differs = first.iter().zip(&again).position(|(first, again)| first != again);
    let show = |entries: &[Entry]| differs.map(|at| format!("{:#?}", entries[at]));
    assert_eq!((show(&first), first.len()), (show(&again), again.len()), "seed {seed}");
}

#[test]
fn many_worlds_keep_every_promise() {
    hush();
    // Then those that once found something: a row that is locked in the midst of a key, a node that kept keys
    // which it cannot deliver from those who can, events that a node kept in memory after one of their key that
    // hangs, an event that outlived the hold of its key.
    for seed in (0..60).chain([195, 251, 378, 711, 1948]) {
        let report = simulate(seed);
        assert!(report.is_clean(), "{report}");
    }
}

/// Whether one of these worlds breaks a promise in this way with the bug planted in it, and not
/// without.
fn notices(bug: Bug, how: impl Fn(&Report) -> bool) -> bool {
    hush();
    (0..100).any(|seed| how(&simulate_with(seed, Some(bug))) && !how(&simulate(seed)))
}

fn violates(kind: impl Fn(&Violation) -> bool) -> impl Fn(&Report) -> bool {
    move |report| report.verdict.violations.iter().any(&kind)
}

fn is_not_terminal(violation: &Violation) -> bool {
    matches!(violation, Violation::NotTerminal { .. })
}

fn is_duplicate(violation: &Violation) -> bool {
    matches!(violation, Violation::UnexplainedDuplicate { .. })
}

#[test]
fn a_missing_fence_is_noticed() {
    let stale = |violation: &Violation| matches!(violation, Violation::StaleSettlement { .. });
    assert!(notices(Bug::NoFence, violates(stale)));
}

#[test]
fn a_missing_fence_of_a_key_is_noticed() {
    let stale = |violation: &Violation| matches!(violation, Violation::StaleSettlement { .. });
    assert!(notices(Bug::NoKeyFence, violates(stale)));
}

fn is_out_of_order(violation: &Violation) -> bool {
    matches!(violation, Violation::OutOfOrder { .. })
}

/// Holds K2, O1.
#[test]
fn events_from_memory_that_overtake_others_of_their_key_are_noticed() {
    assert!(notices(Bug::NoGate, violates(is_out_of_order)));
}

/// Holds K1, O1.
#[test]
fn runs_that_go_on_past_an_event_held_by_itself_are_noticed() {
    assert!(notices(Bug::NoCut, violates(is_out_of_order)));
}

/// Holds K5, O1: somebody requeues, discards or resumes what is dead, and none began before.
#[test]
fn dead_events_that_hold_nothing_back_are_noticed() {
    assert!(notices(Bug::ForgetPark, violates(is_out_of_order)));
}

/// Holds I7: whoever is not rung looks later, and delivers all the same.
#[test]
fn wake_ups_that_are_forgotten_cost_time_and_nothing_else() {
    hush();
    let (mut usual, mut forgotten) = (Duration::ZERO, Duration::ZERO);
    for seed in 0..20 {
        let report = simulate_with(seed, Some(Bug::ForgetWake));
        assert!(report.is_clean(), "{report}");
        forgotten += report.dawdled;
        usual += simulate(seed).dawdled;
    }
    // Nodes that are stopped or cut off look late as well.
    assert!(forgotten > usual, "{forgotten:?}, and {usual:?} without");
}

#[test]
fn an_extension_that_overtakes_a_settlement_is_noticed() {
    assert!(notices(Bug::ExtensionOvertakes, violates(is_duplicate)));
}

#[test]
fn settlements_that_wait_for_a_locked_row_are_noticed() {
    // What is not settled for so long is somebody else's in the end, or nobody's.
    let stands = |found: &Violation| is_not_terminal(found) || is_duplicate(found);
    assert!(notices(Bug::WaitsForLockedRows, violates(stands)));
}

#[test]
fn a_locked_batch_that_freezes_between_settle_and_commit_is_noticed() {
    assert!(notices(Bug::CommitsInTwoSteps, violates(is_not_terminal)));
}

#[test]
fn lanes_that_hung_handlers_pin_are_noticed() {
    assert!(notices(Bug::HungHandlersPinLanes, violates(is_not_terminal)));
}

#[test]
fn locks_that_a_stopped_node_keeps_over_a_round_trip_are_noticed() {
    assert!(notices(Bug::LocksOverARoundTrip, violates(is_not_terminal)));
}

#[test]
fn workers_that_die_of_a_panic_in_a_drop_are_noticed() {
    assert!(notices(Bug::PanicInDropKillsAWorker, |report| !report.stalled.is_empty()));
}

#[test]
fn suspects_that_starve_are_noticed() {
    assert!(notices(Bug::SuspectsStarve, violates(is_not_terminal)));
}

#[test]
fn releases_that_starve_are_noticed() {
    let counted = |found: &Violation| matches!(found, Violation::AttemptWithoutRun { .. });
    assert!(notices(Bug::ReleasesStarve, violates(counted)));
}

/// Like [`violates`], of the publishers' histories.
fn misleads(kind: impl Fn(&Violation) -> bool) -> impl Fn(&Report) -> bool {
    move |report| report.published.verdicts.values().any(|found| found.violations.iter().any(&kind))
}

#[test]
fn a_cursor_that_is_moved_without_its_epoch_is_noticed() {
    let stale = |found: &Violation| matches!(found, Violation::StaleMove { .. });
    assert!(notices(Bug::CursorWithoutEpoch, misleads(stale)));
}

#[test]
fn a_pair_that_is_taken_from_a_living_node_is_noticed() {
    assert!(notices(Bug::TakesFromTheLiving, misleads(is_duplicate)));
}

#[test]
fn facts_that_are_acknowledged_before_their_target_has_them_are_noticed() {
    let lost = |found: &Violation| matches!(found, Violation::Lost { .. });
    assert!(notices(Bug::AcknowledgedEarly, misleads(lost)));
}
