//! Tables: installed, brought up to date, printed, named.

use sendoff_core::{Event, Ident, report};
use sendoff_engine::capture::Commit;
use sendoff_engine::store::{ClaimStore, InspectStore, Lock, LockStore, StoreError};
use sendoff_postgres::{Doorbell, PostgresOptions, PostgresStore, migration_sql, upgrade_sql};

use sendoff_testkit::readable;
use sendoff_testkit::upgrade::up_to;

use crate::partitions::as_role;
use crate::place::{Place, by, claim, due, event, write};

/// The newest version.
const NEWEST: i64 = 9;

/// Takes the last migrations back, as far as there is anything to take back.
const UNDO: &str = "
    drop view outbox_event_json;
    alter table outbox_event drop column unavailable_since, drop column unroutable_since,
                             drop column delayed_until;
    drop table outbox_audit, outbox_pause, outbox_handled, outbox_key, inbox_event;
    drop index outbox_event_key;
    delete from outbox_schema where version >= 4;";

fn prefixed(place: &Place, prefix: &str) -> PostgresOptions {
    PostgresOptions { prefix: Some(Ident::new(prefix).unwrap()), ..place.options() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_start_at_once_migrate_once() {
    for _ in 0..5 {
        let place = Place::new();
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let (url, options) = (place.url.clone(), place.options());
            tasks.push(tokio::spawn(async move {
                let store = PostgresStore::connect_with(&url, options).await?;
                store.migrate().await?;
                store.counts().await
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().pending(), 0);
        }
        assert_eq!(place.number("select count(*) from outbox_schema").await, NEWEST);
        assert_eq!(place.number("select count(*) from outbox_bell").await, 1);
    }
}

/// Holds S8: by what the server says of its version, which is somebody else's here.
#[tokio::test]
async fn a_server_that_only_looks_like_postgres_is_refused_by_its_name() {
    let place = Place::new();
    let schema = &place.schema;
    place
        .run(&format!(
            "create schema {schema};
             create function {schema}.version() returns text language sql
                 as $$ select 'CockroachDB CCL v23.1.11 (x86_64-pc-linux-gnu)'::text $$"
        ))
        .await;
    let joint = if place.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{joint}options=-csearch_path%3D{schema},pg_catalog", place.url);
    // A store that sets nothing in its sessions: elsewhere the path is ours.
    let options = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let refused = PostgresStore::connect_with(&url, options).await.unwrap_err().to_string();
    assert!(refused.contains("CockroachDB is not supported"), "{refused}");
}

#[tokio::test]
async fn a_second_migration_changes_nothing() {
    let place = Place::new();
    let store = place.store().await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    store.migrate().await.unwrap();
    assert_eq!(place.rows().await, 1);
}

/// Fault 32.
#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let place = Place::new();
    let store = place.store().await;
    place.run("insert into outbox_schema (version) values (99)").await;
    let error = store.migrate().await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: NEWEST }), "{error:?}");
    let error = PostgresStore::connect_with(&place.url, place.options()).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: NEWEST }), "{error:?}");
}

/// A missing table, column, user, database or privilege names what is missing and what to do.
#[tokio::test]
async fn what_is_missing_is_named_with_its_remedy() {
    let place = Place::new();
    let connect = async |url: &str| PostgresStore::connect_with(url, place.options()).await;
    let store = connect(&place.url).await.unwrap();
    let lock = Lock::new(1);
    for error in [
        store.counts().await.unwrap_err(),
        store.claim(&by("a")).await.unwrap_err(),
        store.lock(&lock).await.err().unwrap(),
    ] {
        assert!(error.to_string().contains("run `sendoff migrate`"), "{error}");
    }
    let mut client = place.client().await;
    let tx = client.transaction().await.unwrap();
    let error = store.commit(tx, &[due(event())]).await.unwrap_err();
    assert!(report(&error).contains("run `sendoff migrate`"), "{}", report(&error));

    store.migrate().await.unwrap();
    let (schema, role) = (&place.schema, format!("r_{}", place.schema));
    place
        .run(&format!(
            "create role {role} login; grant usage on schema {schema} to {role};
                        grant select on {schema}.outbox_schema to {role}"
        ))
        .await;
    let stranger = connect(&as_role(&place, &role)).await.unwrap();
    let error = stranger.claim(&by("a")).await.unwrap_err();
    assert!(error.to_string().contains("grant USAGE"), "{error}");
    stranger.close().await;
    place.run(&format!("drop owned by {role}; drop role {role}")).await;

    place.run("alter table outbox_event drop column tenant_id cascade").await;
    let error = connect(&place.url).await.unwrap().claim(&by("a")).await.unwrap_err();
    assert!(error.to_string().contains("tenant_id"), "{error}");
    assert!(error.to_string().contains("run `sendoff migrate`"), "{error}");

    for (wrong, remedy) in [
        (as_role(&place, "nobody:s3cret"), "check user and password"),
        (format!("{}_not_there", place.url), "create the database"),
    ] {
        let error = connect(&wrong).await.unwrap_err();
        assert!(error.to_string().contains(remedy), "{error}");
        assert!(!format!("{error:?} {}", report(&error)).contains("s3cret"), "{error:?}");
    }
}

#[tokio::test]
async fn the_printed_migration_is_what_migrate_runs() {
    let place = Place::new();
    let script = migration_sql(&prefixed(&place, "Printed_")).unwrap();
    let client = place.client().await;
    client.batch_execute(&script).await.unwrap();
    let store =
        PostgresStore::connect_with(&place.url, prefixed(&place, "Printed_")).await.unwrap();
    store.migrate().await.unwrap();
    write(&store, &mut place.client().await, &[due(event())]).await;
    assert_eq!(claim(&store, "a").await.len(), 1);
    assert!(client.batch_execute(&script).await.is_err(), "a second time it fails");
    client.batch_execute("rollback").await.unwrap();
    assert_eq!(store.counts().await.unwrap().new, 1, "and changes nothing");
}

/// Everything that a schema has, in words.
async fn shape(place: &Place) -> Vec<String> {
    let schema = &place.schema;
    let query = format!(
        "select replace(thing, '{schema}', 'schema') from (
             select concat_ws(' ', table_name, ordinal_position, column_name, data_type, is_nullable,
                              column_default) as thing
               from information_schema.columns where table_schema = '{schema}'
             union all
             select indexdef from pg_indexes where schemaname = '{schema}'
             union all
             select pg_get_constraintdef(oid) from pg_constraint
              where connamespace = '{schema}'::regnamespace
             union all
             select pg_get_functiondef(oid) from pg_proc where pronamespace = '{schema}'::regnamespace
             union all
             select pg_get_viewdef(oid) from pg_class
              where relkind = 'v' and relnamespace = '{schema}'::regnamespace) things
          order by 1"
    );
    let rows = place.client().await.query(&query, &[]).await.unwrap();
    rows.iter().map(|row| row.get(0)).collect()
}

/// Holds L10: whichever version made the tables, the script for it makes of them those of this one.
#[tokio::test]
async fn a_printed_upgrade_makes_the_tables_of_this_version() {
    let fresh = Place::new();
    fresh.store().await;
    let wanted = shape(&fresh).await;
    assert!(wanted.len() > 50, "{wanted:?}");
    for from in 1..NEWEST as usize {
        let place = Place::new();
        let (client, options) = (place.client().await, place.options());
        let older = up_to(&migration_sql(&options).unwrap(), "outbox_schema", from);
        client.batch_execute(&format!("{older}commit;")).await.unwrap();
        let version = place.number("select max(version)::bigint from outbox_schema").await;
        assert_eq!(version, from as i64);
        client.batch_execute(&upgrade_sql(&options, from).unwrap()).await.unwrap();
        assert_eq!(shape(&place).await, wanted, "from version {from}");
        let store = PostgresStore::connect_with(&place.url, options).await.unwrap();
        assert_eq!(store.migrate().await.unwrap().from, NEWEST as usize);
    }
}

/// Holds W6.
#[tokio::test]
async fn outboxes_with_different_prefixes_live_side_by_side() {
    let place = Place::new();
    let plain = place.store().await;
    let billing = place.store_with(prefixed(&place, "billing_")).await;
    assert_eq!(billing.table(), format!("\"{}\".billing_outbox_event", place.schema));
    write(&billing, &mut place.client().await, &[due(event())]).await;
    place.run("select billing_sendoff_emit('t', '1')").await;
    assert_eq!(billing.counts().await.unwrap().new, 2);
    assert_eq!(plain.counts().await.unwrap().new, 0);
    assert!(claim(&plain, "a").await.is_empty());
    // PostgreSQL folds names that are not quoted, and so do we.
    let shouting = place.store_with(prefixed(&place, "BILLING_")).await;
    assert_eq!(shouting.counts().await.unwrap().new, 2);
}

/// Holds W6 and fault 30: every name that passes the check makes tables; the others never reach SQL.
#[tokio::test]
async fn hostile_names_are_refused_and_odd_ones_work() {
    let place = Place::new();
    for hostile in ["x; drop table orders; --", "a\"b", "a.b", "täble", "", "1a", "a'b", "a\0"] {
        assert!(Ident::new(hostile).is_err(), "{hostile:?}");
    }
    let reserved = PostgresOptions {
        schema: Some(Ident::new("PG_mine").unwrap()),
        ..PostgresOptions::default()
    };
    let error = PostgresStore::connect_with(&place.url, reserved.clone()).await.unwrap_err();
    assert!(matches!(error, StoreError::Misconfigured { .. }), "{error:?}");
    assert!(migration_sql(&reserved).is_err());

    for odd in ["select", "_", "outbox_event", "sendoff", "sendoff_outbox_"] {
        let store = place.store_with(prefixed(&place, odd)).await;
        write(&store, &mut place.client().await, &[due(event())]).await;
        assert_eq!(claim(&store, "a").await.len(), 1, "{odd}");
    }
    // As long as a name may be.
    let longest = Ident::new(format!("{}{}", place.schema, "_".repeat(40 - place.schema.len())));
    let options = PostgresOptions {
        schema: place.options().schema,
        prefix: Some(longest.unwrap()),
        ..PostgresOptions::default()
    };
    let store = place.store_with(options).await;
    write(&store, &mut place.client().await, &[due(event())]).await;
    assert_eq!(claim(&store, "a").await.len(), 1);
}

/// Holds W6: a keyword is a schema like any other.
#[tokio::test]
async fn a_keyword_can_be_a_schema() {
    let options = || PostgresOptions {
        schema: Some(Ident::new("Table").unwrap()),
        prefix: Some(Ident::new("test_").unwrap()),
        ..PostgresOptions::default()
    };
    let place = Place::new();
    let script = migration_sql(&options()).unwrap();
    let mut client = place.client().await;
    // Rolled back: the name is not this test's alone.
    let tx = client.transaction().await.unwrap();
    let inside =
        script.replace("begin isolation level read committed;", "").replace("\ncommit;", "");
    tx.batch_execute(&inside).await.unwrap();
    tx.batch_execute("select count(*) from \"table\".test_outbox_event_json").await.unwrap();
    tx.rollback().await.unwrap();
}

/// Holds S1: what the columns are called and what they contain.
#[tokio::test]
async fn people_can_read_the_table() {
    let place = Place::new();
    let store = place.store().await;
    let order = readable::order();
    let broken = Event::builder("odd").bytes(vec![b'a', 0xff]).content_type("text/plain");
    let mut client = place.client().await;
    let rows = [order.clone(), readable::scan(), broken.build().unwrap()].map(due);
    write(&store, &mut client, &rows).await;

    client
        .batch_execute(&format!("set search_path = {}; set timezone = 'UTC'", place.schema))
        .await
        .unwrap();
    let shown = async |column: &str| -> Vec<Option<String>> {
        let query = format!("select {column}::text from outbox_event_json order by seq");
        client.query(&query, &[]).await.unwrap().iter().map(|row| row.get(0)).collect()
    };
    let own =
        [("occurred_at", "1969-12-31 23:59:59.999999+00"), ("headers", r#"{"source": "shop"}"#)];
    readable::people_can_read_the_table(&order, &own, &shown).await;
    let odd = shown("payload").await[2].clone();
    assert_eq!(odd.as_deref(), Some("a\\377"), "one odd row does not break the view");
}

/// Tables of the version before are brought up to date, and what died then has an end.
#[tokio::test]
async fn the_second_migration_gives_dead_rows_their_end() {
    let place = Place::new();
    let store = place.store().await;
    let row = due(event());
    let id = row.event.id();
    write(&store, &mut place.client().await, &[row]).await;
    place.run(UNDO).await;
    place
        .run(
            "update outbox_event set status = 3; drop index outbox_event_dead;
              drop table outbox_tally; drop table outbox_tally_delta;
              delete from outbox_schema where version >= 2",
        )
        .await;
    let ended = "select count(*) from outbox_event where done_at is not null";
    assert_eq!(place.number(ended).await, 0);
    store.migrate().await.unwrap();
    assert!(store.find(id).await.unwrap().unwrap().done_at.is_some());
    assert!(store.topics().await.unwrap().is_empty(), "counted from now on");
}

/// A migration of a table that is in use waits for an open transaction, and lets writers pass.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_waits_for_a_lock_keeps_no_writer_waiting() {
    let place = Place::new();
    let store = place.store().await;
    place.run(UNDO).await;
    place
        .run(
            "drop index outbox_event_dead; drop table outbox_tally_delta;
             alter table outbox_tally drop column ended_at;
             delete from outbox_schema where version >= 2;
             drop table outbox_tally",
        )
        .await;
    let open = place.client().await;
    let begin = format!("begin; lock table {}.outbox_event in row exclusive mode", place.schema);
    open.batch_execute(&begin).await.unwrap();
    let migrating = tokio::spawn({
        let store = store.clone();
        async move { store.migrate().await }
    });
    // As the version before writes.
    let write = "insert into outbox_event (event_id, event_type, shard, occurred_at, due_at, created_at, payload)
                 values (gen_random_uuid(), 't', 0, now(), now(), now(), '')";
    for _ in 0..30 {
        let writing = place.run(write);
        // 2 s, and room for a crowded machine.
        let written = tokio::time::timeout(std::time::Duration::from_secs(5), writing).await;
        written.expect("a writer waits for the migration");
        tokio::time::sleep(std::time::Duration::from_millis(50)).await;
    }
    assert!(!migrating.is_finished(), "an index is made beside the transaction, not under it");
    open.batch_execute("commit").await.unwrap();
    migrating.await.unwrap().unwrap();
    store.check_installed().await.unwrap();
    let valid = "select count(*) from pg_index
                  where indexrelid = 'outbox_event_dead'::regclass and indisvalid";
    assert_eq!(place.number(valid).await, 1);
}

/// The same where it needs a table for itself for a moment.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_that_needs_a_table_for_itself_waits_in_short_turns() {
    let place = Place::new();
    let store = place.store().await;
    place.run(UNDO).await;
    place
        .run(
            "drop table outbox_tally_delta; alter table outbox_tally drop column ended_at;
             delete from outbox_schema where version = 3",
        )
        .await;
    let open = place.client().await;
    let begin = format!("begin; lock table {}.outbox_tally in row exclusive mode", place.schema);
    open.batch_execute(&begin).await.unwrap();
    let migrating = tokio::spawn({
        let store = store.clone();
        async move { store.migrate().await }
    });
    // As the version before settles.
    let count = "insert into outbox_tally as t (event_type, status, count) values ('t', 1, 1)
                 on conflict (event_type, status) do update set count = t.count + 1";
    for _ in 0..20 {
        let counted = tokio::time::timeout(std::time::Duration::from_secs(5), place.run(count));
        counted.await.expect("a settlement waits for the migration");
        tokio::time::sleep(std::time::Duration::from_millis(100)).await;
    }
    assert!(!migrating.is_finished());
    open.batch_execute("commit").await.unwrap();
    migrating.await.unwrap().unwrap();
    store.check_installed().await.unwrap();
}
