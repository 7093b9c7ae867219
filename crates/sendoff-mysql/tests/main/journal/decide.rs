//! Who waits for whom, and for how long.

use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::{Append, Item, Position, Query, Recorded};
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, ExecuteError, Fold, JournalStore, Page, fold,
};
use sendoff_mysql::JournalOptions;
use sendoff_testkit::wait::eventually;

use super::{committed, fact, journal, journal_with, open_append, position, run, tag, tagged};
use crate::place::{MARIADB, MYSQL, Place};

pub(super) fn count(
    query: Query,
) -> Fold<usize, impl FnMut(&mut usize, &Recorded) -> Result<(), BoxError> + Send> {
    fold(query, 0, |count: &mut usize, _: &Recorded| {
        *count += 1;
        Ok(())
    })
}

/// Holds J2: an append with a lower position is open; the decision waits for it, and for nothing else.
#[tokio::test]
async fn a_decision_never_misses_an_open_lower_position() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut low = place.conn().await;
        run(&mut low, "begin").await;
        journal.append_in(&mut low, [fact("low", &["w=1"])], None).await.unwrap();
        journal.append([fact("high", &["w=2"])]).await.unwrap();
        let item = Item::any().tagged(tag("w=1")).of_type("low");
        let deciding = tokio::spawn({
            let journal = journal.clone();
            async move { journal.decide(count(Query::of(item))).await.unwrap() }
        });
        let waiting = format!(
            "select count(*) from information_schema.processlist
              where db = '{}' and info like '%journal_anchor%' and id <> connection_id()",
            place.database
        );
        eventually("the decision to wait", async || place.number(&waiting).await >= 1).await;
        run(&mut low, "commit").await;
        let decided = deciding.await.unwrap();
        assert_eq!((decided.model.state, decided.condition.after), (1, position(2)));
        journal.append_if([fact("next", &["w=1"])], decided.condition).await.unwrap();
    }
}

/// Whoever waits too long is told so, and what has nothing to do with it does not wait.
#[tokio::test]
async fn an_open_append_keeps_away_only_what_it_excludes() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let patience = Duration::from_secs(1);
        let options = JournalOptions { patience, ..JournalOptions::default() };
        let journal = journal_with(&place, options).await;
        let mut open = open_append(&journal, &place).await;
        journal.append_in(&mut open, [fact("a", &["w=1"])], None).await.unwrap();

        for query in [tagged("w=1"), Query::of_type("a"), Query::all()] {
            let answer = journal.decide(count(query.clone())).await;
            assert!(matches!(answer, Err(DecideError::Busy(_))), "{query:?}");
            let condition = query.none_after(Position::END);
            let answer = journal.append_if([fact("b", &["w=2"])], condition).await;
            assert!(matches!(answer, Err(AppendError::Busy(_))), "{answer:?}");
        }
        // In a transaction of the caller's too, whose session is as it was.
        let mut conn = committed(&place).await;
        run(&mut conn, "set session innodb_lock_wait_timeout = 17; begin").await;
        let condition = Some(tagged("w=1").none_after(Position::END));
        let answer = journal.append_in(&mut conn, [fact("b", &["w=2"])], condition).await;
        assert!(matches!(answer, Err(AppendError::Busy(_))), "{answer:?}");
        let timeout = "select @@session.innodb_lock_wait_timeout";
        let timeout: Option<u64> =
            mysql_async::prelude::Queryable::query_first(&mut conn, timeout).await.unwrap();
        assert_eq!(timeout, Some(17));
        run(&mut conn, "rollback").await;

        journal.append([fact("a", &["w=1"])]).await.unwrap();
        journal.decide(count(tagged("w=2"))).await.unwrap();
        let condition = tagged("w=2").none_after(Position::START);
        journal.append_if([fact("b", &["w=2"])], condition).await.unwrap();

        run(&mut open, "commit").await;
        let decided = journal.decide(count(tagged("w=1"))).await.unwrap();
        assert_eq!(decided.model.state, 2);
    }
}

/// Each shares what the other wants alone, again and again, and in either order.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn appends_that_share_and_condition_the_same_tags_never_deadlock() {
    const ROUNDS: usize = 100;
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut writers = Vec::new();
        for writer in 0..4 {
            // Not on a connection of the store's, which would try again after a deadlock.
            let (journal, mut conn) = (journal.clone(), committed(&place).await);
            writers.push(tokio::spawn(async move {
                for round in 0..ROUNDS {
                    let mut tags = ["w=1", "w=2", "w=3"];
                    tags.rotate_left((writer + round) % 3);
                    let facts = [fact("a", &tags[..2]), fact("b", &tags[1..])];
                    let query = tagged(tags[0]).or(tagged(tags[2])).or(Query::of_type("b"));
                    let condition = Some(query.none_after(Position::END));
                    run(&mut conn, "begin").await;
                    journal.append_in(&mut conn, facts, condition).await.unwrap();
                    run(&mut conn, "commit").await;
                }
            }));
        }
        for writer in writers {
            writer.await.unwrap();
        }
        let appended = place.number("select count(*) from journal_event").await;
        assert_eq!(appended, 4 * 2 * ROUNDS as i64);
    }
}

/// Whoever falls silent with its keys locked is ended by the server: the next has its turn within seconds,
/// and what the silent one decided comes too late.
#[tokio::test]
async fn a_decision_that_falls_silent_under_its_locks_is_ended_by_the_server() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let patience = Duration::from_secs(1);
        let options = JournalOptions { patience, ..JournalOptions::default() };
        let impatient = journal_with(&place, options).await;
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
}
