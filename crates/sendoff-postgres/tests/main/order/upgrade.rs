//! Tables of the version before, brought up to date while they are in use.

use sendoff_core::partition::Period;
use sendoff_engine::store::{InspectStore, Outcome};
use sendoff_postgres::{Layout, PostgresOptions, migration_sql};
use sendoff_testkit::upgrade::up_to;

use super::*;
use crate::place::{claim, hold_of, settle_one};

/// As the version before writes: a row with a key is due like any other.
const AS_BEFORE: &str = "
    insert into outbox_event (event_id, event_type, shard, occurred_at, due_at, created_at, payload,
                              ordering_key)
    values (gen_random_uuid(), 't', 0, now(), now(), now(), '', 'a')";

async fn before(layout: Layout) -> (Place, PostgresOptions) {
    let place = Place::new();
    let options = PostgresOptions { layout, ..place.options() };
    let older = up_to(&migration_sql(&options).unwrap(), "outbox_schema", 6);
    place.client().await.batch_execute(&format!("{older}commit;")).await.unwrap();
    place.run(AS_BEFORE).await;
    place.run(AS_BEFORE).await;
    (place, options)
}

/// The indexes of rows by key: of the table or of its partitions, and how many of them are good for use.
const INDEXES: &str = "
    with ours as materialized (
        select i.indexrelid, i.indisvalid
          from pg_index i join pg_class c on c.oid = i.indexrelid
         where c.relnamespace = current_schema()::regnamespace)
    select count(*) from ours i
     where pg_get_indexdef(i.indexrelid) like '%(ordering_key COLLATE \"C\", seq)%'";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_index_is_made_beside_writers_in_partitions_too() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
        let (place, options) = before(layout).await;
        if layout != Layout::Flat {
            place
                .run(
                    "create table outbox_event_p20200101 partition of outbox_event
                         for values from ('2020-01-01') to ('2020-01-02')",
                )
                .await;
        }
        let open = beside(&place, "lock table outbox_event in row exclusive mode").await;
        let store = PostgresStore::connect_with(&place.url, options).await.unwrap();
        let migrating = tokio::spawn({
            let store = store.clone();
            async move { store.migrate().await }
        });
        for _ in 0..20 {
            let written = tokio::time::timeout(Duration::from_secs(5), place.run(AS_BEFORE)).await;
            written.expect("a writer waits for the migration");
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
        assert!(!migrating.is_finished());
        open.batch_execute("commit").await.unwrap();
        migrating.await.unwrap().unwrap();
        store.check_ready().await.unwrap();
        let tables = "select count(*) from pg_class where relkind in ('r', 'p')
                        and relnamespace = current_schema()::regnamespace and relname like 'outbox_event%'";
        let (indexes, tables) = (place.number(INDEXES).await, place.number(tables).await);
        assert_eq!(indexes, tables, "one for each");
        assert_eq!(place.number(&format!("{INDEXES} and i.indisvalid")).await, indexes);
        // What was written before is put in line by whoever claims it, and then it is in order.
        let strays = claim(&store, "n").await;
        assert_eq!(strays.len(), 22);
        for stray in &strays {
            assert!(settle_one(&store, hold_of(stray), Outcome::Released).await);
        }
        let run = run_of(&store, &take_one(&store, "n").await).await;
        assert_eq!(run.rows.len(), 22);
        store.close().await;
    }
}

#[tokio::test]
async fn what_a_build_that_was_broken_off_left_behind_is_made_again() {
    for layout in [Layout::Flat, Layout::Partitioned(Period::Day)] {
        let (place, options) = before(layout).await;
        let (name, table) = match layout {
            Layout::Flat => ("outbox_event_key", "outbox_event"),
            Layout::Partitioned(_) => ("whatever", "outbox_event_pmax"),
        };
        place
            .run(&format!(
                "create index {name} on {table} (ordering_key collate \"C\", seq)
                     where ordering_key is not null and status in (0, 2);
                 update pg_index set indisvalid = false where indexrelid = '{name}'::regclass"
            ))
            .await;
        let store = place.store_with(options).await;
        let all = place.number(INDEXES).await;
        assert_eq!(place.number(&format!("{INDEXES} and i.indisvalid")).await, all);
        store.close().await;
    }
}

/// Attack 3: neither is a partition dropped that has a dead row for which a key waits.
#[tokio::test]
async fn a_partition_with_a_row_that_parks_a_key_stays() {
    use sendoff_engine::store::{Bounds, Dropped, PartitionSession, PartitionStore};
    let place = Place::new();
    let layout = Layout::Partitioned(Period::Day);
    let store = place.store_with(PostgresOptions { layout, ..place.options() }).await;
    place
        .run(
            "create table outbox_event_p20200101 partition of outbox_event
                 for values from ('2020-01-01Z') to ('2020-01-02Z');
             insert into outbox_event (event_id, event_type, shard, occurred_at, due_at, created_at, payload,
                                       ordering_key, status, done_at)
             values (gen_random_uuid(), 't', 0, now(), '9998-01-01Z', '2020-01-01 12:00Z', '', 'a', 3, now());
             insert into outbox_key (ordering_key, due_at, since, parked_by)
             select ordering_key, now(), now(), event_id from outbox_event",
        )
        .await;
    let mut session = store.maintain().await.unwrap().unwrap();
    let lock_wait = Duration::from_secs(1);
    let bounds = Bounds { lock_wait, most_moved: 0, drop_dead: true };
    let name = "p20200101".parse().unwrap();
    assert_eq!(PartitionSession::drop(&mut *session, &name, bounds).await.unwrap(), Dropped::Dead);
    place.run("update outbox_key set parked_by = null").await;
    assert_eq!(PartitionSession::drop(&mut *session, &name, bounds).await.unwrap(), Dropped::Gone);
    session.release().await.unwrap();
}
