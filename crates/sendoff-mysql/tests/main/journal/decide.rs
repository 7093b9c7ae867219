//! Who waits for whom, and for how long.

use std::time::Duration;

use sendoff_core::journal::{Item, Position, Query};
use sendoff_engine::journal::AppendError;
use sendoff_mysql::JournalOptions;
use sendoff_testkit::journal::busy;
use sendoff_testkit::wait::eventually;

use super::{
    committed, count, fact, journal, journal_with, open_append, position, run, tag, tagged,
};
use crate::place::{MARIADB, MYSQL, Place};

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
        busy::an_open_append_keeps_away_only_what_it_excludes(&journal).await;
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
                    let (facts, condition) = busy::crossing(writer, round);
                    run(&mut conn, "begin").await;
                    journal.append_in(&mut conn, facts, Some(condition)).await.unwrap();
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
        busy::a_decision_that_falls_silent_under_its_locks_is_ended(&journal, &impatient).await;
    }
}
