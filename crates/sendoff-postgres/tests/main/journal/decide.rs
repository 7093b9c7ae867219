//! Decisions beside open appends, and locks of those who fall silent, on PostgreSQL.

use std::time::Duration;

use sendoff_core::journal::{Fact, Item, Position, Query, Recorded};
use sendoff_core::{BoxError, Event};
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, ExecuteError, JournalStore, Model, Page, fold,
};
use sendoff_postgres::{Doorbell, JournalLayout, JournalOptions, PostgresOptions};
use sendoff_testkit::journal::busy;
use sendoff_testkit::wait::eventually;

use super::{Log, fact, journal, journal_in, journal_with, options, position, ranges, tag, tagged};
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
/// and what the silent one decided comes too late. So it is whether a session has them or a transaction.
#[tokio::test]
async fn a_decision_that_falls_silent_under_its_locks_is_ended_by_the_server() {
    for doorbell in [Doorbell::On, Doorbell::Off] {
        let place = Place::new();
        let server = PostgresOptions { doorbell, ..place.options() };
        let journal = journal_with(&place, JournalOptions { server, ..options(&place) }).await;
        let patience = Duration::from_millis(50);
        let impatient = journal_with(&place, JournalOptions { patience, ..options(&place) }).await;
        busy::a_decision_that_falls_silent_under_its_locks_is_ended(&journal, &impatient).await;
    }
}

/// A fact that is there already is no new one, whoever has its locks; and another under its id is refused.
#[tokio::test]
async fn what_is_decided_under_locks_and_was_appended_before_is_known() {
    let place = Place::new();
    let journal = journal(&place).await;
    let known = fact("a", &["w=1"]);
    journal.append([known.clone()]).await.unwrap();
    let model = || Count::of(tagged("w=1"));

    let again = |_| Ok::<_, BoxError>(vec![known.clone()]);
    let done = journal.execute_locked(model, again).await.unwrap();
    assert_eq!((done.receipts[0].position, done.receipts[0].fresh), (position(1), false));

    let other = Event::builder("b").id(known.id()).bytes("{}");
    let other = Fact::builder(other).tag("w", "1").build().unwrap();
    let answer = journal.execute_locked(model, |_| Ok::<_, BoxError>(vec![other.clone()])).await;
    assert!(matches!(answer, Err(ExecuteError::Append(AppendError::IdTaken))), "{answer:?}");
    // The keys are free again.
    let next = |_| Ok::<_, BoxError>(vec![fact("c", &["w=1"])]);
    let done = journal.execute_locked(model, next).await.unwrap();
    assert!(done.receipts[0].fresh);
}

/// Several at once are, too; and where only some are there, none of the others is appended.
#[tokio::test]
async fn of_several_facts_decided_under_locks_all_are_appended_or_none() {
    for layout in [JournalLayout::Flat, JournalLayout::Partitioned(ranges(1_000))] {
        let place = Place::new();
        let journal = journal_in(&place, layout).await;
        let model = || Count::of(tagged("w=1"));
        let decided = async |facts: Vec<Fact>| {
            journal.execute_locked(model, |_| Ok::<_, BoxError>(facts.clone())).await
        };
        let two = vec![fact("a", &["w=1", "v=1"]), fact("b", &["w=2"])];
        let done = decided(two.clone()).await.unwrap();
        assert!(done.receipts.iter().all(|receipt| receipt.fresh));
        assert!(done.receipts[0].position < done.receipts[1].position);
        let again = decided(two.clone()).await.unwrap();
        assert!(again.receipts.iter().all(|receipt| !receipt.fresh));
        assert_eq!(again.receipts[1].position, done.receipts[1].position);

        let mixed = decided(vec![fact("c", &["w=1"]), two[0].clone()]).await;
        let taken = matches!(mixed, Err(ExecuteError::Append(AppendError::IdTaken)));
        assert!(taken, "{layout:?}: {mixed:?}");
        assert_eq!(place.number("select count(*) from journal_event").await, 2, "{layout:?}");
        assert_eq!(place.number("select count(*) from journal_tag").await, 3, "{layout:?}");
        assert!(decided(vec![fact("d", &["w=1"])]).await.unwrap().receipts[0].fresh);
    }
}

/// A tag's facts are read in another way than what several tags or types mean, and it is the same, also
/// where it takes several pages, and where a fact is larger than its share of one.
#[tokio::test]
async fn facts_with_a_tag_are_the_same_however_they_are_read() {
    let place = Place::new();
    let journal = journal(&place).await;
    for (event_type, bytes) in
        [("a", 2), ("closed", 2), ("b", 2), ("closed", 90), ("a", 2), ("b", 700), ("c", 2)]
    {
        let large = |tag: &str| {
            let payload = format!("\"{}\"", "x".repeat(bytes));
            Fact::builder((event_type, &*payload)).tags([tag.parse().unwrap()]).build().unwrap()
        };
        journal.append([large("w=1"), large("w=2")]).await.unwrap();
    }
    let one = || Item::any().tagged(tag("w=1"));
    let positions = async |query: Query, closing: Option<Query>, mut page: Page| {
        let store = journal.store();
        let basis = Basis { query: &query, closing: closing.as_ref(), page };
        let mut found = store.read_from_last(basis).await.unwrap();
        let mut positions = Vec::new();
        loop {
            positions.extend(found.facts.iter().map(|fact| fact.position.get()));
            if !found.more {
                return positions;
            }
            page.after = found.facts.last().expect("a page brings something").position;
            found = store.read(&query, page).await.unwrap();
        }
    };
    let closings = [
        None,
        Some(one().of_type("closed")),
        Some(one().of_type("closed").of_type("b")),
        Some(one().of_type("d")),
        Some(one()),
        Some(Item::any().tagged(tag("w=2")).of_type("closed")),
    ];
    for (limit, bytes) in [(100, 100_000), (100, 9_000), (3, 300), (1, 1)] {
        let page = Page { after: Position::START, up_to: Position::END, limit, bytes };
        for item in [one(), one().of_type("a").of_type("closed"), one().of_type("b").of_type("c")] {
            for closing in &closings {
                // With another item, which nothing has, it is no longer one tag.
                let with_other = |item: &Item| {
                    Query::of(item.clone()).or(Query::of(Item::any().tagged(tag("w=none"))))
                };
                let by_tag = (Query::of(item.clone()), closing.clone().map(Query::of));
                let by_tag = positions(by_tag.0, by_tag.1, page).await;
                let searched = (with_other(&item), closing.as_ref().map(with_other));
                let searched = positions(searched.0, searched.1, page).await;
                assert_eq!(by_tag, searched, "{item:?} from {closing:?} in {page:?}");
            }
        }
        let closing = closings[1].clone().map(Query::of);
        assert_eq!(positions(Query::of(one()), closing, page).await, [7, 9, 11, 13]);
    }
}

/// A process remembers where it saw a book closed. Whatever became of that since, it finds what one finds
/// that remembers nothing.
#[tokio::test]
async fn where_a_book_was_closed_is_looked_up_anew_once_it_is_not_there() {
    let place = Place::new();
    let known = journal(&place).await;
    let one = || Item::any().tagged(tag("w=1"));
    let (query, closing) = (Query::of(one()), Query::of(one().of_type("closed")));
    let page = Page { limit: 1_000, ..Page::first(Position::START, Position::END) };
    let found = async |journal: &Log| {
        let basis = Basis { query: &query, closing: Some(&closing), page };
        let found = journal.store().read_from_last(basis).await.unwrap();
        assert!(!found.more);
        found.facts.iter().map(|fact| fact.position.get()).collect::<Vec<_>>()
    };
    let other = journal(&place).await;
    let append = async |event_type: &str| {
        other.append([fact(event_type, &["w=1"])]).await.unwrap();
    };
    assert!(found(&known).await.is_empty());
    append("a").await;
    assert_eq!(found(&known).await, [1], "as none closed");
    append("closed").await;
    append("b").await;
    assert_eq!(found(&known).await, [2, 3], "closed since");
    append("c").await;
    assert_eq!(found(&known).await, [2, 3, 4], "closed before");
    append("closed").await;
    append("closed").await;
    assert_eq!(found(&known).await, [6], "closed twice since");
    place.run("delete from journal_tag where position = 6").await;
    place.run("delete from journal_event where position = 6").await;
    assert_eq!(found(&known).await, [5], "no longer closed there");
    append("d").await;
    place.run("delete from journal_tag where position = 5").await;
    place.run("delete from journal_event where position = 5").await;
    assert_eq!(found(&known).await, [2, 3, 4, 7]);
    for _ in 0..120 {
        append("e").await;
    }
    let counted = async |journal: &Log| {
        let count = fold(query.clone(), 0, |count: &mut u32, _| {
            *count += 1;
            Ok(())
        });
        journal.decide(count.from_last(closing.clone())).await.unwrap().model.state
    };
    assert_eq!((counted(&known).await, counted(&other).await), (124, 124), "page by page");
    assert_eq!((counted(&known).await, counted(&other).await), (124, 124), "as both remember");
}
