//! Starting where tables or rights are not what they should be, or where no server is there yet.

use sendoff_core::partition::Period;
use sendoff_engine::store::{ClaimStore, InspectStore, StoreError};
use sendoff_mysql::{JournalOptions, Layout, MysqlJournal, MysqlOptions, MysqlStore};
use sendoff_testkit::proxy::Proxy;
use sendoff_testkit::starting;

use crate::journal::journal;
use crate::place::{MARIADB, MYSQL, Place, due, event, port, url_at, write};

/// What is wrong, and whether it is said with these words.
fn is_schema(error: &StoreError, words: &[&str]) {
    let of_schema = matches!(error, StoreError::Schema { .. } | StoreError::NotInstalled { .. });
    assert!(of_schema, "{error:?}");
    let said = error.to_string();
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
}

/// What is not allowed, and whether the server names it and we the remedy.
fn is_rights(error: &StoreError, words: &[&str]) {
    assert!(matches!(error, StoreError::Rights { .. }), "{error:?}");
    let said = error.to_string();
    assert!(said.contains("denied") && said.contains("grant SELECT, INSERT"), "{said}");
    assert!(words.iter().all(|word| said.contains(word)), "{said}");
    assert!(!said.contains("s3cret"), "{said}");
}

fn store(url: &str) -> MysqlStore {
    MysqlStore::connect_lazy(url, MysqlOptions::default()).unwrap()
}

fn log(url: &str) -> MysqlJournal {
    MysqlJournal::connect_lazy(url, JournalOptions::default()).unwrap()
}

#[tokio::test]
async fn an_outbox_is_refused_tables_that_it_cannot_work_with() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let refused = async || starting::outbox_refused(store(&place.url)).await;
        is_schema(
            &refused().await,
            &["there is no table", "outbox_event", "run `sendoff migrate`"],
        );
        place.store().await;
        place.run("drop table outbox_tally_delta").await;
        is_schema(&refused().await, &["outbox_tally_delta", "run `sendoff migrate`"]);
        place.run("alter table outbox_event drop column tenant_id").await;
        is_schema(&refused().await, &["tenant_id", "run `sendoff migrate`"]);
        place.run("delete from outbox_schema where version >= 4").await;
        is_schema(&refused().await, &["older version", "run `sendoff migrate`"]);
        place.run("insert into outbox_schema values (99, utc_timestamp(6))").await;
        let newer = refused().await;
        assert!(matches!(newer, StoreError::NewerSchema { found: 99, known: 7 }), "{newer:?}");
    }
}

#[tokio::test]
async fn publishing_is_refused_tables_that_it_cannot_work_with() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let refused = async || starting::publishing_refused(log(&place.url)).await;
        is_schema(&refused().await, &["journal_event", "run `sendoff journal migrate`"]);
        journal(&place).await;
        place.run("alter table journal_cursor drop column epoch").await;
        is_schema(&refused().await, &["epoch", "`sendoff journal migrate`"]);
        place.run("delete from journal_schema where version = 5").await;
        is_schema(&refused().await, &["older version", "run `sendoff journal migrate`"]);
        place.run("insert into journal_schema values (99, utc_timestamp(6))").await;
        assert!(matches!(refused().await, StoreError::NewerSchema { found: 99, .. }));
    }
}

#[tokio::test]
async fn a_missing_right_is_refused_with_what_to_grant() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        place.store().await;
        journal(&place).await;
        let user = format!("u{}", &place.database[place.database.len() - 20..]);
        place.run(&format!("create user '{user}'@'%' identified by 's3cret'")).await;
        let grant = async |right: &str, on: &str| {
            place.run(&format!("grant {right} on {}.{on} to '{user}'@'%'", place.database)).await;
        };
        let url = place.url.replace("root@", &format!("{user}:s3cret@"));
        // So that it may use the database at all.
        place.run("create table another (id int)").await;
        grant("select", "another").await;
        is_rights(&starting::outbox_refused(store(&url)).await, &["SELECT", "outbox_schema"]);
        is_rights(&starting::publishing_refused(log(&url)).await, &["SELECT", "journal_schema"]);
        grant("select", "*").await;
        is_rights(&starting::outbox_refused(store(&url)).await, &["outbox_event"]);
        is_rights(&starting::publishing_refused(log(&url)).await, &["journal_event"]);
        grant("update", "outbox_event").await;
        is_rights(&starting::outbox_refused(store(&url)).await, &["DELETE", "outbox_event"]);
        // Whoever delivers need not write.
        grant("delete", "outbox_event").await;
        grant("insert, update, delete", "outbox_tally").await;
        grant("insert, update, delete", "outbox_tally_delta").await;
        grant("insert, update", "outbox_handled").await;
        grant("insert, update", "outbox_key").await;
        is_rights(&starting::outbox_refused(store(&url)).await, &["DELETE", "outbox_key"]);
        grant("delete", "outbox_key").await;
        store(&url).check_ready().await.unwrap();
        place.run(&format!("drop user '{user}'@'%'")).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_outbox_starts_before_its_server() {
    let (place, address) = (Place::new().await, starting::nobody_listens().await);
    let mut proxy = None;
    let come = async || proxy = Some(Proxy::start_at(address, port(&place.url)).await.unwrap());
    let migrated = async || {
        let (store, row) = (place.store().await, due(event()));
        let id = row.event.id();
        write(&store, &mut place.conn().await, &[row]).await;
        id
    };
    let store = store(&url_at(&place.url, address));
    starting::an_outbox_starts_without_its_database(store, come, migrated).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn publishing_starts_before_its_server() {
    let (place, address) = (Place::new().await, starting::nobody_listens().await);
    let mut proxy = None;
    let come = async || proxy = Some(Proxy::start_at(address, port(&place.url)).await.unwrap());
    let migrated = async || drop(journal(&place).await);
    let log = log(&url_at(&place.url, address));
    starting::publishing_starts_without_its_database(log, come, migrated).await;
}

/// The index for fair claims is made when it is asked for, of a table that is there, in partitions or not.
#[tokio::test]
async fn without_their_index_fair_claims_are_refused_and_a_migration_makes_it() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
        let place = Place::on(MARIADB).await;
        let store = place.store_with(MysqlOptions { layout, ..MysqlOptions::default() }).await;
        let refused = store.check_fair().await.unwrap_err();
        assert!(matches!(refused, StoreError::Schema { .. }), "{refused:?}");
        assert!(refused.to_string().contains("migrate --fair"), "{refused}");
        let options = MysqlOptions { layout, tenant_index: true, ..MysqlOptions::default() };
        for _ in 0..2 {
            place.store_with(options.clone()).await.check_fair().await.unwrap();
        }
        store.check_fair().await.unwrap();
    }
}
