//! What a fault explains, and what it does not.

use sendoff_core::Status;
use sendoff_engine::store::Outcome;
use sendoff_testkit::history::{Fault, FaultKind, History};

use super::{Moves, event, keyed};

/// Two deliveries, on `one` and then on `two`, with `fault` between them.
fn delivered_around(fault: Fault) -> u64 {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    history.deliver("one", &event, 1, true);
    history.fault(fault);
    history.deliver("two", &event, 2, true);
    let verdict = history.verdict();
    assert_eq!(verdict.duplicates, 1);
    verdict.unexplained
}

#[test]
fn a_fault_between_two_deliveries_explains_the_second() {
    assert_eq!(delivered_around(Fault::on("one", FaultKind::Crash)), 0);
    assert_eq!(delivered_around(Fault::on("two", FaultKind::LostReply)), 0);
    assert_eq!(delivered_around(Fault::everywhere(FaultKind::ClockStep)), 0);
}

#[test]
fn a_fault_elsewhere_or_of_other_events_explains_nothing() {
    assert_eq!(delivered_around(Fault::on("three", FaultKind::Crash)), 1);
    let of_others = Fault::on("one", FaultKind::LostReply).of([event().id()]);
    assert_eq!(delivered_around(of_others), 1);
}

#[test]
fn a_fault_before_the_first_delivery_explains_only_the_events_it_names() {
    for (named, unexplained) in [(false, 1), (true, 0)] {
        let (history, event) = (History::new(), event());
        history.committed(&event);
        let fault = Fault::on("one", FaultKind::LostReply);
        history.fault(if named { fault.of([event.id()]) } else { fault });
        history.deliver("one", &event, 1, true);
        history.deliver("one", &event, 2, true);
        assert_eq!(history.verdict().unexplained, unexplained, "named: {named}");
    }
}

#[test]
fn a_fault_after_the_second_delivery_began_comes_too_late() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    history.deliver("one", &event, 1, true);
    let second = history.start("two", &event, 2);
    history.fault(Fault::everywhere(FaultKind::Crash));
    second.finished(true);
    assert_eq!(history.verdict().unexplained, 1);
}

#[test]
fn a_lost_run_does_not_use_up_the_runs_that_are_allowed() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    for attempt in [1, 2, 3] {
        drop(history.start("one", &event, attempt));
        history.fault(Fault::on("one", FaultKind::Crash));
    }
    history.deliver("two", &event, 4, true);
    assert!(history.verdict().is_clean(), "{}", history.verdict());
}

#[test]
fn a_crash_ends_the_runs_of_its_node() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    // The run of a killed process never says that it ended.
    std::mem::forget(history.start("one", &event, 1));
    history.fault(Fault::on("one", FaultKind::Crash));
    history.deliver("one", &event, 1, true);
    assert!(history.verdict().is_clean(), "{}", history.verdict());
}

#[test]
fn an_unknown_commit_may_arrive_or_not() {
    let (history, arrived, not, resolved) = (History::new(), event(), event(), event());
    for event in [&arrived, &not, &resolved] {
        history.unknown(event);
    }
    history.deliver("one", &arrived, 1, true);
    history.rolled_back(&resolved);
    let verdict = history.verdict();
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!((verdict.unknown, verdict.rolled_back, verdict.delivered), (2, 1, 1));
    history.committed(&not);
    assert_eq!(history.verdict().lost, 1, "what turns out to have committed must arrive");
}

#[test]
fn a_commit_is_never_taken_back() {
    let (history, event) = (History::new(), event());
    history.write_and_deliver(&event);
    history.rolled_back(&event);
    assert!(history.verdict().is_clean());
}

#[test]
fn a_dead_event_is_not_lost_and_holds_nothing_back() {
    let (history, dead, next) = (History::new(), keyed("a"), keyed("a"));
    history.committed(&dead);
    history.committed(&next);
    history.deliver("one", &dead, 1, false);
    history.settle(&dead, Outcome::dead(1, String::new()), true, true);
    history.deliver("one", &next, 1, true);
    let verdict = history.verdict();
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!((verdict.dead, verdict.delivered), (1, 1));
    history.stands(dead.id(), Status::Dead, 1);
    assert_eq!(history.verdict().dead, 1);
}

#[test]
fn what_hangs_is_excused_also_after_its_row_was_locked_for_a_while() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    let _run = history.start("one", &event, 1);
    history.fault(Fault::on("one", FaultKind::HandlerHung).of([event.id()]));
    history.fault(Fault::everywhere(FaultKind::RowsLocked).of([event.id()]));
    history.fault(Fault::everywhere(FaultKind::RowsUnlocked).of([event.id()]));
    history.stands(event.id(), Status::New, 0);
    assert_eq!(history.violations(), []);
    history.fault(Fault::on("one", FaultKind::Crash));
    assert_eq!(history.violations().len(), 1, "nobody hangs any more");
}

#[test]
fn a_claim_nobody_was_told_of_explains_an_attempt_and_no_second_delivery() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    let lost = || history.fault(Fault::on("one", FaultKind::Untold).of([event.id()]));
    lost();
    history.deliver("two", &event, 2, true);
    history.stands(event.id(), Status::Done, 1);
    assert_eq!(history.violations(), []);
    lost();
    history.deliver("two", &event, 3, true);
    assert_eq!(history.verdict().unexplained, 1);
}
