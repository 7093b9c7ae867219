//! Decisions and the conditions that they append under.

use std::sync::Arc;

use sendoff_core::journal::{Query, Recorded};
use sendoff_engine::journal::{AppendError, Journal, JournalStore, fold};
use tokio::sync::Barrier;

use super::{fact, found, tagged};
use crate::journal::JournalHarness;

const DUELS: usize = 100;

/// J2: the query of the models becomes the condition of the append.
pub async fn models_are_read_together_and_what_they_asked_for_is_the_condition(
    harness: impl JournalHarness,
) {
    let journal = harness.journal();
    let facts = [fact("a", &["w=1"]), fact("b", &["w=2"]), fact("c", &["w=1", "w=2"])];
    let receipts = journal.append(facts).await.unwrap();
    let names = |query| {
        fold(query, String::new(), |names: &mut String, fact: &Recorded| {
            names.push_str(fact.event().event_type());
            Ok(())
        })
    };
    let all = (names(tagged("w=1")), names(tagged("w=2")), names(Query::of_type("x")));
    let decided = journal.decide(all).await.unwrap();
    let (one, two, three) = &decided.model;
    assert_eq!((&*one.state, &*two.state, &*three.state), ("ac", "bc", ""));
    assert!(decided.condition.after >= receipts[2].position);

    // What has nothing to do with it does not disturb it.
    journal.append([fact("d", &["w=3"])]).await.unwrap();
    journal.append_if([fact("e", &["w=1"])], decided.condition.clone()).await.unwrap();
    let late = journal.append_if([fact("f", &["w=1"])], decided.condition).await;
    assert!(matches!(late, Err(AppendError::Conflict(_))), "{late:?}");
}

/// J1: two decide by the same facts and append at the same time.
pub async fn of_two_conflicting_appends_exactly_one_wins(harness: impl JournalHarness) {
    let journal = harness.journal();
    for _ in 0..DUELS {
        let barrier = Arc::new(Barrier::new(2));
        let (one, two) = tokio::join!(rival(journal, &barrier), rival(journal, &barrier));
        assert_eq!(u8::from(one) + u8::from(two), 1);
    }
    assert_eq!(found(journal, tagged("w=1")).await.len(), DUELS);
}

async fn rival<S: JournalStore>(journal: &Journal<S>, barrier: &Arc<Barrier>) -> bool {
    let count = fold(tagged("w=1"), 0_usize, |count: &mut usize, _: &Recorded| {
        *count += 1;
        Ok(())
    });
    let condition = journal.decide(count).await.unwrap().condition;
    barrier.wait().await;
    let (journal, barrier) = (journal.clone(), Arc::clone(barrier));
    // On a task of its own, so that both are really made at once.
    let appending = tokio::spawn(async move {
        barrier.wait().await;
        journal.append_if([fact("won", &["w=1"])], condition).await
    });
    match appending.await.unwrap() {
        Ok(_) => true,
        Err(AppendError::Conflict(_)) => false,
        Err(error) => panic!("{error:?}"),
    }
}
