//! The store's own connections: lost, stuck, refused, or oddly configured.

use std::time::Duration;

use sendoff_core::report;
use sendoff_engine::store::{ClaimStore, InspectStore, Outcome, StoreError};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore};
use sendoff_testkit::wait::eventually;

use crate::place::{Place, by, claim, due, event, hold_of, settle_one, write};

fn named(url: &str, name: &str) -> String {
    let and = if url.contains('?') { '&' } else { '?' };
    format!("{url}{and}application_name={name}")
}

async fn store_named(place: &Place) -> PostgresStore {
    let url = named(&place.url, &place.schema);
    let store = PostgresStore::connect_with(&url, place.options()).await.unwrap();
    store.migrate().await.unwrap();
    store
}

/// Fault 2.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_store_whose_sessions_were_ended_works_again() {
    let place = Place::new();
    let store = store_named(&place).await;
    let mut client = place.client().await;
    for _ in 0..5 {
        write(&store, &mut client, &[due(event())]).await;
        let held = hold_of(&claim(&store, "a").await[0]);
        store.counts().await.unwrap();
        let epoch = store.epoch();
        let ours = format!("application_name = '{}'", place.schema);
        let ended = place.end_sessions(&ours).await;
        assert!(ended >= 2, "{ended}");
        // One statement may still find the old session; the engine tries again, and so do we.
        let settled = async || match store.settle_done(held).await {
            Ok(settled) => settled,
            Err(StoreError::Unavailable(_)) => false,
            Err(error) => panic!("{error:?}"),
        };
        eventually("the store to settle again", settled).await;
        let claims = async || store.claim(&by("a")).await.is_ok();
        eventually("the store to claim again", claims).await;
        assert!(store.epoch() > epoch, "what waits in memory is to be confirmed again");
    }
}

/// Fault 20: a statement that lost against another transaction, by a deadlock or a serialization
/// failure, is repeated, and nobody hears of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_lost_against_another_is_repeated() {
    let place = Place::new();
    let store = place.store().await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    let schema = &place.schema;
    // The server refuses each change twice. A sequence counts on whatever is rolled back.
    place
        .run(&format!(
            "create sequence {schema}.lost;
             create function {schema}.lose() returns trigger language plpgsql as $$
             begin
                 case nextval('{schema}.lost') % 3
                     when 1 then raise exception 'a deadlock' using errcode = '40P01';
                     when 2 then raise exception 'a serialization failure' using errcode = '40001';
                     else return new;
                 end case;
             end $$;
             create trigger lose before update on {schema}.outbox_event
                 for each row execute function {schema}.lose()"
        ))
        .await;
    let claimed = claim(&store, "a").await;
    assert_eq!(claimed.len(), 1);
    assert!(settle_one(&store, hold_of(&claimed[0]), Outcome::Done).await);
    assert_eq!(place.number(&format!("select last_value from {schema}.lost")).await, 6);
}

trait SettleDone {
    async fn settle_done(&self, held: sendoff_engine::store::Held) -> Result<bool, StoreError>;
}

impl SettleDone for PostgresStore {
    async fn settle_done(&self, held: sendoff_engine::store::Held) -> Result<bool, StoreError> {
        use sendoff_engine::store::{SettleStore, Settlement};
        let done = Settlement { held, outcome: Outcome::Done };
        Ok(!self.settle(&[done]).await?.applied.is_empty())
    }
}

/// Fault 21: whatever comes next must not wait behind a statement that nobody waits for any more.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_statement_that_is_given_up_does_not_block_the_next() {
    let place = Place::new();
    let store = place.store().await;
    let mut client = place.client().await;
    write(&store, &mut client, &[due(event())]).await;
    claim(&store, "warm").await;
    write(&store, &mut client, &[due(event())]).await;

    let mut locker = place.client().await;
    let lock = locker.transaction().await.unwrap();
    let table = store.table();
    lock.batch_execute(&format!("lock table {table} in access exclusive mode")).await.unwrap();
    let given_up = tokio::time::timeout(Duration::from_millis(50), store.claim(&by("a"))).await;
    assert!(given_up.is_err(), "the table is locked");
    // A statement that touches no table is answered, although the lock is still there.
    let armed = tokio::time::timeout(
        Duration::from_secs(10),
        sendoff_engine::store::WakeStore::disarm(&store),
    );
    armed.await.expect("not stuck behind the claim").unwrap();
    lock.rollback().await.unwrap();
    // The claim may have been carried out after all, for nobody.
    let rows =
        async || place.number("select count(*) from outbox_event where locked_by = 'a'").await;
    let mine = claim(&store, "a").await.len() as i64;
    eventually("the row to be held", async || rows().await == 1).await;
    assert!(mine <= 1);
}

#[tokio::test]
async fn what_cannot_be_connected_to_says_why_and_keeps_the_password() {
    let error = PostgresStore::connect("postgres://app:s3cret@127.0.0.1:1/shop").await.unwrap_err();
    assert!(matches!(error, StoreError::Unavailable(_)), "{error:?}");
    assert!(!format!("{error:?} {}", report(&error)).contains("s3cret"));
    for url in ["mysql://app:s3cret@host/shop", "postgres://app:s3cret@host:x/shop"] {
        let error = PostgresStore::connect(url).await.unwrap_err();
        assert!(matches!(error, StoreError::Misconfigured { .. }), "{error:?}");
        assert!(!format!("{error:?} {}", report(&error)).contains("s3cret"), "{error:?}");
    }
    let options = PostgresOptions { connect_timeout: Duration::ZERO, ..Default::default() };
    let error = PostgresStore::connect_with("postgres://a@localhost/b", options).await.unwrap_err();
    assert!(error.to_string().contains("connect_timeout"), "{error}");
}

#[cfg(not(feature = "tls-rustls"))]
#[tokio::test]
async fn a_remote_server_without_tls_is_refused_before_a_byte_is_sent() {
    let error = PostgresStore::connect("postgres://app@192.0.2.1/shop").await.unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error:?}");
}

/// Whatever the role's defaults are, the store's sessions are its own.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn odd_defaults_of_the_role_do_not_matter() {
    let place = Place::new();
    let role = format!("r_{}", &place.schema[2..]);
    let admin = place.client().await;
    admin
        .batch_execute(&format!(
            "create role {role} login superuser;
             alter role {role} set default_transaction_isolation = 'serializable';
             alter role {role} set default_transaction_read_only = on;
             alter role {role} set statement_timeout = '1ms';
             alter role {role} set lock_timeout = '1ms';
             alter role {role} set timezone = 'Pacific/Apia';
             alter role {role} set datestyle = 'SQL, DMY';
             alter role {role} set intervalstyle = 'sql_standard';
             alter role {role} set bytea_output = 'escape';
             alter role {role} set search_path = '';
             alter role {role} set synchronous_commit = 'remote_apply'"
        ))
        .await
        .unwrap();
    let config: tokio_postgres::Config = place.url.parse().unwrap();
    let url = format!(
        "postgres://{role}@127.0.0.1:{}/{}",
        config.get_ports()[0],
        config.get_dbname().unwrap()
    );
    let store = PostgresStore::connect_with(&url, place.options()).await.unwrap();
    store.migrate().await.unwrap();
    let mut client = place.client().await;
    write(&store, &mut client, &[due(event())]).await;
    let claimed = claim(&store, "a").await;
    assert_eq!(claimed.len(), 1);
    assert!(settle_one(&store, hold_of(&claimed[0]), Outcome::Done).await);
    store.close().await;
    admin
        .batch_execute(&format!("reassign owned by {role} to current_user; drop role {role}"))
        .await
        .unwrap();
}

/// Fault 23: nothing is prepared, set or listened to.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_the_doorbell_no_session_remembers_anything() {
    let place = Place::new();
    let options = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let url = named(&place.url, &place.schema);
    let store = PostgresStore::connect_with(&url, options).await.unwrap();
    store.migrate().await.unwrap();
    let mut client = place.client().await;
    write(&store, &mut client, &[due(event())]).await;
    let held = hold_of(&claim(&store, "a").await[0]);
    assert!(settle_one(&store, held, Outcome::Done).await);
    let prepared: i64 = client
        .query_typed_one("select count(*) from pg_prepared_statements", &[])
        .await
        .unwrap()
        .get(0);
    assert_eq!(prepared, 0, "nor does the application's");
    assert!(!sendoff_engine::store::WakeStore::arm(&store).await.unwrap(), "there is no bell");
    let listening = place
        .number(&format!(
            "select count(*) from pg_stat_activity
              where application_name = '{}' and query ilike 'listen%'",
            place.schema
        ))
        .await;
    assert_eq!(listening, 0);
}
