//! Tables: installed, brought up to date, printed, named.

use mysql_async::prelude::Queryable;
use sendoff_core::{Event, Ident};
use sendoff_engine::store::{InspectStore, StoreError};
use sendoff_mysql::{
    Layout, MysqlOptions, MysqlStore, Payloads, Period, migration_sql, upgrade_sql,
};

use sendoff_testkit::readable;
use sendoff_testkit::upgrade::up_to;

use crate::place::{MARIADB, MYSQL, Place, claim, due, event, statements, write};

fn prefixed(prefix: &str) -> MysqlOptions {
    MysqlOptions { prefix: Some(Ident::new(prefix).unwrap()), ..MysqlOptions::default() }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn nodes_that_start_at_once_migrate_once() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let mut tasks = Vec::new();
        for _ in 0..4 {
            let url = place.url.clone();
            tasks.push(tokio::spawn(async move {
                let store = MysqlStore::connect(&url).await?;
                store.migrate().await?;
                store.counts().await
            }));
        }
        for task in tasks {
            assert_eq!(task.await.unwrap().unwrap().pending(), 0);
        }
        let version = "select max(version) - count(*) from outbox_schema";
        assert_eq!(place.number(version).await, 0, "each migration once");
    }
}

/// Neither server can undo a change of tables: what was interrupted is finished by the next.
#[tokio::test]
async fn a_migration_that_stopped_half_way_is_finished_by_the_next() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let script = migration_sql(&MysqlOptions::default()).unwrap();
        let statements = statements(&script);
        for end in 1..statements.len() {
            let mut conn = place.conn().await;
            for statement in &statements[..end] {
                conn.query_drop(statement).await.unwrap();
            }
            conn.disconnect().await.unwrap();
            let store = place.store().await;
            write(&store, &mut place.conn().await, &[due(event())]).await;
            assert_eq!(store.counts().await.unwrap().new, 1);
            let drop = "drop view if exists outbox_event_json; drop table if exists outbox_event;
                        drop table if exists outbox_tally; drop table if exists outbox_schema";
            place.run(drop).await;
            store.close().await;
        }
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_and_left_as_it_is() {
    let place = Place::new().await;
    place.store().await;
    place.run("insert into outbox_schema values (99, utc_timestamp(6))").await;
    let error = MysqlStore::connect(&place.url).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, .. }), "{error:?}");
}

#[tokio::test]
async fn the_printed_migration_is_what_migrate_runs() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let script = migration_sql(&prefixed("Printed_")).unwrap();
        place.run_script(&script).await;
        let store = MysqlStore::connect_with(&place.url, prefixed("Printed_")).await.unwrap();
        store.migrate().await.unwrap();
        write(&store, &mut place.conn().await, &[due(event())]).await;
        assert_eq!(claim(&store, "a").await.len(), 1);
        place.run_script(&script).await;
        assert_eq!(store.counts().await.unwrap().new, 1, "a second time changes nothing");
    }
}

/// Everything that a database has, in words.
async fn shape(place: &Place) -> Vec<String> {
    let query = "select convert(thing using utf8mb4) from (
             select concat_ws(' ', table_name, ordinal_position, column_name, column_type,
                              collation_name, is_nullable, column_default, extra) as thing
               from information_schema.columns where table_schema = database()
             union all
             select concat_ws(' ', table_name, index_name, seq_in_index, column_name, non_unique)
               from information_schema.statistics where table_schema = database()
             union all
             select concat_ws(' ', routine_name,
                              replace(routine_definition, concat('`', database(), '`.'), ''))
               from information_schema.routines where routine_schema = database()) things
          order by 1";
    place.conn().await.query(query).await.unwrap()
}

/// Holds L10: whichever version made the tables, the script for it makes of them those of this one.
#[tokio::test]
async fn a_printed_upgrade_makes_the_tables_of_this_version() {
    const NEWEST: usize = 7;
    for server in [MARIADB, MYSQL] {
        let fresh = Place::on(server).await;
        fresh.store().await;
        let wanted = shape(&fresh).await;
        assert!(wanted.len() > 50, "{wanted:?}");
        for from in 1..NEWEST {
            let (place, options) = (Place::on(server).await, MysqlOptions::default());
            let script = migration_sql(&options).unwrap();
            place.run_script(&up_to(&script, "outbox_schema", from)).await;
            assert_ne!(shape(&place).await, wanted);
            place.run_script(&upgrade_sql(&options, from).unwrap()).await;
            assert_eq!(shape(&place).await, wanted, "from version {from}");
            let store = MysqlStore::connect(&place.url).await.unwrap();
            assert_eq!(store.migrate().await.unwrap().from, NEWEST);
        }
    }
}

/// Holds W6.
#[tokio::test]
async fn outboxes_with_different_prefixes_live_side_by_side() {
    let place = Place::new().await;
    let plain = place.store().await;
    let billing = place.store_with(prefixed("billing_")).await;
    assert_eq!(billing.table(), format!("`{}`.billing_outbox_event", place.database));
    write(&billing, &mut place.conn().await, &[due(event())]).await;
    assert_eq!(billing.counts().await.unwrap().new, 1);
    assert_eq!(plain.counts().await.unwrap().new, 0);
    for odd in ["select", "_", "outbox_event", "sendoff", "sendoff_outbox_"] {
        let store = place.store_with(prefixed(odd)).await;
        write(&store, &mut place.conn().await, &[due(event())]).await;
        assert_eq!(claim(&store, "a").await.len(), 1, "{odd}");
    }
    // As long as a name may be.
    let store = place.store_with(prefixed(&"p".repeat(40))).await;
    write(&store, &mut place.conn().await, &[due(event())]).await;
    assert_eq!(claim(&store, "a").await.len(), 1);
}

/// Holds L6: rows land by the time they were created, whatever their ids are.
#[tokio::test]
async fn a_partitioned_table_has_its_rows_in_the_partition_of_the_day() {
    for server in [MARIADB, MYSQL] {
        for (period, name) in
            [(Period::Hour, "p%Y%m%d%H"), (Period::Day, "p%Y%m%d"), (Period::Month, "p%Y%m")]
        {
            let place = Place::on(server).await;
            let layout = Layout::Partitioned(period);
            let options = MysqlOptions { layout, payloads: Payloads::Json, ..Default::default() };
            let store = place.store_with(options).await;
            let old = sendoff_core::EventId::from_bytes([0; 16]);
            let odd = Event::builder("t").id(old).json(&1).build().unwrap();
            let mut conn = place.conn().await;
            write(&store, &mut conn, &[due(odd)]).await;
            let today = format!("select date_format(utc_timestamp(), '{name}')");
            let today: String = conn.query_first(today).await.unwrap().unwrap();
            let rows = format!("select count(*) from outbox_event partition ({today})");
            assert_eq!(place.number(&rows).await, 1);
            assert_eq!(place.number("select count(*) from outbox_event partition (pmax)").await, 0);
        }
    }
}

/// Holds S1: what the columns are called and what they contain.
#[tokio::test]
async fn people_can_read_the_table() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let order = readable::order();
        let mut conn = place.conn().await;
        write(&store, &mut conn, &[order.clone(), readable::scan()].map(due)).await;
        let shown = async |column: &str| -> Vec<Option<String>> {
            let query =
                format!("select cast({column} as char) from outbox_event_json order by seq");
            conn.query(query).await.unwrap()
        };
        let own =
            [("occurred_at", "1969-12-31 23:59:59.999999"), ("headers", r#"{"source":"shop"}"#)];
        readable::people_can_read_the_table(&order, &own, shown).await;
    }
}

/// Whoever may make tables and no procedures gets the tables, and is told; who may, makes the rest.
#[tokio::test]
async fn without_the_right_to_make_procedures_the_tables_are_made() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (database, user) = (&place.database, &place.database[..20]);
        place
            .run(&format!(
                "create user {user}; grant select, insert, update, delete, create, alter, drop, index, \
                 create view on {database}.* to {user}"
            ))
            .await;
        let url = place.url.replace("root@", &format!("{user}@"));
        let store = MysqlStore::connect(&url).await.unwrap();
        let migrated = store.migrate().await.unwrap();
        assert!(migrated.without.is_some_and(|why| why.contains("CREATE ROUTINE")), "{migrated}");
        assert!(migrated.to_string().contains("procedures"), "{migrated}");
        assert_eq!(store.counts().await.unwrap().new, 0);
        // By somebody who may; then again by somebody who cannot see that it was done.
        let root = MysqlStore::connect(&place.url).await.unwrap();
        assert_eq!(root.migrate().await.unwrap().without, None);
        place.run("call sendoff_emit('t', '1', null, @id)").await;
        assert!(store.migrate().await.unwrap().without.is_some());
        place.run(&format!("grant create routine on {database}.* to {user}")).await;
        place.run("drop procedure sendoff_emit").await;
        assert_eq!(store.migrate().await.unwrap().without, None);
        place.run("call sendoff_emit('t', '1', null, @id)").await;
        assert_eq!(store.counts().await.unwrap().new, 2);
        // One of an older version is replaced, one of a newer one stays.
        for (comment, stays) in [("sendoff 0", false), ("sendoff 99", true)] {
            place.run("drop procedure sendoff_emit").await;
            place.run(&format!("create procedure sendoff_emit() comment '{comment}' do 0")).await;
            root.migrate().await.unwrap();
            let left = format!(
                "select count(*) from information_schema.routines
                  where routine_schema = '{database}' and routine_comment = '{comment}'"
            );
            assert_eq!(place.number(&left).await == 1, stays, "{comment}");
        }
        for store in [store, root] {
            store.close().await;
        }
        place.run(&format!("drop user {user}")).await;
    }
}
