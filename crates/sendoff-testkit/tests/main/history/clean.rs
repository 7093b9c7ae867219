//! Histories that keep every promise are clean; the same ones with one entry taken or added are not.

use std::collections::BTreeMap;

use proptest::prelude::*;
use sendoff_core::{Event, Status};
use sendoff_testkit::history::{
    Entry, Expectations, Fault, FaultKind, History, Violation, check_entries,
};

use super::{HEALED, Moves, build, event};

/// The fate of one event.
#[derive(Debug, Clone)]
enum Fate {
    RolledBack,
    Unknown { arrives: bool },
    Delivered { failures: u32, crash_after: bool },
    Dead,
}

fn fate() -> impl Strategy<Value = Fate> {
    prop_oneof![
        Just(Fate::RolledBack),
        any::<bool>().prop_map(|arrives| Fate::Unknown { arrives }),
        (0..3_u32, any::<bool>())
            .prop_map(|(failures, crash_after)| Fate::Delivered { failures, crash_after }),
        Just(Fate::Dead),
    ]
}

/// Lives through the fates, each event on the node and in the key that are given with it.
fn live(fates: &[(Fate, u8, u8)]) -> (History, Vec<Event>) {
    let history = History::new();
    let mut events = Vec::new();
    for (number, (fate, node, key)) in fates.iter().enumerate() {
        let builder = Event::builder("a").ordering_key(key.to_string());
        let event = build(builder.json(&number));
        let node = format!("node-{node}");
        match fate {
            Fate::RolledBack => history.rolled_back(&event),
            Fate::Unknown { arrives } => {
                history.unknown(&event);
                if *arrives {
                    history.deliver(&node, &event, 1, true);
                }
            }
            Fate::Delivered { failures, crash_after } => {
                history.committed(&event);
                for attempt in 1..=*failures {
                    history.deliver(&node, &event, attempt, false);
                }
                history.deliver(&node, &event, failures + 1, true);
                if *crash_after {
                    history.fault(Fault::on(node, FaultKind::Crash));
                    history.deliver("another", &event, failures + 2, true);
                }
                history.stands(event.id(), Status::Done, *failures);
            }
            Fate::Dead => {
                history.committed(&event);
                for attempt in 1..=3 {
                    history.deliver(&node, &event, attempt, false);
                }
                history.stands(event.id(), Status::Dead, 3);
            }
        }
        events.push(event);
    }
    (history, events)
}

fn fates() -> impl Strategy<Value = Vec<(Fate, u8, u8)>> {
    prop::collection::vec((fate(), 0..3_u8, 0..4_u8), 1..40)
}

proptest! {
    #[test]
    fn a_history_that_keeps_every_promise_is_clean(fates in fates()) {
        let (history, _) = live(&fates);
        let verdict = history.verdict();
        prop_assert!(verdict.is_clean(), "{verdict}");
        let count = |wanted: fn(&Fate) -> bool| {
            fates.iter().filter(|(fate, _, _)| wanted(fate)).count() as u64
        };
        prop_assert_eq!(verdict.rolled_back, count(|fate| matches!(fate, Fate::RolledBack)));
        prop_assert_eq!(verdict.dead, count(|fate| matches!(fate, Fate::Dead)));
        prop_assert_eq!(
            verdict.duplicates,
            count(|fate| matches!(fate, Fate::Delivered { crash_after: true, .. }))
        );
        prop_assert_eq!((verdict.lost, verdict.phantoms, verdict.unexplained), (0, 0, 0));
    }

    #[test]
    fn a_failed_run_in_place_of_every_successful_one_is_a_loss(
        fates in fates(),
        victim in any::<prop::sample::Index>(),
    ) {
        let (history, events) = live(&fates);
        let (fate, _, _) = &fates[victim.index(fates.len())];
        let id = events[victim.index(fates.len())].id();
        let mut entries = history.entries();
        let started: BTreeMap<usize, _> = entries
            .iter()
            .enumerate()
            .filter_map(|(at, entry)| match entry {
                Entry::Started { id, .. } => Some((at, *id)),
                _ => None,
            })
            .collect();
        for entry in &mut entries {
            if let Entry::Finished { started: at, ok } = entry {
                *ok = *ok && started[at] != id;
            }
        }
        let verdict = check_entries(&entries, &Expectations { max_attempts: None, ..HEALED });
        let lost = matches!(fate, Fate::Delivered { .. });
        prop_assert_eq!(verdict.violations, Vec::from_iter(lost.then_some(Violation::Lost { id })));
    }

    #[test]
    fn two_more_deliveries_at_the_end_never_go_unnoticed(
        fates in fates(),
        victim in any::<prop::sample::Index>(),
    ) {
        let (history, events) = live(&fates);
        let index = victim.index(fates.len());
        let first = history.len();
        // The first may be explained by an earlier fault; nothing happens between the two.
        history.deliver("late", &events[index], 1, true);
        history.deliver("late", &events[index], 1, true);
        let (id, second) = (events[index].id(), first + 2);
        let found = history.violations();
        let duplicate = Violation::UnexplainedDuplicate { id, first, second };
        prop_assert!(found.contains(&duplicate));
        if matches!(fates[index].0, Fate::RolledBack) {
            let phantom = Violation::Phantom { id };
            prop_assert!(found.contains(&phantom));
        }
    }
}

#[test]
fn nothing_at_all_is_clean() {
    let verdict = History::new().verdict();
    assert!(verdict.is_clean());
    assert_eq!(verdict, Default::default());
}

#[test]
fn a_large_history_written_by_many_threads_is_checked() {
    const EACH: u64 = 25_000;
    let history = History::new();
    std::thread::scope(|scope| {
        for _ in 0..4 {
            scope.spawn(|| {
                for _ in 0..EACH {
                    history.write_and_deliver(&event());
                }
            });
        }
    });
    assert_eq!(history.len() as u64, 4 * 4 * EACH);
    let verdict = history.verdict();
    assert!(verdict.is_clean(), "{verdict}");
    assert_eq!((verdict.written, verdict.delivered, verdict.duplicates), (4 * EACH, 4 * EACH, 0));
}
