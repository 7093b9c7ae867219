//! Appends: what comes back, conditions, repeated appends.

use sendoff_core::journal::{Fact, Item, Position, Query, Run};
use sendoff_core::{Event, EventId, Timestamp, limits};
use sendoff_engine::journal::{AppendError, Conflict, Journal, JournalStore, Page, Receipt, fold};

use super::{append_in, fact, found, position, tag, tagged, types};
use crate::journal::{Ending, JournalHarness};

/// J1, J2: to the byte, with everything that was said.
pub async fn facts_come_back_as_they_were_appended(harness: impl JournalHarness) {
    let journal = harness.journal();
    let facts = thorny();
    let receipts = journal.append(facts.clone()).await.unwrap();
    came_back(journal, &facts, &receipts).await;
}

/// Facts with whatever is hard to carry.
pub(super) fn thorny() -> [Fact; 3] {
    let first = Fact::builder(
        Event::builder("order.placed")
            .header("source", "shop \"7\"")
            .occurred_at(Timestamp::from_micros(-1))
            .json_text(r#"{"total": 1.0, "total": "€"}"#),
    )
    .tag("order_id", "{a,b}\"\\'")
    .tag("order_id", "x=y")
    .tag("Größe", "NULL")
    .correlation_id(EventId::from_bytes([1; 16]))
    .build()
    .unwrap();
    let scan = Event::builder("scan").bytes(vec![0, 0xff]).content_type("application/x-scan");
    let second = Fact::builder(scan).caused_by(&first).build().unwrap();
    let none: Fact = Fact::builder(Event::builder("none").bytes("")).build().unwrap();

    [first, second, none]
}

/// The journal has these facts and no others, as they are.
pub(super) async fn came_back<S: JournalStore>(
    journal: &Journal<S>,
    facts: &[Fact],
    receipts: &[Receipt],
) {
    let found = found(journal, Query::all()).await;
    assert_eq!(found.len(), facts.len());
    for ((fact, receipt), recorded) in facts.iter().zip(receipts).zip(&found) {
        assert_eq!(recorded.event().as_ref(), fact.event().as_ref());
        assert_eq!(recorded.tags(), fact.tags());
        assert_eq!(recorded.fact.correlation_id(), fact.correlation_id());
        assert_eq!(recorded.fact.causation_id(), fact.causation_id());
        assert_eq!(recorded.position, receipt.position);
        assert_eq!(recorded.recorded_at, receipt.recorded_at);
        assert!(receipt.fresh);
    }
    assert_eq!(receipts[1].position, receipts[0].position.next());
    assert_eq!(journal.head().await.unwrap(), receipts[2].position);
}

/// J2.
pub async fn facts_are_found_by_types_and_tags_above_a_position(harness: impl JournalHarness) {
    let journal = harness.journal();
    let facts = [
        fact("a", &["w=1"]),
        fact("b", &["w=1", "bank=x"]),
        fact("c", &["w=2", "bank=x"]),
        fact("d", &[]),
        fact("b", &["w=2"]),
        fact("b\"}", &["odd={\"\\'"]),
    ];
    journal.append(facts.clone()).await.unwrap();
    let item = Item::any;
    for query in [
        Query::all(),
        tagged("w=1"),
        tagged("w=9"),
        tagged("odd={\"\\'"),
        Query::of_type("b"),
        Query::of_type("b\"}"),
        Query::of(item().of_type("a").of_type("d")),
        Query::of(item().tagged(tag("w=2")).tagged(tag("bank=x"))),
        Query::of(item().tagged(tag("w=2")).tagged(tag("bank=y"))),
        Query::of(item().tagged(tag("w=2")).of_type("b")),
        tagged("bank=x").or(tagged("w=1")).or(Query::of_type("b")),
        Query::of_type("d").or(Query::of(item())),
    ] {
        let expected: Vec<_> = facts.iter().filter(|fact| query.matches(fact)).collect();
        let expected: Vec<_> = expected.iter().map(|fact| fact.event().event_type()).collect();
        assert_eq!(types(journal, query.clone()).await, expected, "{query:?}");
    }
    let all = found(journal, tagged("w=1")).await;
    let after = journal.read(tagged("w=1"), all[0].position);
    let after: Vec<_> = futures_util::TryStreamExt::try_collect(after).await.unwrap();
    assert_eq!(after, all[1..]);
}

/// J2: pages end where rows do, not where facts do.
pub async fn a_read_goes_on_over_its_pages(harness: impl JournalHarness) {
    let journal = harness.journal();
    for _ in 0..2 {
        let facts = (0..limits::APPEND_FACTS).map(|_| fact("t", &["w=1"]));
        journal.append(facts).await.unwrap();
    }
    journal.append([fact("t", &["w=1"])]).await.unwrap();
    let found = found(journal, tagged("w=1")).await;
    assert_eq!(found.len(), 2 * limits::APPEND_FACTS + 1);
    assert!(found.is_sorted_by(|a, b| a.position < b.position));
}

/// J1.
pub async fn what_is_appended_in_a_transaction_ends_with_it(harness: impl JournalHarness) {
    let journal = harness.journal();
    let facts = |event_type| [fact(event_type, &["w=1"]), fact(event_type, &["w=2"])];
    append_in(&harness, &facts("undone"), None, Ending::RollBack).await.unwrap();
    assert!(found(journal, Query::all()).await.is_empty());
    let receipts = append_in(&harness, &facts("kept"), None, Ending::Commit).await.unwrap();
    assert_eq!(types(journal, Query::all()).await, ["kept", "kept"]);
    assert_eq!(types(journal, tagged("w=2")).await, ["kept"]);
    let found = found(journal, tagged("w=1")).await;
    assert_eq!(found[0].position, receipts[0].position);
}

/// J1.
pub async fn a_conflict_is_typed_names_the_position_and_stores_nothing(
    harness: impl JournalHarness,
) {
    let journal = harness.journal();
    let receipts = journal.append([fact("a", &["w=1"]), fact("b", &["w=2"])]).await.unwrap();
    let (first, second) = (receipts[0].position, receipts[1].position);
    let rivals = [fact("c", &["w=1"]), fact("d", &["w=2"])];

    let answer = journal.append_if(rivals.clone(), tagged("w=2").none_after(first)).await;
    let expected = Conflict::Fact { position: second };
    assert!(matches!(answer, Err(AppendError::Conflict(found)) if found == expected), "{answer:?}");
    let never = Some(Query::of_type("a").none_after(Position::START));
    let answer = append_in(&harness, &rivals, never, Ending::Commit).await;
    assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
    assert_eq!(types(journal, Query::all()).await, ["a", "b"]);

    journal.append_if(rivals, tagged("w=2").none_after(second)).await.unwrap();
    let everything = Query::all().none_after(second);
    let answer = journal.append_if([fact("e", &[])], everything).await;
    assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
    assert_eq!(types(journal, Query::all()).await, ["a", "b", "c", "d"]);
}

/// J1: what a decision was read from may be gone where the server is not the same any more; a store that
/// cannot lose what it has shown says nothing of runs.
pub async fn a_condition_that_was_read_in_another_run_of_the_server_does_not_hold(
    harness: impl JournalHarness,
) {
    let journal = harness.journal();
    journal.append([fact("a", &["w=1"])]).await.unwrap();
    let read = async |tag| {
        let seen = fold(tagged(tag), 0, |seen, _| {
            *seen += 1;
            Ok(())
        });
        journal.decide(seen).await.unwrap().condition
    };
    let condition = read("w=1").await;
    let Some(run) = condition.run else { return };
    // Pages say it too, so that none is another server's.
    let page = Page::first(Position::START, Position::END);
    let found = journal.store().read(&tagged("w=1"), page).await.unwrap();
    assert!(found.run.is_none_or(|of_page| of_page == run), "{:?} {run:?}", found.run);
    let known = fact("b", &["w=1"]);
    journal.append_if([known.clone()], condition.clone()).await.unwrap();
    let here = read("w=1").await;
    append_in(&harness, &[fact("c", &["w=1"])], Some(here), Ending::Commit).await.unwrap();

    let other = Run::numbered(run.number() - 1);
    // Also where there is nothing now: it may be what is gone.
    for tag in ["w=1", "w=2"] {
        let gone = read(tag).await.read_in(Some(other));
        let facts = [fact("lost", &["w=1"])];
        for answer in [
            journal.append_if(facts.clone(), gone.clone()).await,
            append_in(&harness, &facts, Some(gone), Ending::Commit).await,
        ] {
            let restarted = matches!(answer, Err(AppendError::Conflict(Conflict::Restarted)));
            assert!(restarted, "{tag} {answer:?}");
        }
    }
    // One that is there is no conflict with itself.
    let again = condition.read_in(Some(other));
    let receipts = journal.append_if([known.clone()], again.clone()).await.unwrap();
    assert!(!receipts[0].fresh);
    append_in(&harness, &[known], Some(again), Ending::Commit).await.unwrap();
    assert_eq!(types(journal, Query::all()).await, ["a", "b", "c"]);
}

fn places(receipts: &[Receipt]) -> Vec<(Position, Timestamp)> {
    receipts.iter().map(|receipt| (receipt.position, receipt.recorded_at)).collect()
}

/// J1: one whose answer was lost can be made again.
pub async fn an_append_that_is_repeated_is_there_once(harness: impl JournalHarness) {
    let journal = harness.journal();
    let facts = [fact("a", &["w=1"]), fact("b", &["w=1"])];
    let never = || tagged("w=1").none_after(Position::START);
    let first = journal.append_if(facts.clone(), never()).await.unwrap();
    let second = journal.append_if(facts.clone(), never()).await.unwrap();
    let third = journal.append(facts.clone()).await.unwrap();
    let fourth = append_in(&harness, &facts, Some(never()), Ending::Commit).await.unwrap();
    assert!(first.iter().all(|receipt| receipt.fresh));
    for again in [second, third, fourth] {
        assert_eq!(places(&again), places(&first));
        assert!(again.iter().all(|receipt| !receipt.fresh));
    }
    assert_eq!(types(journal, Query::all()).await, ["a", "b"]);
}

/// J1.
pub async fn another_fact_under_the_same_id_is_refused(harness: impl JournalHarness) {
    let journal = harness.journal();
    let known = fact("a", &["w=1"]);
    journal.append([known.clone()]).await.unwrap();
    let event = |event_type: &str, payload: &str| {
        Event::builder(event_type).id(known.id()).json_text(payload)
    };
    for other in [
        Fact::builder(event("a", "[]")).tags([tag("w=1")]),
        Fact::builder(event("b", "{}")).tags([tag("w=1")]),
        Fact::builder(event("a", "{}")),
        Fact::builder(event("a", "{}").content_type("text/plain")).tags([tag("w=1")]),
    ] {
        let answer = journal.append([other]).await;
        assert!(matches!(answer, Err(AppendError::IdTaken)), "{answer:?}");
    }
    let mixed = journal.append([fact("c", &[]), known]).await;
    assert!(matches!(mixed, Err(AppendError::IdTaken)), "{mixed:?}");
    assert_eq!(types(journal, Query::all()).await, ["a"]);
}

/// J1: one puts it there, and both are told where.
pub async fn the_same_append_twice_at_once_is_there_once(harness: impl JournalHarness) {
    let journal = harness.journal();
    for _ in 0..50 {
        let facts = [fact("b", &["w=1"]), fact("c", &["w=2"])];
        let (one, two) = tokio::join!(journal.append(facts.clone()), journal.append(facts.clone()));
        let (one, two) = (one.unwrap(), two.unwrap());
        assert_eq!(places(&one), places(&two));
        assert_ne!(one[0].fresh, two[0].fresh);
    }
    assert!(journal.head().await.unwrap() >= position(100));
}
