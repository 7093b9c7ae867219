//! Who waits for whom when appends and decisions meet on PostgreSQL.

use std::time::Duration;

use sendoff_core::journal::{Position, Query};
use sendoff_engine::journal::{AppendError, DecideError, fold};
use sendoff_postgres::JournalOptions;

use super::{fact, journal, journal_with, options, tagged};
use crate::place::Place;

/// Whoever waits too long is told so, and what has nothing to do with it does not wait.
#[tokio::test]
async fn an_open_append_keeps_away_only_what_it_excludes() {
    let place = Place::new();
    let patience = Duration::from_millis(50);
    let journal = journal_with(&place, JournalOptions { patience, ..options(&place) }).await;
    let mut client = place.client().await;
    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, [fact("a", &["w=1"])], None).await.unwrap();

    let count = |query: Query| {
        fold(query, 0, |count: &mut u32, _| {
            *count += 1;
            Ok(())
        })
    };
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

    tx.commit().await.unwrap();
    let decided = journal.decide(count(tagged("w=1"))).await.unwrap();
    assert_eq!(decided.model.state, 2);
}

/// Each shares what the other wants alone, again and again, and in either order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_share_and_condition_the_same_tags_never_deadlock() {
    const ROUNDS: usize = 200;
    let place = Place::new();
    let journal = journal(&place).await;
    let writers: Vec<_> = (0..4)
        .map(|writer| {
            let (journal, url) = (journal.clone(), place.url.clone());
            tokio::spawn(async move {
                // Not on a connection of the store's, which would try again after a deadlock.
                let mut client = crate::place::connect(&url).await.unwrap();
                for round in 0..ROUNDS {
                    let mut tags = ["w=1", "w=2", "w=3"];
                    tags.rotate_left((writer + round) % 3);
                    let facts = [fact("a", &tags[..2]), fact("b", &tags[1..])];
                    let query = tagged(tags[0]).or(tagged(tags[2])).or(Query::of_type("b"));
                    let condition = Some(query.none_after(Position::END));
                    let mut tx = client.transaction().await.unwrap();
                    journal.append_in(&mut tx, facts, condition).await.unwrap();
                    tx.commit().await.unwrap();
                }
            })
        })
        .collect();
    for writer in writers {
        writer.await.unwrap();
    }
    let appended = place.number("select count(*) from journal_event").await;
    assert_eq!(appended, 4 * 2 * ROUNDS as i64);
}
