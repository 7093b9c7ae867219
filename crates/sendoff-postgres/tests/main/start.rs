//! Starting where tables or rights are not what they should be, or where no server is there yet.

use sendoff_core::partition::Period;
use sendoff_engine::store::{ClaimStore, StoreError};
use sendoff_postgres::{Layout, PostgresJournal, PostgresOptions, PostgresStore};
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::starting;

use crate::journal::{journal, options};
use crate::partitions::as_role;
use crate::place::{Place, due, event, port, url_at, write};

/// What is wrong, and whether it is said with these words.
fn is_schema(error: &StoreError, words: &[&str]) {
    let of_schema = matches!(error, StoreError::Schema { .. } | StoreError::NotInstalled { .. });
    assert!(of_schema, "{error:?}");
    let said = error.to_string();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

/// The statement that mends it.
fn remedy(error: &StoreError) -> String {
    let StoreError::Rights { remedy, .. } = error else { panic!("{error:?}") };
    remedy.split('`').nth(1).unwrap_or_else(|| panic!("no statement: {remedy}")).to_owned()
}

#[tokio::test]
async fn an_outbox_is_refused_tables_that_it_cannot_work_with() {
    let place = Place::new();
    let refused = async || {
        let store = PostgresStore::connect_lazy(&place.url, place.options()).unwrap();
        starting::outbox_refused(store).await
    };
    is_schema(&refused().await, &["there is no table", "outbox_event", "run `sendoff migrate`"]);
    place.store().await;
    place.run("alter table outbox_event drop column tenant_id cascade").await;
    is_schema(&refused().await, &["tenant_id in", "outbox_event", "sendoff migrate"]);
    place.run("drop table outbox_tally_delta").await;
    is_schema(&refused().await, &["outbox_tally_delta", "tenant_id in", "sendoff migrate"]);
    place.run("delete from outbox_schema where version >= 4").await;
    is_schema(&refused().await, &["older version", "run `sendoff migrate`"]);
    place.run("insert into outbox_schema (version) values (99)").await;
    let newer = refused().await;
    assert!(matches!(newer, StoreError::NewerSchema { found: 99, known: 9 }), "{newer:?}");
}

#[tokio::test]
async fn publishing_is_refused_tables_that_it_cannot_work_with() {
    let place = Place::new();
    let refused = async || {
        let store = PostgresJournal::connect_lazy(&place.url, options(&place)).unwrap();
        starting::publishing_refused(store).await
    };
    is_schema(&refused().await, &["journal_event", "run `sendoff journal migrate`"]);
    journal(&place).await;
    place.run("alter table journal_cursor drop column epoch").await;
    is_schema(&refused().await, &["epoch in", "journal_cursor"]);
    place.run("drop function journal_alive").await;
    is_schema(&refused().await, &["journal_alive(text)"]);
    place.run("delete from journal_schema where version = 7").await;
    is_schema(&refused().await, &["older version", "run `sendoff journal migrate`"]);
    place.run("insert into journal_schema (version) values (99)").await;
    assert!(matches!(refused().await, StoreError::NewerSchema { found: 99, .. }));
}

/// What the error says to grant is enough.
#[tokio::test]
async fn a_missing_right_is_refused_with_the_grant_that_mends_it() {
    let place = Place::new();
    place.store().await;
    journal(&place).await;
    let (schema, role) = (&place.schema, format!("r_{}", place.schema));
    place.run(&format!("create role {role} login")).await;
    let url = as_role(&place, &role);
    let store = || PostgresStore::connect_lazy(&url, place.options()).unwrap();
    let log = || PostgresJournal::connect_lazy(&url, options(&place)).unwrap();

    let error = starting::outbox_refused(store()).await;
    assert!(matches!(error, StoreError::Rights { .. }), "{error:?}");
    assert!(error.to_string().contains("grant USAGE"), "{error}");
    let select = format!(
        "grant usage on schema {schema} to {role}; grant select on all tables in schema {schema} to {role}"
    );
    place.run(&select).await;

    let error = starting::outbox_refused(store()).await;
    let said = error.to_string();
    assert!(said.contains(&format!("delete, update on \"{schema}\".outbox_event")), "{said}");
    place.run(&remedy(&error)).await;
    sendoff_engine::store::InspectStore::check_ready(&store()).await.unwrap();

    let error = starting::publishing_refused(log()).await;
    assert!(error.to_string().contains("sequence"), "{error}");
    place.run(&remedy(&error)).await;
    sendoff_engine::journal::publish::PublishStore::check_ready(&log()).await.unwrap();
    place.run(&format!("drop owned by {role}; drop role {role}")).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_starts_before_its_server() {
    let (place, address) = (Place::new(), starting::nobody_listens().await);
    let url = url_at(&place.url, address);
    let store = PostgresStore::connect_lazy(&url, place.options()).unwrap();
    let mut proxy = None;
    let come = async || proxy = Some(Proxy::start_at(address, port(&place.url)).await.unwrap());
    let migrated = async || {
        let (store, row) = (place.store().await, due(event()));
        let id = row.event.id();
        write(&store, &mut place.client().await, &[row]).await;
        id
    };
    starting::an_outbox_starts_without_its_database(store, come, migrated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_starts_before_its_server() {
    let (place, address) = (Place::new(), starting::nobody_listens().await);
    let url = url_at(&place.url, address);
    let store = PostgresJournal::connect_lazy(&url, options(&place)).unwrap();
    let mut proxy = None;
    let come = async || proxy = Some(Proxy::start_at(address, port(&place.url)).await.unwrap());
    let migrated = async || drop(journal(&place).await);
    starting::publishing_starts_without_its_database(store, come, migrated).await;
}

/// The index for fair claims is made when it is asked for, of a table that is there, in partitions or not.
#[tokio::test]
async fn without_their_index_fair_claims_are_refused_and_a_migration_makes_it() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
        let place = Place::new();
        let store = place.store_with(PostgresOptions { layout, ..place.options() }).await;
        let refused = store.check_fair().await.unwrap_err();
        assert!(matches!(refused, StoreError::Schema { .. }), "{refused:?}");
        assert!(refused.to_string().contains("migrate --fair"), "{refused}");
        let options = PostgresOptions { layout, tenant_index: true, ..place.options() };
        for _ in 0..2 {
            place.store_with(options.clone()).await.check_fair().await.unwrap();
        }
        store.check_fair().await.unwrap();
    }
}
