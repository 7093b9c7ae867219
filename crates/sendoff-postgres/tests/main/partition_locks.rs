//! What keeping partitions costs others: a moment, whatever becomes of the maintainer; and no dead row.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::partition::Period;
use sendoff_engine::{Maintained, PartitionMaintainer, PartitionOptions, WhySkipped};
use sendoff_postgres::{Layout, PostgresOptions, PostgresStore, Retention};
use sendoff_testkit::process::say;
use sendoff_testkit::soak;
use tokio::time::timeout;

use crate::place::{Place, due, event, write};
use crate::process::node_of;

/// 2 s, and room for a crowded machine.
const WRITE: Duration = Duration::from_secs(5);
const OLD: &str = "create table outbox_event_p20200101 partition of outbox_event
                   for values from ('2020-01-01 00:00:00+00') to ('2020-01-02 00:00:00+00')";

async fn partitioned(place: &Place) -> PostgresStore {
    let layout = Layout::Partitioned(Period::Day);
    let retention = Retention::FOREVER;
    place.store_with(PostgresOptions { layout, retention, ..place.options() }).await
}

fn maintainer(store: &PostgresStore, drop_dead: bool) -> PartitionMaintainer {
    let retention = Some(Duration::from_secs(24 * 60 * 60));
    let options = PartitionOptions { retention, drop_dead, ..PartitionOptions::default() };
    PartitionMaintainer::new(Arc::new(store.clone()), options).unwrap()
}

#[tokio::test]
async fn a_partition_with_a_dead_row_stays_until_it_may_go() {
    let place = Place::new();
    let store = partitioned(&place).await;
    place.run(OLD).await;
    place
        .run(
            "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                       due_at, status, done_at)
             values (gen_random_uuid(), 0, 't', 'x', now(), '2020-01-01 12:00:00+00', now(), 3, now())",
        )
        .await;
    let old = "p20200101".parse().unwrap();
    for really in [false, true] {
        let keeping = maintainer(&store, false);
        let pass = if really { keeping.run_once().await } else { keeping.dry_run().await };
        let Ok(Maintained::Here(report)) = pass else { panic!("nobody else is at work") };
        assert!(report.dropped.is_empty());
        let skipped: Vec<_> = report.skipped.iter().map(|left| (&left.name, left.why)).collect();
        assert_eq!(skipped, [(&old, WhySkipped::Dead)]);
    }
    assert_eq!(place.rows().await, 1);
    let Ok(Maintained::Here(report)) = maintainer(&store, true).run_once().await else {
        panic!("nobody else is at work")
    };
    assert_eq!((report.dropped, report.dropped_dead), (vec![old.clone()], vec![old]));
    assert_eq!(place.rows().await, 0);
}

/// Not a test of its own: this program again, which makes and drops a partition again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    let store = PostgresStore::connect_with(&place.url, place.options()).await.unwrap();
    let maintainer = maintainer(&store, false);
    loop {
        // Nothing to drop where the last pass found the table busy.
        let made = place.client().await;
        let make = format!("set search_path = {}; {OLD}", place.schema);
        let _ = made.batch_execute(&make).await;
        let _ = maintainer.run_once().await;
        say("kept");
    }
}

/// A maintainer that is stopped at any moment keeps no writer waiting.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_frozen_maintainer_keeps_no_writer_waiting() {
    let place = Place::new();
    let (store, mut client) = (partitioned(&place).await, place.client().await);
    let node = node_of("partition_locks::node", &place, &[]);
    let mut random = soak::random(11);
    for _ in 0..soak::rounds(6) {
        node.says("kept");
        tokio::time::sleep(Duration::from_millis(random.u64(0..30))).await;
        node.signal("-STOP");
        let rows = [due(event())];
        let writing = write(&store, &mut client, &rows);
        timeout(WRITE, writing).await.expect("a writer waits for a frozen maintainer");
        node.signal("-CONT");
    }
    node.signal("-KILL");
}
