//! Who waits for whom when appends and decisions meet on PostgreSQL.

use std::time::Duration;

use sendoff_postgres::JournalOptions;
use sendoff_testkit::journal::busy;

use super::{count, fact, journal, journal_with, options, tagged};
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
    busy::an_open_append_keeps_away_only_what_it_excludes(&journal).await;
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
                    let (facts, condition) = busy::crossing(writer, round);
                    let mut tx = client.transaction().await.unwrap();
                    journal.append_in(&mut tx, facts, Some(condition)).await.unwrap();
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
