//! The simulation itself: that it repeats, that it is clean, and that it would notice.

use std::sync::Once;

use sendoff_testkit::history::{Entry, Violation};
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
        let (first, again) = (simulate(seed).history.entries(), simulate(seed).history.entries());
        let differs = first.iter().zip(&again).position(|(first, again)| first != again);
        let show = |entries: &[Entry]| differs.map(|at| format!("{:#?}", entries[at]));
        assert_eq!((show(&first), first.len()), (show(&again), again.len()), "seed {seed}");
    }
}

#[test]
fn many_worlds_keep_every_promise() {
    hush();
    for seed in 0..60 {
        let report = simulate(seed);
        assert!(report.is_clean(), "{report}");
    }
}

/// The first world of these seeds in which the checker notices the bug.
fn noticed(bug: Bug) -> Option<Report> {
    hush();
    (0..40).map(|seed| simulate_with(seed, Some(bug))).find(|report| !report.is_clean())
}

#[test]
fn a_missing_fence_is_noticed() {
    let report = noticed(Bug::NoFence).expect("some zombie settles within these worlds");
    let stale = |violation: &Violation| matches!(violation, Violation::StaleSettlement { .. });
    assert!(report.verdict.violations.iter().any(stale), "{report}");
}

#[test]
fn an_extension_that_overtakes_a_settlement_is_noticed() {
    let report = noticed(Bug::ExtensionOvertakes).expect("some event is delivered twice");
    let twice = |violation: &Violation| matches!(violation, Violation::UnexplainedDuplicate { .. });
    assert!(report.verdict.violations.iter().any(twice), "{report}");
}
