//! Real processes: stopped, and continued.

use std::env;
use std::sync::Arc;
use std::time::Duration;

use mysql_async::prelude::Queryable;
use sendoff_core::partition::Period;
use sendoff_core::{Delivery, Event};
use sendoff_engine::{PartitionMaintainer, PartitionOptions};
use sendoff_mysql::{Layout, MysqlOptions, Retention};
use sendoff_testkit::ordeal::stopped::{self, wait_for_line};
use sendoff_testkit::process::{Node, say};
use sendoff_testkit::soak;

use crate::place::{MARIADB, MYSQL, Place, due, write};

const EVENT: &str = "order.placed";
const DAY: Duration = Duration::from_secs(24 * 60 * 60);

fn start(test: &str, place: &Place) -> Node {
    Node::start(test, &[("SENDOFF_TEST_NODE", &*place.url)])
}

/// Not a test of its own: this program again, as a node in another process. Its handler says `began`
/// for each event, and waits for a line on standard input.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(url) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::of_another(url);
    let handler = |delivery: Delivery| async move {
        say(&format!("began {}", delivery.id()));
        wait_for_line().await
    };
    stopped::play(place.store().await, handler).await;
}

/// Fault 11: stopped past its hold and continued, it finds the row settled by another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stopped_process_cannot_settle_what_it_lost() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let event = Event::json(EVENT, "slow").unwrap();
        write(&store, &mut place.conn().await, &[due(event.clone())]).await;

        let mut zombie = start("process::node", &place);
        let other = place.store().await;
        stopped::a_stopped_process_cannot_settle_what_it_lost(&store, other, &event, &mut zombie)
            .await;
    }
}

/// An old partition, made anew whenever it was dropped.
const OLD: &str = "p20010101";

fn in_days() -> MysqlOptions {
    let layout = Layout::Partitioned(Period::Day);
    MysqlOptions { layout, retention: Retention::FOREVER, ..MysqlOptions::default() }
}

/// Not a test of its own: a maintainer in another process, which drops a partition again and again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn maintainer() {
    let Ok(url) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::of_another(url);
    let store = place.store_with(in_days()).await;
    let options = PartitionOptions { retention: Some(DAY), ..PartitionOptions::default() };
    let maintainer = PartitionMaintainer::new(Arc::new(store), options).unwrap();
    let mut conn = place.conn().await;
    loop {
        let first = "select partition_name, trim(both '\\'' from partition_description)
                       from information_schema.partitions
                      where table_schema = database() and table_name = 'outbox_event'
                        and partition_ordinal_position = 1";
        let (name, end): (String, String) = conn.query_first(first).await.unwrap().unwrap();
        let split = format!(
            "alter table outbox_event reorganize partition {name} into (
                 partition {OLD} values less than ('2001-01-02'),
                 partition {name} values less than ('{end}'))"
        );
        if name != OLD {
            let _ = conn.query_drop(split).await;
        }
        let _ = maintainer.run_once().await;
        say("passed");
    }
}

/// Stopped in the middle of whatever it is at, it keeps no writer waiting for longer than two seconds: the
/// server lets no silent session live for longer that may have locked the table.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_maintainer_that_is_stopped_keeps_no_writer_waiting() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        drop(place.store_with(in_days()).await);
        let mut conn = place.conn().await;
        let node = start("process::maintainer", &place);
        let mut random = soak::random(92);
        for round in 0..4 {
            node.says("passed");
            tokio::time::sleep(Duration::from_millis(random.u64(0..60))).await;
            node.signal("-STOP");
            let writing = conn.query_drop(
                "insert into outbox_event (event_id, shard, event_type, payload, occurred_at,
                                           created_at, due_at)
                 values (random_bytes(16), 0, 't', '1', utc_timestamp(6), utc_timestamp(6),
                         utc_timestamp(6))",
            );
            let written = tokio::time::timeout(Duration::from_secs(2), writing).await;
            written.unwrap_or_else(|_| panic!("a write waits, in round {round}")).unwrap();
            node.signal("-CONT");
        }
    }
}
