//! Histories of a log and its readers.

use std::sync::Arc;

use sendoff_core::Timestamp;
use sendoff_core::journal::{Fact, Position, Recorded, Topic};
use sendoff_testkit::history::{Fault, FaultKind, LogHistory, Violation};

fn topic(name: &str) -> Topic {
    let wallet = Topic::builder(name);
    if name == "all" { wallet } else { wallet.required_tags(["wallet"]) }.build().unwrap()
}

fn log() -> LogHistory {
    LogHistory::of([("all", topic("all")), ("wallets", topic("wallets"))])
}

/// The first has a wallet, the second has none, and so on.
fn facts(count: u64) -> Vec<Arc<Recorded>> {
    let fact = |number: u64| {
        let fact = Fact::builder(("moved", "{}"));
        let fact = if number % 2 == 1 { fact.tag("wallet", number) } else { fact };
        let position = Position::new(number).unwrap();
        let recorded_at = Timestamp::from_micros(0);
        Arc::new(Recorded { position, recorded_at, fact: fact.build().unwrap() })
    };
    (1..=count).map(fact).collect()
}

fn record(log: &LogHistory, facts: &[Arc<Recorded>]) {
    // In the order of commits, which is another.
    facts.iter().rev().for_each(|fact| log.recorded(&fact.fact, fact.position));
}

fn violations(log: &LogHistory, reader: &str) -> Vec<Violation> {
    log.verdicts()[reader].violations.clone()
}

#[test]
fn each_reader_gets_what_its_topic_selects_in_order() {
    let (log, facts) = (log(), facts(3));
    log.published("all", "n", &facts, false);
    log.published("all", "n", &facts, true);
    log.published("wallets", "n", &[facts[0].clone(), facts[2].clone()], true);
    record(&log, &facts);
    for (reader, verdict) in log.verdicts() {
        assert!(verdict.is_clean(), "{reader}: {verdict}");
    }
    assert_eq!((log.verdicts()["all"].delivered, log.verdicts()["wallets"].delivered), (3, 2));
}

#[test]
fn what_a_reader_did_not_get_is_lost() {
    let (log, facts) = (log(), facts(3));
    record(&log, &facts);
    log.published("all", "n", &facts[..2], true);
    assert_eq!(violations(&log, "all"), [Violation::Lost { id: facts[2].fact.id() }]);
    assert_eq!(violations(&log, "wallets").len(), 2);
}

#[test]
fn what_is_not_for_a_reader_or_was_rolled_back_is_a_phantom() {
    let (log, facts) = (log(), facts(2));
    log.recorded(&facts[1].fact, facts[1].position);
    log.rolled_back(&facts[0].fact);
    log.published("wallets", "n", &facts, true);
    let phantoms = violations(&log, "wallets");
    assert_eq!(phantoms.len(), 2, "{phantoms:?}");
    assert!(phantoms.iter().all(|found| matches!(found, Violation::Phantom { .. })));
}

#[test]
fn a_late_fact_that_comes_after_a_later_one_is_out_of_order() {
    let (log, facts) = (log(), facts(2));
    record(&log, &facts);
    log.published("all", "n", &facts[1..], true);
    log.published("all", "n", &facts[..1], true);
    let found = violations(&log, "all");
    assert!(matches!(found[..], [Violation::OutOfOrder { .. }]), "{found:?}");
}

#[test]
fn a_repetition_needs_a_fault() {
    let repeated = |fault: Option<Fault>| {
        let (log, facts) = (log(), facts(2));
        record(&log, &facts);
        log.published("wallets", "a", &facts[..1], true);
        log.published("all", "a", &facts, true);
        if let Some(fault) = fault {
            log.fault(&fault);
        }
        log.published("all", "b", &facts[1..], true);
        violations(&log, "all")
    };
    assert!(matches!(repeated(None)[..], [Violation::UnexplainedDuplicate { .. }]));
    assert_eq!(repeated(Some(Fault::on("a", FaultKind::Crash))), []);
    assert_eq!(repeated(Some(Fault::on("c", FaultKind::Crash))).len(), 1);
}
