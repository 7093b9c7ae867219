use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::{Append, Item, Position, Query, Recorded};
use sendoff_engine::journal::{
    AppendError, DecideError, ExecuteError, JournalStore, Model, Page, fold,
};
use sendoff_postgres::JournalOptions;
use sendoff_testkit::wait::eventually;

use super::{fact, journal, journal_with, options, position, tag, tagged};
use crate::place::Place;

struct Count {
    query: Query,
    facts: Vec<u64>,
}

impl Count {
    fn of(query: Query) -> Self {
        Self { query, facts: Vec::new() }
    }
}

impl Model for Count {
    fn query(&self) -> Query {
        self.query.clone()
    }

    fn apply(&mut self, fact: &Recorded) -> Result<(), BoxError> {
        self.facts.push(fact.position.get());
        Ok(())
    }
}

/// Holds J2: an append with a lower position is open; the decision waits for it, and for nothing else.
#[tokio::test]
async fn a_decision_never_misses_an_open_lower_position() {
    let place = Place::new();
    let journal = journal(&place).await;
    let mut client = place.client().await;
    let mut low = client.transaction().await.unwrap();
    journal.append_in(&mut low, [fact("low", &["w=1"])], None).await.unwrap();
    journal.append([fact("high", &["w=2"])]).await.unwrap();

    let item = Item::any().tagged(tag("w=1")).of_type("low");
    let deciding = tokio::spawn({
        let journal = journal.clone();
        async move { journal.decide(Count::of(Query::of(item))).await.unwrap() }
    });
    let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
                      and classid = 'journal_event'::regclass::oid";
    eventually("the decision to wait", async || place.number(waiting).await == 1).await;
    low.commit().await.unwrap();
    let decided = deciding.await.unwrap();
    assert_eq!(decided.model.facts, [1]);
    assert_eq!(decided.condition.after, position(2));
    journal.append_if([fact("next", &["w=1"])], decided.condition).await.unwrap();
}

#[tokio::test]
async fn a_model_that_fails_says_where() {
    let place = Place::new();
    let journal = journal(&place).await;
    journal.append([fact("a", &["w=1"]), fact("b", &["w=1"])]).await.unwrap();
    let picky = fold(tagged("w=1"), (), |(), fact| match fact.event().event_type() {
        "a" => Ok(()),
        other => Err(format!("what is {other}?").into()),
    });
    let answer = journal.decide(picky).await.map(|_| ());
    let Err(DecideError::Model { position: at, .. }) = answer else { panic!("{answer:?}") };
    assert_eq!(at, position(2));
}

/// Whoever falls silent with its keys locked is ended by the server: the next has its turn within seconds,
/// and what the silent one decided comes too late.
#[tokio::test]
async fn a_decision_that_falls_silent_under_its_locks_is_ended_by_the_server() {
    let place = Place::new();
    let journal = journal(&place).await;
    let patience = Duration::from_millis(50);
    let impatient = journal_with(&place, JournalOptions { patience, ..options(&place) }).await;
    journal.append([fact("a", &["w=1"])]).await.unwrap();
    let first = Page::first(Position::START, Position::END);
    let silent = journal.store().lock(&tagged("w=1"), None, first).await.unwrap().unwrap();
    assert_eq!((silent.mark, silent.found.facts.len()), (position(1), 1));
    journal.append([fact("a", &["w=2"])]).await.unwrap();

    let next = |_| Ok::<_, BoxError>(vec![fact("b", &["w=1"])]);
    let busy = impatient.execute_locked(|| Count::of(tagged("w=1")), next).await;
    assert!(matches!(busy, Err(ExecuteError::Decide(DecideError::Busy(_)))), "{busy:?}");
    let done = journal.execute_locked(|| Count::of(tagged("w=1")), next).await.unwrap();
    assert_eq!((done.tries, done.receipts[0].position), (1, position(3)));
    let late = Append::new(vec![fact("late", &["w=1"])], None).unwrap();
    let answer = silent.transaction.append(&late).await;
    assert!(matches!(answer, Err(AppendError::Store(_))), "{answer:?}");
    assert_eq!(journal.decide(Count::of(tagged("w=1"))).await.unwrap().model.facts.len(), 2);
}
