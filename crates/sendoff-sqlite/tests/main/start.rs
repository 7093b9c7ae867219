//! Starting where somebody changed the file since it was opened.

use sendoff_engine::store::{ClaimStore, StoreError};
use sendoff_sqlite::{SqliteOptions, SqliteStore};
use sendoff_testkit::starting;

use crate::journal::File;
use crate::outbox::Outbox;

/// What is wrong, and whether it is said with these words.
fn is_schema(error: &StoreError, words: &[&str]) {
    let of_schema = matches!(error, StoreError::Schema { .. } | StoreError::NotInstalled { .. });
    assert!(of_schema, "{error:?}");
    let said = error.to_string();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

#[tokio::test]
async fn an_outbox_is_refused_tables_that_it_cannot_work_with() {
    let outbox = Outbox::new().await;
    let refused = async || starting::outbox_refused(outbox.store.clone()).await;
    let run = |sql: &str| outbox.store.connect().unwrap().execute_batch(sql).unwrap();
    run("drop view outbox_event_json; alter table outbox_event drop column tenant_id");
    is_schema(&refused().await, &["tenant_id", "sendoff migrate"]);
    run("drop table outbox_tally");
    is_schema(&refused().await, &["sendoff migrate"]);
    run("update outbox_schema set version = 1");
    is_schema(&refused().await, &["older version", "run `sendoff migrate`"]);
    run("update outbox_schema set version = 99");
    let newer = refused().await;
    assert!(matches!(newer, StoreError::NewerSchema { found: 99, known: 7 }), "{newer:?}");
    run("drop table outbox_schema");
    is_schema(&refused().await, &["there is no table outbox_event", "run `sendoff migrate`"]);
}

#[tokio::test]
async fn without_its_index_fair_claims_are_refused_and_opening_it_makes_one() {
    let outbox = Outbox::new().await;
    is_schema(&outbox.store.check_fair().await.unwrap_err(), &["outbox_event", "migrate --fair"]);
    let options = SqliteOptions { tenant_index: true, ..SqliteOptions::default() };
    for _ in 0..2 {
        let store = SqliteStore::open_with(outbox.store.path(), options.clone()).await.unwrap();
        store.check_fair().await.unwrap();
    }
    outbox.store.check_fair().await.unwrap();
}

#[tokio::test]
async fn publishing_is_refused_tables_that_it_cannot_work_with() {
    let file = File::open().await;
    let store = file.journal.store();
    let refused = async || starting::publishing_refused(store.clone()).await;
    let run = |sql: &str| store.connect().unwrap().execute_batch(sql).unwrap();
    run("alter table journal_cursor drop column published_at");
    is_schema(&refused().await, &["published_at", "sendoff journal migrate"]);
    run("insert into journal_schema (version) values (99)");
    assert!(matches!(refused().await, StoreError::NewerSchema { found: 99, .. }));
}
