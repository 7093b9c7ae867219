//! Migrating a journal on PostgreSQL.

use std::time::Duration;

use sendoff_engine::store::StoreError;
use sendoff_postgres::{
    JournalOptions, PostgresJournal, PostgresOptions, journal_migration_sql, journal_upgrade_sql,
};
use sendoff_testkit::journal::facts;
use sendoff_testkit::upgrade::up_to;
use sendoff_testkit::wait::eventually;
use tokio::time::timeout;

use super::{fact, journal, journal_with, options, tail};
use crate::place::Place;

/// Several at once, and again: one migrates.
#[tokio::test]
async fn migrating_is_done_once_and_needs_no_outbox() {
    let place = Place::new();
    let store = PostgresJournal::connect_with(&place.url, options(&place)).await.unwrap();
    let (a, b, c) = tokio::join!(store.migrate(), store.migrate(), store.migrate());
    a.and(b).and(c).unwrap();
    store.migrate().await.unwrap();
    assert_eq!(place.number("select count(*) from journal_schema").await, 7);
    let tables = format!(
        "select count(*) from pg_tables where schemaname = '{}' and tablename like 'outbox%'",
        place.schema
    );
    assert_eq!(place.number(&tables).await, 0);

    place.run("insert into journal_schema (version) values (99)").await;
    let refused = PostgresJournal::connect_with(&place.url, options(&place)).await;
    assert!(matches!(refused, Err(StoreError::NewerSchema { found: 99, .. })));
}

/// Names of any length, and words that mean something to PostgreSQL.
#[tokio::test]
async fn journals_with_different_prefixes_live_side_by_side() {
    let place = Place::new();
    let with_prefix = async |prefix| {
        let server = PostgresOptions { prefix, ..place.options() };
        journal_with(&place, JournalOptions { server, ..JournalOptions::default() }).await
    };
    facts::journals_with_different_prefixes_live_side_by_side(with_prefix).await;
}

#[tokio::test]
async fn the_script_does_what_migrating_does() {
    let place = Place::new();
    let script = journal_migration_sql(&options(&place)).unwrap();
    let client = place.client().await;
    client.batch_execute(&script).await.unwrap();
    let journal = journal(&place).await;
    journal.append([fact("a", &["w=1"])]).await.unwrap();
    assert!(client.batch_execute(&script).await.is_err());
}

/// Holds L10: what a script for an older version adds makes what this one works with.
#[tokio::test]
async fn the_script_for_an_older_version_brings_it_up_to_date() {
    let place = Place::new();
    let client = place.client().await;
    let whole = journal_migration_sql(&options(&place)).unwrap();
    let rest = journal_upgrade_sql(&options(&place), 2).unwrap();
    // Up to where the third migration begins.
    let third = rest.split("values (3);").next().unwrap().rsplit("\n);\n\n").next().unwrap();
    let (first, _) = whole.split_once(third).expect("the rest is the end of the whole");
    client.batch_execute(&format!("{first}commit;")).await.unwrap();
    assert_eq!(place.number("select max(version)::bigint from journal_schema").await, 2);
    client.batch_execute(&rest).await.unwrap();
    journal(&place).await.append([fact("a", &["w=1"])]).await.unwrap();
    assert!(
        journal_upgrade_sql(&options(&place), 8).unwrap_err().to_string().contains("no version 8")
    );
}

/// A migration of a log in use waits for open transactions, and lets writers pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_beside_an_open_append_keeps_no_writer_waiting() {
    let place = Place::new();
    let open = place.client().await;
    let older = up_to(&journal_migration_sql(&options(&place)).unwrap(), "journal_schema", 4);
    open.batch_execute(&format!("{older}commit;")).await.unwrap();
    // As an append and a publisher of that version lock.
    let write = format!(
        "begin; set local search_path = {};
         lock table journal_event, journal_tag, journal_cursor in row exclusive mode;
         select nextval('journal_position')",
        place.schema
    );
    open.batch_execute(&write).await.unwrap();
    let store = PostgresJournal::connect_with(&place.url, options(&place)).await.unwrap();
    let migrating = tokio::spawn(async move { store.migrate().await });
    let waits = "select count(*) from pg_locks
                  where relation = 'journal_cursor'::regclass and not granted";
    for _ in 0..3 {
        eventually("the migration to wait", async || place.number(waits).await > 0).await;
        // 2 s, and room for a crowded machine.
        let written = timeout(Duration::from_secs(5), place.run(&format!("{write}; commit"))).await;
        written.expect("a writer waits for the migration");
    }
    assert!(!migrating.is_finished());
    open.batch_execute("commit").await.unwrap();
    let migrated = migrating.await.unwrap().unwrap();
    assert_eq!((migrated.from, migrated.to), (4, 7));
}

#[tokio::test]
async fn options_are_checked_when_it_connects() {
    let place = Place::new();
    for wrong in [
        JournalOptions { connections: 0, ..options(&place) },
        JournalOptions { patience: std::time::Duration::ZERO, ..options(&place) },
    ] {
        let refused = PostgresJournal::connect_with(&place.url, wrong).await;
        assert!(matches!(refused, Err(StoreError::Misconfigured { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_closed_journal_says_so() {
    let place = Place::new();
    let journal = journal(&place).await;
    let reader = tail(&journal).await;
    journal.store().close().await;
    facts::nothing_is_answered_any_more(&journal, reader).await;
}
