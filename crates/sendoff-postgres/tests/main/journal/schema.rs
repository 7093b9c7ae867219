//! Migrating a journal on PostgreSQL.

use sendoff_engine::store::StoreError;
use sendoff_postgres::{
    JournalOptions, PostgresJournal, PostgresOptions, journal_migration_sql, journal_upgrade_sql,
};
use sendoff_testkit::journal::facts;

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
    assert_eq!(place.number("select count(*) from journal_schema").await, 6);
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
        journal_upgrade_sql(&options(&place), 7).unwrap_err().to_string().contains("no version 7")
    );
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
