//! One planted violation each.

use sendoff_core::order::AfterDead;
use sendoff_core::{Event, Status};
use sendoff_engine::store::Outcome;
use sendoff_testkit::history::{
    Decision, Expectations, Fault, FaultKind, History, Violation, check,
};

use super::{HEALED, Moves, build, event, keyed};

#[test]
fn a_committed_event_that_never_arrives_is_lost() {
    let (history, lost, done) = (History::new(), event(), event());
    history.write_and_deliver(&event());
    history.committed(&lost);
    history.deliver("one", &lost, 1, false);
    history.committed(&done);
    history.stands(done.id(), Status::Done, 0);
    let found = [Violation::Lost { id: lost.id() }, Violation::Lost { id: done.id() }];
    assert_eq!(history.violations(), found, "a row that says done was not delivered either");
    assert_eq!(history.verdict().lost, 2);
}

#[test]
fn a_delivery_of_what_never_committed_is_a_phantom() {
    let (history, aborted, unwritten) = (History::new(), event(), event());
    history.rolled_back(&aborted);
    history.deliver("one", &aborted, 1, true);
    history.deliver("one", &unwritten, 1, false);
    let found =
        [Violation::Phantom { id: aborted.id() }, Violation::Phantom { id: unwritten.id() }];
    assert_eq!(history.violations(), found);
    assert_eq!(history.verdict().phantoms, 2);
}

#[test]
fn a_row_of_what_never_committed_is_a_ghost() {
    let (history, aborted) = (History::new(), event());
    history.rolled_back(&aborted);
    history.stands(aborted.id(), Status::Dead, 1);
    assert_eq!(history.violations(), [Violation::GhostRow { id: aborted.id() }]);
}

#[test]
fn a_second_delivery_without_a_fault_is_unexplained() {
    let (history, event) = (History::new(), event());
    history.write_and_deliver(&event);
    history.deliver("two", &event, 1, true);
    history.deliver("two", &event, 2, false);
    let id = event.id();
    let found = [
        Violation::UnexplainedDuplicate { id, first: 1, second: 4 },
        Violation::UnexplainedDuplicate { id, first: 4, second: 6 },
    ];
    assert_eq!(history.violations(), found);
    let verdict = history.verdict();
    assert_eq!((verdict.duplicates, verdict.unexplained, verdict.delivered), (1, 2, 1));
}

#[test]
fn two_runs_at_once_on_one_node_overlap() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    let first = history.start("one", &event, 1);
    let second = history.start("one", &event, 1);
    first.finished(false);
    second.finished(true);
    let overlap = Violation::Overlap { id: event.id(), node: "one".into(), first: 1, second: 2 };
    assert_eq!(history.violations(), [overlap]);
}

#[test]
fn a_later_event_of_a_key_that_overtakes_is_out_of_order() {
    let history = History::new();
    let (first, second, third) = (keyed("a"), keyed("a"), keyed("b"));
    for event in [&first, &second, &third] {
        history.committed(event);
    }
    history.deliver("one", &third, 1, true);
    let early = history.start("one", &first, 1);
    history.deliver("two", &second, 1, true);
    early.finished(true);
    let (earlier, later) = (first.id(), second.id());
    assert_eq!(
        history.violations(),
        [Violation::OutOfOrder { key: "a".into(), earlier, later }],
        "begun in order, but at the same time"
    );
    let unordered = Expectations { ordered: None, ..HEALED };
    assert!(check(&history, &unordered).is_clean());
}

/// A dead event holds back its key until somebody decides; or it does not, where that is what was chosen.
#[test]
fn an_event_that_begins_after_a_dead_one_of_its_key_is_out_of_order_until_that_is_decided() {
    let begun = |decision: Option<Decision>| {
        let (history, first, second) = (History::new(), keyed("a"), keyed("a"));
        history.committed(&first);
        history.committed(&second);
        history.deliver("one", &first, 1, false);
        history.settle(&first, Outcome::dead(1, "no"), true, true);
        decision.into_iter().for_each(|decision| history.decided(first.id(), decision));
        history.deliver("one", &second, 1, true);
        if decision == Some(Decision::Requeued) {
            history.deliver("one", &first, 1, true);
        }
        let judged = |after_dead| {
            let expected = Expectations { ordered: Some(after_dead), ..HEALED };
            check(&history, &expected).violations
        };
        let (earlier, later) = (first.id(), second.id());
        let found = Violation::OutOfOrder { key: "a".into(), earlier, later };
        (judged(AfterDead::Park) == [found], judged(AfterDead::Skip).is_empty())
    };
    assert_eq!(begun(None), (true, true));
    assert_eq!(begun(Some(Decision::Requeued)), (true, true), "it was begun too early");
    assert_eq!(begun(Some(Decision::Discarded)), (false, true));
    assert_eq!(begun(Some(Decision::Resumed)), (false, true));
}

#[test]
fn an_event_is_delivered_as_soon_as_one_of_its_runs_ended_well() {
    let (history, first, second) = (History::new(), keyed("a"), keyed("a"));
    history.committed(&first);
    history.committed(&second);
    let hangs = history.start("one", &first, 1);
    history.fault(Fault::on("one", FaultKind::Pause));
    history.deliver("two", &first, 2, true);
    history.deliver("two", &second, 1, true);
    hangs.finished(true);
    assert_eq!(history.violations(), []);
}

#[test]
fn order_is_that_of_the_database_where_it_is_known() {
    let (history, first, second) = (History::new(), keyed("a"), keyed("a"));
    history.committed_as(&second, 2);
    history.committed_as(&first, 1);
    history.deliver("one", &second, 1, true);
    history.deliver("one", &first, 1, true);
    let (earlier, later) = (first.id(), second.id());
    let found = [Violation::OutOfOrder { key: "a".into(), earlier, later }];
    assert_eq!(history.violations(), found);
}

#[test]
fn a_settlement_by_a_token_that_moved_is_stale() {
    let (history, event) = (History::new(), event());
    history.write_and_deliver(&event);
    history.settle(&event, Outcome::Done, false, false);
    assert!(history.verdict().is_clean(), "fenced, as it should be");
    assert_eq!(history.verdict().fenced, 1);
    history.settle(&event, Outcome::Done, true, false);
    assert_eq!(history.violations(), [Violation::StaleSettlement { id: event.id(), at: 5 }]);
}

#[test]
fn attempts_and_runs_have_a_limit() {
    let (history, numbered, counted, stored) = (History::new(), event(), event(), event());
    history.committed(&numbered);
    history.deliver("one", &numbered, 4, true);
    history.committed(&counted);
    for attempt in [1, 1, 1, 1] {
        history.deliver("one", &counted, attempt, false);
    }
    history.stands(counted.id(), Status::Dead, 3);
    history.committed(&stored);
    history.stands(stored.id(), Status::Dead, 4);
    let found = [
        Violation::TooManyAttempts { id: numbered.id(), attempt: 4, limit: 3 },
        Violation::TooManyRuns { id: counted.id(), runs: 4, limit: 3 },
        Violation::TooManyAttempts { id: stored.id(), attempt: 4, limit: 3 },
    ];
    assert_eq!(history.violations(), found);

    let outages = Expectations { outages: true, ..HEALED };
    assert_eq!(check(&history, &outages).violations.len(), 2, "runs are not counted then");
    let unlimited = Expectations { max_attempts: None, ..HEALED };
    assert!(check(&history, &unlimited).is_clean());
}

#[test]
fn even_after_losses_the_number_of_an_attempt_is_at_most_one_above() {
    let (history, event) = (History::new(), event());
    history.fault(Fault::everywhere(FaultKind::Crash));
    history.committed(&event);
    history.deliver("one", &event, 4, false);
    history.deliver("one", &event, 5, true);
    let found = [Violation::TooManyAttempts { id: event.id(), attempt: 5, limit: 4 }];
    assert_eq!(history.violations(), found);
}

#[test]
fn other_content_than_was_written_is_altered() {
    let written = build(Event::builder("a").tenant_id("t").header("h", "1").json_text("{}"));
    let id = written.id();
    let like = || Event::builder("a").id(id).occurred_at(written.occurred_at());
    let same = build(like().tenant_id("t").header("h", "1").json_text("{}"));
    for (altered, is) in [
        (build(like().tenant_id("t").header("h", "1").json_text("{ }")), true),
        (build(like().tenant_id("t").header("h", "2").json_text("{}")), true),
        (build(like().header("h", "1").json_text("{}")), true),
        (same, false),
    ] {
        let history = History::new();
        history.committed(&written);
        history.deliver("one", &altered, 1, true);
        let found = if is { vec![Violation::Altered { id, at: 1 }] } else { Vec::new() };
        assert_eq!(history.violations(), found);
    }
}

#[test]
fn what_is_owed_when_all_is_healed_is_not_terminal() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    history.stands(event.id(), Status::Retry, 1);
    let status = Status::Retry;
    assert_eq!(history.violations(), [Violation::NotTerminal { id: event.id(), status }]);
    let unhealed = check(&history, &Expectations { healed: false, ..HEALED });
    assert!(unhealed.is_clean());
    assert_eq!((unhealed.pending, unhealed.lost), (1, 0), "owed is not lost");
}

#[test]
fn a_violation_names_its_events() {
    let (history, event) = (History::new(), event());
    history.committed(&event);
    let verdict = history.verdict();
    let text = verdict.to_string();
    assert!(text.contains(&event.id().to_string()), "{text}");
    assert!(text.starts_with("1 written, 0 rolled back"), "{text}");
}
