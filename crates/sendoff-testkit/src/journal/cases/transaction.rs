//! In transactions of the application's, through one driver or another.

use std::sync::{Arc, mpsc};

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Condition, Fact, Position, Query};
use sendoff_core::{Event, limits};
use sendoff_engine::journal::publish::{PublishStore, Seen, Which};
use sendoff_engine::journal::{AppendError, Conflict, Receipt};

use super::append::{came_back, thorny};
use super::{fact, found, tag, tagged, types};
use crate::journal::{Deed, Ending, JournalHarness, Moving};

fn append(facts: impl Into<Vec<Fact>>, condition: Option<Condition>) -> Deed {
    Deed::Append(Append::new(facts.into(), condition).unwrap())
}

/// What the only append was answered.
async fn only(harness: &impl JournalHarness, step: Deed) -> Result<Vec<Receipt>, AppendError> {
    harness.transact(&[step], Ending::Commit).await.pop().unwrap()
}

/// J1: to the byte, with everything that was said.
pub async fn facts_appended_in_a_transaction_come_back_as_they_were(harness: impl JournalHarness) {
    let facts = thorny();
    let receipts = only(&harness, append(facts.clone(), None)).await.unwrap();
    came_back(harness.journal(), &facts, &receipts).await;
    let condition = tagged("order_id={a,b}\"\\'").none_after(Position::START);
    let answer = only(&harness, append([fact("late", &[])], Some(condition))).await;
    assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
}

/// J1.
pub async fn a_large_append_in_a_transaction_is_whole_and_in_order(harness: impl JournalHarness) {
    let large: Vec<_> = (0..limits::APPEND_FACTS).map(|_| fact("t", &["w=1", "w=2"])).collect();
    let receipts = only(&harness, append(large.clone(), None)).await.unwrap();
    assert!(receipts.is_sorted_by(|a, b| a.position < b.position));
    let found = found(harness.journal(), tagged("w=2")).await;
    assert!(found.iter().map(|fact| fact.fact.id()).eq(large.iter().map(Fact::id)));
}

/// J1: what was appended under a savepoint ends with it, and what was before and after does not.
pub async fn a_savepoint_that_is_rolled_back_takes_its_facts_with_it(harness: impl JournalHarness) {
    let undone = fact("undone", &["w=1"]);
    let steps = [
        append([fact("before", &["w=1"])], None),
        Deed::Sql("savepoint one"),
        append([undone.clone()], None),
        Deed::Sql("rollback to savepoint one"),
        append([fact("after", &["w=1"])], None),
        // What was undone was never there, and can be appended.
        append([undone], None),
    ];
    let answers = harness.transact(&steps, Ending::Commit).await;
    let fresh = |answer: Result<Vec<Receipt>, AppendError>| answer.unwrap()[0].fresh;
    assert!(answers.into_iter().all(fresh));
    assert_eq!(types(harness.journal(), tagged("w=1")).await, ["before", "after", "undone"]);
}

/// J1: a conflict is typed, stores nothing, and is no reason for the transaction to end.
pub async fn after_a_conflict_the_transaction_goes_on(harness: impl JournalHarness) {
    let journal = harness.journal();
    let receipts = journal.append([fact("a", &["w=1"])]).await.unwrap();
    let never = Query::of_type("a").none_after(Position::START);
    let since = tagged("w=1").none_after(receipts[0].position);
    let steps = [
        append([fact("b", &["w=1"])], None),
        append([fact("c", &["w=1"])], Some(never)),
        // Its own facts count as well.
        append([fact("d", &["w=1"])], Some(since)),
        append([fact("e", &["w=2"])], Some(tagged("w=2").none_after(Position::START))),
    ];
    let answers = harness.transact(&steps, Ending::Commit).await;
    let conflicts: Vec<_> = answers
        .iter()
        .map(|answer| match answer {
            Ok(_) => None,
            Err(AppendError::Conflict(Conflict::Fact { position })) => Some(*position),
            Err(error) => panic!("{error:?}"),
        })
        .collect();
    let own = answers[0].as_ref().unwrap()[0].position;
    assert_eq!(conflicts, [None, Some(receipts[0].position), Some(own), None]);
    assert_eq!(types(journal, Query::all()).await, ["a", "b", "e"]);
}

/// J1: and the transaction goes on, as after a conflict.
pub async fn another_fact_under_the_same_id_is_refused_in_a_transaction(
    harness: impl JournalHarness,
) {
    let known = fact("a", &["w=1"]);
    harness.journal().append([known.clone()]).await.unwrap();
    let other = Event::builder("a").id(known.id()).json_text("[]");
    let other = Fact::builder(other).tags([tag("w=1")]).build().unwrap();
    let steps = [append([other], None), append([fact("b", &["w=1"])], None)];
    let answers = harness.transact(&steps, Ending::Commit).await;
    assert!(matches!(answers[0], Err(AppendError::IdTaken)), "{:?}", answers[0]);
    assert!(answers[1].is_ok(), "{:?}", answers[1]);
    assert_eq!(types(harness.journal(), tagged("w=1")).await, ["a", "b"]);
}

/// J1: a snapshot from the beginning of the transaction is older than the locks. Without a condition
/// there is nothing to look for.
pub async fn a_condition_is_refused_where_the_snapshot_is_old(harness: impl JournalHarness) {
    for level in [
        "set transaction isolation level repeatable read",
        "set transaction isolation level serializable",
    ] {
        let condition = tagged("w=1").none_after(Position::END);
        let steps = [
            Deed::Sql(level),
            append([fact("refused", &["w=1"])], Some(condition)),
            append([fact("kept", &["w=1"])], None),
        ];
        let answers = harness.transact(&steps, Ending::Commit).await;
        assert!(matches!(answers[0], Err(AppendError::Isolation)), "{:?}", answers[0]);
        assert!(answers[1].is_ok(), "{:?}", answers[1]);
    }
    assert_eq!(types(harness.journal(), Query::all()).await, ["kept", "kept"]);
}

/// Holds J8: with its transaction or not at all, and only from where it is, by who leads it.
pub async fn a_cursor_moves_with_the_transaction_or_not_at_all<H>(harness: H)
where
    H: JournalHarness<Store: PublishStore>,
{
    let journal = harness.journal();
    let (store, pair) = (journal.store(), PairId::new("\"t'", "p\\").unwrap());
    let at = |number: u64| Position::new(number).unwrap();
    store.register(&[(pair.clone(), at(5))]).await.unwrap();
    let seen = Seen { pair: Arc::new(pair.clone()), leader: None, epoch: 0 };
    assert_eq!(store.take("us", &[seen]).await.unwrap()[0].epoch, 1);
    let step = async |owner, epoch, way: (u64, u64), ending| {
        let (told, answer) = mpsc::channel();
        let way = (at(way.0), at(way.1));
        let moving = Moving { pair: pair.clone(), owner, epoch, way, told };
        let before = append([fact("effect", &["w=1"])], None);
        let answers = harness.transact(&[before, Deed::Move(moving)], ending).await;
        assert!(answers[0].is_ok());
        answer.recv().unwrap().unwrap()
    };
    let stands =
        async || journal.publishers().cursors(&Which::pair(&pair)).await.unwrap().remove(0);
    assert!(step("us", 1, (5, 7), Ending::RollBack).await);
    assert_eq!(stands().await.position, at(5));
    for (owner, epoch, way) in [("them", 1, (5, 7)), ("us", 0, (5, 7)), ("us", 1, (6, 7))] {
        assert!(!step(owner, epoch, way, Ending::RollBack).await, "{owner} {epoch} {way:?}");
    }
    assert!(step("us", 1, (5, 7), Ending::Commit).await);
    let there = stands().await;
    assert_eq!((there.position, there.errors, there.epoch), (at(7), 0, 1));
    assert!(there.published_at.is_some() && there.leader.as_deref() == Some("us"));
    assert_eq!(types(journal, Query::all()).await, ["effect"]);
}
