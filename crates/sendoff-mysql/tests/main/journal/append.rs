//! Appends in an application's transaction on MySQL and MariaDB.

use futures_util::TryStreamExt;
use mysql_async::prelude::Queryable;
use mysql_async::{Conn, IsolationLevel, TxOpts};
use sendoff_core::journal::{Fact, Position, Query, Recorded};
use sendoff_core::{Event, Timestamp, limits};
use sendoff_engine::journal::AppendError;

use super::{Log, committed, fact, journal, run, settled, tag, tagged, tail};
use crate::place::{MARIADB, MYSQL, Place};

async fn all(journal: &Log) -> Vec<Recorded> {
    journal.read(Query::all(), Position::START).try_collect().await.unwrap()
}

async fn types(journal: &Log, query: Query) -> Vec<String> {
    let found: Vec<_> = journal.read(query, Position::START).try_collect().await.unwrap();
    found.iter().map(|fact| fact.event().event_type().to_owned()).collect()
}

async fn patience(conn: &mut Conn) -> u64 {
    conn.query_first("select @@session.innodb_lock_wait_timeout").await.unwrap().unwrap()
}

/// Holds J1: as the caller's transaction ends, and its savepoints.
#[tokio::test]
async fn what_is_appended_in_a_transaction_ends_with_it() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut conn = place.conn().await;
        run(&mut conn, "begin").await;
        journal.append_in(&mut conn, [fact("undone", &["w=1"])], None).await.unwrap();
        run(&mut conn, "rollback").await;

        run(&mut conn, "begin").await;
        journal.append_in(&mut conn, [fact("kept", &["w=1"])], None).await.unwrap();
        run(&mut conn, "savepoint s").await;
        journal.append_in(&mut conn, [fact("undone", &["w=1"])], None).await.unwrap();
        run(&mut conn, "rollback to s").await;
        journal.append_in(&mut conn, [fact("kept too", &["w=1"])], None).await.unwrap();
        assert!(all(&journal).await.is_empty(), "nobody sees it before the commit");
        run(&mut conn, "commit").await;

        assert_eq!(types(&journal, tagged("w=1")).await, ["kept", "kept too"]);
        assert_eq!(place.number("select count(*) from journal_tag").await, 2);
    }
}

#[tokio::test]
async fn without_a_transaction_nothing_is_appended() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let mut conn = place.conn().await;
    let answer = journal.append_in(&mut conn, [fact("t", &[])], None).await;
    assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
    assert!(all(&journal).await.is_empty());
}

/// Holds J1: and the session is as it was.
#[tokio::test]
async fn after_a_conflict_the_callers_transaction_can_go_on() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        journal.append([fact("a", &["w=1"]), fact("b", &["w=2"])]).await.unwrap();

        let mut conn = committed(&place).await;
        run(&mut conn, "set session innodb_lock_wait_timeout = 17; begin").await;
        let condition = || Some(Query::of_type("a").none_after(Position::START));
        let answer = journal.append_in(&mut conn, [fact("c", &["w=1"])], condition()).await;
        assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
        assert_eq!(patience(&mut conn).await, 17);
        journal.append_in(&mut conn, [fact("d", &["w=1"])], None).await.unwrap();
        assert_eq!(patience(&mut conn).await, 17);
        run(&mut conn, "commit").await;
        assert_eq!(types(&journal, Query::all()).await, ["a", "b", "d"]);
    }
}

/// A snapshot from the beginning of the transaction is older than the locks.
#[tokio::test]
async fn a_condition_is_refused_where_the_snapshot_is_old() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut conn = place.conn().await;
        for level in ["repeatable read", "serializable"] {
            run(&mut conn, &format!("set session transaction isolation level {level}; begin"))
                .await;
            let condition = Some(tagged("w=1").none_after(Position::END));
            let answer = journal.append_in(&mut conn, [fact("a", &["w=1"])], condition).await;
            assert!(matches!(answer, Err(AppendError::Isolation)), "{answer:?}");
            let said = answer.unwrap_err().to_string();
            assert!(said.contains("session"), "{said}");
            // Without a condition there is nothing to look for.
            journal.append_in(&mut conn, [fact("a", &["w=1"])], None).await.unwrap();
            run(&mut conn, "commit").await;
        }
        assert_eq!(all(&journal).await.len(), 2);
    }
}

/// Holds J1: the level of one transaction is told to nobody, so the check sees what is committed
/// whatever it is.
#[tokio::test]
async fn an_old_snapshot_that_nobody_knows_of_hides_no_conflict() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut conn = committed(&place).await;
        let mut opts = TxOpts::new();
        opts.with_isolation_level(IsolationLevel::RepeatableRead);
        let mut tx = conn.start_transaction(opts).await.unwrap();
        tx.query_drop("select count(*) from journal_event").await.unwrap();
        let facts = [fact("a", &["w=1"]), fact("b", &["w=2", "bank=x"])];
        journal.append(facts).await.unwrap();
        let both = sendoff_core::journal::Item::any().tagged(tag("bank=x")).tagged(tag("w=2"));
        for query in [tagged("w=1"), Query::of_type("a"), Query::of(both), Query::all()] {
            let condition = Some(query.clone().none_after(Position::START));
            let answer = journal.append_in(&mut tx, [fact("c", &["w=1"])], condition).await;
            assert!(matches!(answer, Err(AppendError::Conflict(_))), "{query:?} {answer:?}");
        }
        tx.rollback().await.unwrap();
    }
}

/// Somebody took a number and was slow: a tail filled it. The append takes others, and nobody notices.
#[tokio::test]
async fn an_append_whose_number_was_filled_takes_another() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        place.run("insert into journal_event (position, recorded_at) values (2, now(6))").await;
        let mut conn = committed(&place).await;
        // The server gives the next insert this number.
        run(&mut conn, "begin; set insert_id = 1").await;
        let facts = [fact("a", &["w=1"]), fact("b", &["w=1"])];
        let condition = Some(tagged("w=1").none_after(Position::START));
        let receipts = journal.append_in(&mut conn, facts, condition).await.unwrap();
        run(&mut conn, "commit").await;
        let taken: Vec<_> = receipts.iter().map(|receipt| receipt.position.get()).collect();
        assert!(taken[0] > 2 && taken[1] == taken[0] + 1, "{taken:?}");
        assert!(receipts.iter().all(|receipt| receipt.fresh));
        assert_eq!(settled(&mut tail(&journal).await).await.0, taken);
        assert_eq!(types(&journal, tagged("w=1")).await, ["a", "b"]);
    }
}

/// Holds J1: many texts, one append.
#[tokio::test]
async fn what_needs_several_texts_is_appended_whole_or_not_at_all() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let large = || -> Fact {
        let event = Event::builder("large").bytes(vec![7; limits::PAYLOAD_BYTES / 2]);
        Fact::builder(event).tag("w", 1).build().unwrap()
    };
    let known = fact("known", &["w=1"]);
    journal.append([known.clone()]).await.unwrap();
    let mut facts: Vec<Fact> = (0..5).map(|_| large()).collect();
    let mut conn = committed(&place).await;
    run(&mut conn, "begin").await;
    let mixed = facts.iter().cloned().chain([known]);
    let answer = journal.append_in(&mut conn, mixed, None).await;
    assert!(matches!(answer, Err(AppendError::IdTaken)), "{answer:?}");
    run(&mut conn, "commit").await;
    assert_eq!(all(&journal).await.len(), 1);

    facts.push(fact("small", &["w=2"]));
    let first = journal.append(facts.clone()).await.unwrap();
    assert!(first.is_sorted_by(|a, b| a.position < b.position));
    let again = journal.append(facts).await.unwrap();
    let places = |receipts: &[sendoff_engine::journal::Receipt]| -> Vec<_> {
        receipts.iter().map(|receipt| receipt.position).collect()
    };
    assert_eq!(places(&first), places(&again));
    assert_eq!(all(&journal).await.len(), 7);
}

/// Many tags are one lock, also from many at once.
#[tokio::test]
async fn a_thousand_facts_with_twenty_tags_each_take_one_lock() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let large = |from: usize| -> Vec<Fact> {
        let tags = |n: usize| (0..20).map(move |t| tag(&format!("t{t}={}", from + n)));
        let of = |n| Fact::builder(("t", "{}")).tags(tags(n)).build().unwrap();
        (0..limits::APPEND_FACTS).map(of).collect()
    };
    let appends = (0..3).map(|n| journal.append(large(n * 1_000)));
    for answer in futures_util::future::join_all(appends).await {
        assert_eq!(answer.unwrap().len(), limits::APPEND_FACTS);
    }
    assert_eq!(place.number("select count(*) from journal_tag").await, 3 * 20_000);
}

/// Without its anchors an append would exclude nobody.
#[tokio::test]
async fn missing_anchors_are_noticed() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    place.run("delete from journal_anchor where slot = 0").await;
    let said = journal.append([fact("a", &[])]).await.unwrap_err().to_string();
    assert!(said.contains("journal_anchor"), "{said}");
    let count = sendoff_engine::journal::fold(tagged("w=1"), (), |(), _| Ok(()));
    let said = journal.decide(count).await.map(|_| ()).unwrap_err().to_string();
    assert!(said.contains("journal_anchor"), "{said}");
}

#[tokio::test]
async fn a_time_outside_the_calendar_is_refused_before_any_sql() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let event = Event::builder("a").occurred_at(Timestamp::from_micros(i64::MIN)).json(&1);
    let said = journal.append([Fact::builder(event)]).await.unwrap_err().to_string();
    assert!(!said.is_empty());
    assert!(all(&journal).await.is_empty());
}

/// Holds J1: in a transaction that an outbox began, beside its events.
#[tokio::test]
async fn facts_are_appended_beside_the_events_of_an_outbox() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let store = place.store().await;
    let mut conn = place.conn().await;
    let mut tx = sendoff_engine::capture::Begin::begin(&store, &mut conn).await.unwrap();
    journal.append_in(&mut tx, [fact("a", &["w=1"])], None).await.unwrap();
    let rows = [crate::place::due(crate::place::event())];
    sendoff_engine::capture::Commit::commit(&store, tx, &rows).await.unwrap();
    assert_eq!(types(&journal, tagged("w=1")).await, ["a"]);
    assert_eq!(place.rows().await, 1);
}

#[cfg(feature = "sqlx")]
#[tokio::test]
async fn through_sqlx_as_well() {
    use ::sqlx::{Connection, Executor};

    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut conn = ::sqlx::mysql::MySqlConnection::connect(&place.url).await.unwrap();
        let answer = journal.append_in(&mut conn, [fact("t", &[])], None).await;
        assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
        let condition = || Some(tagged("w=1").none_after(Position::START));
        let mut tx = conn.begin().await.unwrap();
        let answer = journal.append_in(&mut tx, [fact("t", &["w=1"])], condition()).await;
        assert!(matches!(answer, Err(AppendError::Isolation)), "{answer:?}");
        tx.rollback().await.unwrap();
        conn.execute("set session transaction isolation level read committed").await.unwrap();

        let facts = [odd_fact(), fact("b", &["w=1", "x=2"])];
        let mut tx = conn.begin().await.unwrap();
        let receipts = journal.append_in(&mut tx, facts.clone(), condition()).await.unwrap();
        tx.commit().await.unwrap();
        check(&journal, &facts, &receipts).await;
        let mut tx = conn.begin().await.unwrap();
        let again = journal.append_in(&mut tx, facts, condition()).await.unwrap();
        assert!(again.iter().all(|receipt| !receipt.fresh));
        let answer = journal.append_in(&mut tx, [fact("t", &["w=1"])], condition()).await;
        assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
        tx.commit().await.unwrap();
    }
}

#[cfg(feature = "sea-orm")]
#[tokio::test]
async fn through_sea_orm_as_well() {
    use ::sea_orm::{ConnectOptions, ConnectionTrait, Database, TransactionTrait};

    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut options = ConnectOptions::new(place.url.clone());
        options.max_connections(1);
        let db = Database::connect(options).await.unwrap();
        let level = "set session transaction isolation level read committed";
        db.execute_unprepared(level).await.unwrap();
        let condition = || Some(tagged("w=1").none_after(Position::START));
        let facts = [odd_fact(), fact("b", &["w=1", "x=2"])];
        let mut tx = db.begin().await.unwrap();
        let receipts = journal.append_in(&mut tx, facts.clone(), condition()).await.unwrap();
        tx.commit().await.unwrap();
        check(&journal, &facts, &receipts).await;
        let mut tx = db.begin().await.unwrap();
        let again = journal.append_in(&mut tx, facts, condition()).await.unwrap();
        assert!(again.iter().all(|receipt| !receipt.fresh));
        let answer = journal.append_in(&mut tx, [fact("t", &["w=1"])], condition()).await;
        assert!(matches!(answer, Err(AppendError::Conflict(_))), "{answer:?}");
        let answer = journal.append_in(&mut &tx, [fact("t", &["w=2"])], None).await;
        assert!(answer.unwrap()[0].fresh);
        tx.commit().await.unwrap();
    }
}

#[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
fn odd_fact() -> Fact {
    let event = Event::builder("odd \"type\"").header("a", "'b'").bytes(vec![0, 0xff, b'\'']);
    let id = sendoff_core::EventId::from_bytes([9; 16]);
    Fact::builder(event).tag("w", 1).tag("Größe", "{\"\\'").correlation_id(id).build().unwrap()
}

#[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
async fn check(journal: &Log, facts: &[Fact], receipts: &[sendoff_engine::journal::Receipt]) {
    let found = all(journal).await;
    assert_eq!(found.len(), facts.len());
    for ((fact, receipt), recorded) in facts.iter().zip(receipts).zip(&found) {
        assert_eq!(recorded.event().as_ref(), fact.event().as_ref());
        assert_eq!(recorded.tags(), fact.tags());
        assert_eq!(recorded.fact.correlation_id(), fact.correlation_id());
        assert_eq!(
            (recorded.position, recorded.recorded_at),
            (receipt.position, receipt.recorded_at)
        );
    }
}
