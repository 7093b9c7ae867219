//! Who waits for whom when appends and decisions meet, on a real server.
#![allow(clippy::missing_panics_doc, reason = "a case that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use sendoff_core::BoxError;
use sendoff_core::journal::{Append, Condition, Fact, Position, Query};
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, ExecuteError, Journal, JournalStore, Page,
};

use super::facts::{count, fact, position, tagged};

/// To be called while somebody has an append of `a` on `w=1` open: whoever waits for it too long is told
/// so, and what has nothing to do with it does not wait.
pub async fn an_open_append_keeps_away_only_what_it_excludes<S: JournalStore>(
    journal: &Journal<S>,
) {
    for query in [tagged("w=1"), Query::of_type("a"), Query::all()] {
        let answer = journal.decide(count(query.clone())).await;
        assert!(matches!(answer, Err(DecideError::Busy(_))), "{query:?}");
        let condition = query.none_after(Position::END);
        let answer = journal.append_if([fact("b", &["w=2"])], condition).await;
        assert!(matches!(answer, Err(AppendError::Busy(_))), "{answer:?}");
    }
    journal.append([fact("a", &["w=1"])]).await.unwrap();
    journal.decide(count(tagged("w=2"))).await.unwrap();
    let condition = tagged("w=2").none_after(Position::START);
    journal.append_if([fact("b", &["w=2"])], condition).await.unwrap();
}

/// What a writer appends in a round, and under which condition: each shares what the others want alone, in
/// either order.
pub fn crossing(writer: usize, round: usize) -> ([Fact; 2], Condition) {
    let mut tags = ["w=1", "w=2", "w=3"];
    tags.rotate_left((writer + round) % 3);
    let facts = [fact("a", &tags[..2]), fact("b", &tags[1..])];
    let query = tagged(tags[0]).or(tagged(tags[2])).or(Query::of_type("b"));
    (facts, query.none_after(Position::END))
}

/// Whoever falls silent with its keys locked is ended by the server: the next has its turn within seconds,
/// and what the silent one decided comes too late. The other is the same journal with little patience.
pub async fn a_decision_that_falls_silent_under_its_locks_is_ended<S: JournalStore>(
    journal: &Journal<S>,
    impatient: &Journal<S>,
) {
    journal.append([fact("a", &["w=1"])]).await.unwrap();
    let page = Page::first(Position::START, Position::END);
    let basis = Basis { query: &tagged("w=1"), closing: None, page };
    let silent = journal.store().lock(basis).await.unwrap().unwrap();
    assert_eq!((silent.mark.position, silent.found.facts.len()), (position(1), 1));
    journal.append([fact("a", &["w=2"])]).await.unwrap();

    let next = |_| Ok::<_, BoxError>(vec![fact("b", &["w=1"])]);
    let busy = impatient.execute_locked(|| count(tagged("w=1")), next).await;
    assert!(matches!(busy, Err(ExecuteError::Decide(DecideError::Busy(_)))), "{busy:?}");
    let done = journal.execute_locked(|| count(tagged("w=1")), next).await.unwrap();
    assert_eq!((done.tries, done.receipts[0].position), (1, position(3)));
    let late = Append::new(vec![fact("late", &["w=1"])], None).unwrap();
    let answer = silent.transaction.append(&late).await;
    assert!(matches!(answer, Err(AppendError::Store(_))), "{answer:?}");
    assert_eq!(journal.decide(count(tagged("w=1"))).await.unwrap().model.state, 2);
}
