//! Locks of a decision that its session has, and no transaction.

use std::time::Duration;

use sendoff_core::BoxError;
use sendoff_core::journal::{Fact, Locks, Mode, Position, Query};
use sendoff_engine::journal::{AppendError, DecideError, ExecuteError, Executed, Journal, fold};
use sendoff_engine::store::frame::text;
use sendoff_postgres::{Doorbell, JournalOptions, PostgresJournal, PostgresOptions};
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::wait::eventually;

use super::{Log, fact, journal, journal_with, options, tagged};
use crate::place::{Place, by_way_of, connect, port};

/// Notes the session's limit of silence whenever a fact is inserted.
const NOTED: &str = "
    create table noted (silence text);
    create function note() returns trigger language plpgsql as $body$ begin
        execute format('insert into %I.noted values ($1)', tg_table_schema)
          using current_setting('idle_session_timeout');
        return new;
    end $body$;
    create trigger note before insert on journal_event for each row execute function note()";

const LOCKS: &str = "select count(*) from pg_locks where locktype = 'advisory'
                        and classid = 'journal_event'::regclass::oid";

/// On one connection, which the server would end after an hour of silence.
async fn on_one_connection(place: &Place) -> Log {
    let separator = if place.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{separator}options=-c%20idle_session_timeout%3D1h", place.url);
    let patience = Duration::from_millis(200);
    let options = JournalOptions { connections: 1, patience, ..options(place) };
    Journal::new(PostgresJournal::connect_with(&url, options).await.unwrap())
}

async fn decided(
    journal: &Log,
    decision: Result<Vec<Fact>, &'static str>,
) -> Result<Executed, ExecuteError<BoxError>> {
    let model = || fold(tagged("w=1"), (), |(), _| Ok(()));
    journal.execute_locked(model, |_| decision.clone().map_err(BoxError::from)).await
}

/// The server also ends a session that falls silent after it waited in vain: the first of its locks is its own
/// by then, and whatever the failed statement set is undone.
#[tokio::test]
async fn a_decision_that_falls_silent_without_all_of_its_locks_is_ended_by_the_server() {
    let place = Place::new();
    journal(&place).await;
    let proxy = Proxy::start(port(&place.url)).await.unwrap();
    let options = JournalOptions { patience: Duration::from_secs(2), ..options(&place) };
    let url = by_way_of(&place.url, &proxy);
    let journal = Journal::new(PostgresJournal::connect_with(&url, options).await.unwrap());
    // One whose own lock is taken after the journal's, which it has by then.
    let (wallet, last) = (0..)
        .map(|number| format!("w={number}"))
        .find_map(|wallet| {
            let locks = Locks::of_decision(&tagged(&wallet));
            let last = locks.iter().last().filter(|lock| lock.mode == Mode::Exclusive);
            last.map(|lock| lock.key).map(|key| (wallet, key))
        })
        .unwrap();
    let other = place.client().await;
    let lock = format!(
        "select pg_advisory_lock('{}.journal_event'::regclass::oid::integer, {last})",
        place.schema
    );
    other.execute(&lock, &[]).await.unwrap();

    let deciding = tokio::spawn(async move {
        let model = || fold(tagged(&wallet), (), |(), _| Ok(()));
        journal.execute_locked(model, |_| Ok::<_, BoxError>(vec![fact("a", &[&wallet])])).await
    });
    let waiting = format!("{LOCKS} and not granted");
    eventually("the decision to wait", async || place.number(&waiting).await == 1).await;
    proxy.silence(true);
    eventually("it to wait in vain", async || place.number(&waiting).await == 0).await;
    assert_eq!(place.number(LOCKS).await, 2, "the first of its locks, and the other's");

    eventually("the server to end it", async || place.number(LOCKS).await == 1).await;
    deciding.abort();
}

/// Neither a lock nor a limit is left behind, however a decision ends.
#[tokio::test]
async fn a_session_is_as_it_was_after_every_decision() {
    let place = Place::new();
    let others = journal(&place).await;
    place.run(NOTED).await;
    let journal = on_one_connection(&place).await;
    let as_it_was = async |how: &str| {
        assert_eq!(place.number(LOCKS).await, 0, "{how}");
        place.run("truncate noted").await;
        journal.append([fact("plain", &["v=1"])]).await.unwrap();
        let same = "select count(*) from noted where silence = '1h'";
        assert_eq!(place.number(same).await, 1, "{how}");
    };
    let known = fact("a", &["w=1"]);
    let done = decided(&journal, Ok(vec![known.clone()])).await.unwrap();
    assert!(done.receipts[0].fresh);
    let limited = "select count(*) from noted where silence = '3s'";
    assert_eq!(place.number(limited).await, 1, "while it decides");
    as_it_was("one fact").await;
    let several = vec![fact("a", &["w=1"]), fact("b", &["w=1", "v=2"])];
    assert_eq!(decided(&journal, Ok(several)).await.unwrap().receipts.len(), 2);
    as_it_was("several facts").await;
    assert!(!decided(&journal, Ok(vec![known])).await.unwrap().receipts[0].fresh);
    as_it_was("a fact that is there already").await;
    decided(&journal, Ok(Vec::new())).await.unwrap();
    as_it_was("no fact").await;
    decided(&journal, Err("no")).await.unwrap_err();
    as_it_was("a refusal").await;

    let mut client = place.client().await;
    let mut tx = client.transaction().await.unwrap();
    let alone = Some(Query::of_type("late").none_after(Position::END));
    others.append_in(&mut tx, [fact("c", &["v=3"])], alone).await.unwrap();
    let answer = decided(&journal, Ok(vec![fact("late", &["w=1"])])).await;
    let busy = matches!(answer, Err(ExecuteError::Contended { last: AppendError::Busy(_), .. }));
    assert!(busy, "{answer:?}");
    tx.rollback().await.unwrap();
    as_it_was("an append that waited too long").await;

    let mut tx = client.transaction().await.unwrap();
    others.append_in(&mut tx, [fact("a", &["w=1"])], None).await.unwrap();
    let answer = decided(&journal, Ok(vec![fact("a", &["w=1"])])).await;
    assert!(matches!(answer, Err(ExecuteError::Decide(DecideError::Busy(_)))), "{answer:?}");
    tx.rollback().await.unwrap();
    as_it_was("locks that were not to be had").await;
}

/// The append takes the session's locks over, and is none where there are none: as where a pooler gave it
/// another session.
#[tokio::test]
async fn a_session_without_the_locks_appends_nothing() {
    let place = Place::new();
    let _journal = journal(&place).await;
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let file = include_str!("../../../sql/journal/append_tagged.sql");
    let statement = text(file, &["append_session", "durable"]).replace("sendoff.", "");
    client.batch_execute(&format!("prepare append as {statement}")).await.unwrap();
    let append = async || {
        let append =
            "execute append(null, gen_random_uuid(), 'a', 'w=1', 'text/plain', now(), null,
                                     '{}', null, null, 0, 7, '1h')";
        client.batch_execute(append).await.unwrap();
        place.number("select count(*) from journal_event").await
    };
    assert_eq!(append().await, 0);
    let journal = "'journal_event'::regclass::oid::integer";
    let shared = format!("select pg_advisory_lock_shared({journal}, 0)");
    client.batch_execute(&shared).await.unwrap();
    assert_eq!(append().await, 0, "with one of them");
    let alone = format!("{shared}, pg_advisory_lock({journal}, 7)");
    client.batch_execute(&alone).await.unwrap();
    assert_eq!(append().await, 1);
    assert_eq!(place.number(LOCKS).await, 0);
}

/// Callers who give up while their decision waits for its locks leave no crowd of sessions behind.
#[tokio::test]
async fn decisions_that_are_given_up_do_not_pile_up_on_the_server() {
    for doorbell in [Doorbell::On, Doorbell::Off] {
        let place = Place::new();
        let server = PostgresOptions { doorbell, ..place.options() };
        let patience = Duration::from_secs(60);
        let options = JournalOptions { server, patience, ..options(&place) };
        let journal = journal_with(&place, options).await;
        let mut open = connect(&place.url).await.unwrap();
        open.batch_execute(&format!("set search_path to {}; begin", place.schema)).await.unwrap();
        journal.append_in(&mut open, [fact("a", &["w=1"])], None).await.unwrap();
        for _ in 0..20 {
            let decided = decided(&journal, Ok(Vec::new()));
            let late = tokio::time::timeout(Duration::from_millis(30), decided).await;
            assert!(late.is_err(), "somebody has the lock");
        }
        let waiting = "select count(*) from pg_locks where locktype = 'advisory' and not granted
                          and classid = 'journal_event'::regclass::oid";
        // By themselves they would wait for as long as their patience lasts.
        eventually("nobody waits any more", async || place.number(waiting).await == 0).await;
        open.batch_execute("rollback").await.unwrap();
        decided(&journal, Ok(vec![fact("b", &["w=1"])])).await.unwrap();
    }
}
