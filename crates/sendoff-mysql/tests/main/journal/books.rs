//! Decisions begin where the book was closed last, and what is remembered of that is never wrong.

use sendoff_core::BoxError;
use sendoff_core::journal::{Fact, Item, Position, Query, Recorded};
use sendoff_engine::journal::{Fold, JournalStore, Page, fold};

use super::restart::started;
use super::{Log, fact, journal, run, tag, tagged};
use crate::place::{MARIADB, MYSQL, Place, connect};

const LARGE: usize = 100_000;

/// How many facts there are in all, and how many of them were looked at.
type Count = (u64, usize);

fn count() -> Fold<Count, impl FnMut(&mut Count, &Recorded) -> Result<(), BoxError> + Send + use<>>
{
    let closing = Query::of(Item::any().of_type("closed").tagged(tag("w=1")));
    let apply = |(all, seen): &mut Count, fact: &Recorded| {
        *seen += 1;
        if fact.event().event_type() == "closed" {
            *all = fact.event().read_json()?;
        } else {
            *all += 1;
        }
        Ok(())
    };
    fold(tagged("w=1"), (0, 0), apply).from_last(closing)
}

fn closed(all: u64) -> Fact {
    Fact::builder(("closed", &*all.to_string())).tags([tag("w=1")]).build().unwrap()
}

fn large(bytes: usize) -> Fact {
    let payload = format!("\"{}\"", "x".repeat(bytes - 2));
    Fact::builder(("large", &*payload)).tags([tag("w=1")]).build().unwrap()
}

/// What a decision sees that appends this. By a handle of its own: what that would know besides is none of
/// the store's.
async fn decided(journal: &Log, facts: Vec<Fact>) -> Count {
    let journal = Log::new(journal.store().clone());
    let mut seen = (0, 0);
    let decision = |model: Fold<Count, _>| {
        seen = model.state;
        Ok::<_, BoxError>(facts.clone())
    };
    journal.execute_locked(count, decision).await.unwrap();
    seen
}

#[tokio::test]
async fn a_decision_begins_where_the_book_was_closed_last_whoever_closed_it() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (one, other) = (journal(&place).await, journal(&place).await);
        let moved = || vec![fact("moved", &["w=1", "w=2"])];
        assert_eq!(decided(&one, moved()).await, (0, 0));
        assert_eq!(decided(&one, vec![closed(1)]).await, (1, 1));
        // What a decision reads is what it remembers, not what it appends.
        assert_eq!(decided(&one, moved()).await, (1, 2));
        assert_eq!(decided(&one, moved()).await, (2, 2));
        // Elsewhere, where nothing is remembered, and by somebody who does not decide.
        assert_eq!(decided(&other, vec![closed(3), closed(3)]).await, (3, 3));
        other.append(moved()).await.unwrap();
        // What is remembered is earlier than what could be found, and all that came later is there.
        assert_eq!(decided(&one, moved()).await, (4, 6));
        assert_eq!(decided(&one, Vec::new()).await, (5, 3));
        assert_eq!(one.decide(count()).await.unwrap().model.state, (5, 3));
    }
}

/// As after a restore: what is remembered is not there any more, or something else is in its place.
#[tokio::test]
async fn a_journal_that_went_back_is_read_as_it_is() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (here, elsewhere) = (journal(&place).await, journal(&place).await);
        let mut conn = place.conn().await;
        for facts in [0, 1, 5] {
            run(&mut conn, "truncate journal_event; truncate journal_tag").await;
            decided(&here, vec![fact("moved", &["w=1"]), closed(100)]).await;
            assert_eq!(decided(&here, Vec::new()).await, (100, 2));
            assert_eq!(decided(&here, Vec::new()).await, (100, 1));
            run(&mut conn, "truncate journal_event; truncate journal_tag").await;
            for _ in 0..facts {
                elsewhere.append([fact("moved", &["w=1"])]).await.unwrap();
            }
            assert_eq!(decided(&here, Vec::new()).await, (facts, facts as usize));
            assert_eq!(here.decide(count()).await.unwrap().model.state.0, facts);
        }
    }
}

/// What is too large for a short answer, be it the first, one in the middle, or the one that closed.
#[tokio::test]
async fn a_decision_sees_facts_of_any_size() {
    const LIMIT: usize = 32 * 1024;
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        for bytes in [LARGE, LIMIT, LIMIT + 1, 2, LARGE, 2] {
            let before = decided(&journal, vec![large(bytes)]).await;
            let after = journal.decide(count()).await.unwrap().model.state;
            assert_eq!(after.0, before.0 + 1, "{bytes}");
        }
        let spaces = " ".repeat(LARGE);
        let closed = Fact::builder(("closed", &*format!("6{spaces}"))).tags([tag("w=1")]);
        decided(&journal, vec![closed.build().unwrap(), large(2)]).await;
        for _ in 0..3 {
            assert_eq!(decided(&journal, Vec::new()).await, (7, 2));
        }
        let page =
            Page { after: Position::START, up_to: Position::END, limit: 1_000, bytes: LARGE };
        let found = journal.store().read(&tagged("w=1"), page).await.unwrap();
        assert!(found.more && found.facts.len() == 1, "{}", found.facts.len());
    }
}

/// A long history that is never closed, and one that is closed after more than one answer's worth.
#[tokio::test]
async fn a_decision_sees_histories_of_any_length() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        for all in [127, 128, 129, 1_300] {
            run(&mut place.conn().await, "truncate journal_event; truncate journal_tag").await;
            let facts: Vec<_> = (0..all).map(|_| fact("moved", &["w=1"])).collect();
            for facts in facts.chunks(1_000) {
                journal.append(facts.to_vec()).await.unwrap();
            }
            for _ in 0..2 {
                assert_eq!(decided(&journal, Vec::new()).await, (all, all as usize));
            }
            decided(&journal, vec![closed(all), fact("moved", &["w=1"])]).await;
            decided(&journal, Vec::new()).await;
            assert_eq!(decided(&journal, Vec::new()).await, (all + 1, 2));
        }
    }
}

#[tokio::test]
async fn decisions_are_made_where_the_server_prepares_nothing() {
    let Some((_server, url, journal)) = started().await else { return };
    // Migrations prepare a step, whoever runs them.
    run(&mut connect(&url).await, "set global max_prepared_stmt_count = 0").await;
    for all in 0..3 {
        assert_eq!(decided(&journal, vec![fact("moved", &["w=1"])]).await.0, all);
    }
    assert_eq!(journal.decide(count()).await.unwrap().model.state, (3, 3));
}
