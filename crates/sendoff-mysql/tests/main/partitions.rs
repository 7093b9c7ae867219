//! Partitions: made ahead, dropped when they are over, and no row lost between the two.

use std::sync::Arc;
use std::time::Duration;

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::partition::Period;
use sendoff_engine::store::{InspectStore, Outcome, StoreError};
use sendoff_engine::{
    CleanupMaintainer, CleanupOptions, Maintained, PartitionError, PartitionMaintainer,
    PartitionOptions, PartitionReport, WhySkipped,
};
use sendoff_mysql::{Layout, MysqlOptions, MysqlStore, Retention};
use sendoff_testkit::wait::eventually;
use tokio::task::JoinHandle;

use crate::place::{MARIADB, MYSQL, Place, claim, due, event, hold_of, settle_one, write};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Long enough for a test to do what it must while somebody waits.
const PATIENT: Duration = Duration::from_secs(15);

fn options() -> MysqlOptions {
    let layout = Layout::Partitioned(Period::Day);
    MysqlOptions { layout, retention: Retention::FOREVER, ..MysqlOptions::default() }
}

fn keeping_a_day() -> PartitionOptions {
    PartitionOptions { retention: Some(DAY), ..PartitionOptions::default() }
}

fn maintainer(store: &MysqlStore, options: PartitionOptions) -> PartitionMaintainer {
    PartitionMaintainer::new(Arc::new(store.clone()), options).unwrap()
}

async fn pass(store: &MysqlStore, options: PartitionOptions) -> PartitionReport {
    here(maintainer(store, options).run_once().await)
}

fn here(pass: Result<Maintained, PartitionError>) -> PartitionReport {
    match pass.unwrap() {
        Maintained::Here(report) => report,
        Maintained::Elsewhere => panic!("nobody else is at work"),
    }
}

fn start(
    store: &MysqlStore,
    options: PartitionOptions,
) -> JoinHandle<Result<Maintained, PartitionError>> {
    let maintainer = maintainer(store, options);
    tokio::spawn(async move { maintainer.run_once().await })
}

fn dropped(report: &PartitionReport) -> Vec<&str> {
    report.dropped.iter().map(|name| name.as_str()).collect()
}

fn skipped(report: &PartitionReport) -> Vec<(&str, WhySkipped)> {
    report.skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.why)).collect()
}

/// A table whose first partition ended long ago. All rows of the past are in it.
async fn place_with_an_old_partition(server: &str) -> (Place, MysqlStore) {
    let place = Place::on(server).await;
    let store = place.store_with(options()).await;
    let (first, end): (String, String) = place
        .conn()
        .await
        .query_first(
            "select partition_name, trim(both '\\'' from partition_description)
               from information_schema.partitions
              where table_schema = database() and table_name = 'outbox_event'
                and partition_ordinal_position = 1",
        )
        .await
        .unwrap()
        .unwrap();
    place
        .run(&format!(
            "alter table outbox_event reorganize partition {first} into (
                 partition {OLD} values less than ('2001-01-02'),
                 partition {first} values less than ('{end}'))"
        ))
        .await;
    (place, store)
}

const OLD: &str = "p20010101";

/// Holds L6: by the hour; what is planned fits to what is there, whatever the server makes of its ends.
#[tokio::test]
async fn hours_are_made_and_dropped() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let layout = Layout::Partitioned(Period::Hour);
        let store = place.store_with(MysqlOptions { layout, ..options() }).await;
        write(&store, &mut place.conn().await, &[due(event())]).await;
        let hourly = PartitionOptions { lookahead: DAY / 4, ..PartitionOptions::by(Period::Hour) };
        let made = pass(&store, hourly.clone()).await;
        assert!((5..=6).contains(&made.created.len()), "{made:?}");
        let again = pass(&store, hourly.clone()).await;
        assert!(again.created.len() <= 1 && again.skipped.is_empty(), "{again:?}");
        assert_eq!(claim(&store, "a").await.len(), 1);
    }
    let (_place, store) = place_with_an_old_partition(MARIADB).await;
    let kept = PartitionOptions { lookahead: DAY / 4, ..PartitionOptions::by(Period::Hour) };
    let kept = PartitionOptions { retention: Some(DAY), ..kept };
    assert_eq!(dropped(&pass(&store, kept).await), [OLD]);
}

/// A row in the old partition.
fn old_row(status: u8) -> String {
    format!(
        "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   due_at, status, done_at)
         values (random_bytes(16), 0, 't', '1', utc_timestamp(6), '2001-01-01 12:00:00',
                 case when {status} in (0, 2) then utc_timestamp(6) end, {status},
                 case when {status} in (1, 3) then utc_timestamp(6) end)"
    )
}

async fn insert(conn: &mut Conn, status: u8) {
    conn.query_drop(old_row(status)).await.unwrap();
}

/// Until so many sessions wait for the table.
async fn waiting(place: &Place, sessions: i64) {
    let query = format!(
        "select count(*) from information_schema.processlist
          where db = '{}' and state like 'Waiting for table metadata lock%'",
        place.database
    );
    eventually("sessions that wait", async || place.number(&query).await >= sessions).await;
}

async fn partitions(place: &Place) -> i64 {
    place
        .number(
            "select count(*) from information_schema.partitions
              where table_schema = database() and table_name = 'outbox_event'",
        )
        .await
}

async fn made_ahead_and_only_once(server: &str) {
    let place = Place::on(server).await;
    let store = place.store_with(options()).await;
    let report = pass(&store, PartitionOptions::default()).await;
    assert_eq!(report.created.len(), 29, "two are there from the beginning");
    assert_eq!(partitions(&place).await, 32, "today, thirty days, the tail");
    assert_eq!(pass(&store, PartitionOptions::default()).await, PartitionReport::default());
    write(&store, &mut place.conn().await, &[due(event())]).await;
    assert_eq!(place.number("select count(*) from outbox_event partition (pmax)").await, 0);
    assert_eq!(claim(&store, "a").await.len(), 1);
}

async fn pending_blocks(server: &str) {
    for (status, pending) in [(0, true), (1, false), (2, true), (3, false)] {
        let (place, store) = place_with_an_old_partition(server).await;
        insert(&mut place.conn().await, status).await;
        let few = PartitionOptions {
            lookahead: DAY,
            ..PartitionOptions { drop_dead: true, ..keeping_a_day() }
        };
        let seen = here(maintainer(&store, few.clone()).dry_run().await);
        let report = pass(&store, few.clone()).await;
        assert_eq!(seen, report, "a dry run says what is done then");
        if pending {
            assert_eq!(skipped(&report), [(OLD, WhySkipped::Pending)]);
            let claimed = claim(&store, "a").await;
            assert_eq!(claimed.len(), 1, "and it is delivered like any other");
            assert!(settle_one(&store, hold_of(&claimed[0]), Outcome::Done).await);
            assert_eq!(dropped(&pass(&store, few).await), [OLD]);
        } else {
            assert_eq!(dropped(&report), [OLD], "status {status}");
        }
        assert_eq!(place.rows().await, 0);
    }
}

async fn late_insert_first(server: &str) {
    let (place, store) = place_with_an_old_partition(server).await;
    let mut conn = place.conn().await;
    conn.query_drop("begin").await.unwrap();
    insert(&mut conn, 0).await;
    let few = PartitionOptions {
        lookahead: DAY,
        lock_wait: Duration::from_millis(10),
        ..keeping_a_day()
    };
    let report = pass(&store, few.clone()).await;
    assert_eq!(skipped(&report), [(OLD, WhySkipped::Busy)]);
    conn.query_drop("commit").await.unwrap();
    let report = pass(&store, few).await;
    assert_eq!(skipped(&report), [(OLD, WhySkipped::Pending)]);
    assert_eq!(claim(&store, "a").await.len(), 1);
}

async fn late_insert_waits(server: &str) {
    let (place, store) = place_with_an_old_partition(server).await;
    let mut reader = place.conn().await;
    reader.query_drop("begin; select count(*) from outbox_event").await.unwrap();
    let patient = PartitionOptions { lock_wait: PATIENT, lookahead: DAY, ..keeping_a_day() };
    let dropping = start(&store, patient);
    waiting(&place, 1).await;
    let mut writer = place.conn().await;
    let late = tokio::spawn(async move { insert(&mut writer, 0).await });
    waiting(&place, 2).await;
    reader.query_drop("rollback").await.unwrap();
    let report = here(dropping.await.unwrap());
    late.await.unwrap();
    // Both wait for one lock, and the server may give it to either first.
    match &skipped(&report)[..] {
        [] => assert_eq!(dropped(&report), [OLD]),
        blocked => assert_eq!(blocked, [(OLD, WhySkipped::Pending)]),
    }
    assert_eq!(place.rows().await, 1);
    assert_eq!(claim(&store, "a").await.len(), 1);
}

async fn one_at_a_time_and_none_after_a_cancel(server: &str) {
    let (place, store) = place_with_an_old_partition(server).await;
    let mut reader = place.conn().await;
    reader.query_drop("begin; select count(*) from outbox_event").await.unwrap();
    let waits =
        PartitionOptions { lock_wait: Duration::from_secs(3), lookahead: DAY, ..keeping_a_day() };
    let first = start(&store, waits.clone());
    waiting(&place, 1).await;
    let other = place.store_with(options()).await;
    let second = maintainer(&other, waits.clone()).run_once().await.unwrap();
    assert_eq!(second, Maintained::Elsewhere);
    first.abort();
    reader.query_drop("rollback").await.unwrap();
    let mut report = None;
    eventually("the lock to be free", async || {
        match maintainer(&other, waits.clone()).run_once().await.unwrap() {
            Maintained::Here(done) => report = Some(done),
            Maintained::Elsewhere => {}
        }
        report.is_some()
    })
    .await;
    // The one that was cut off may have been let in before it was gone.
    assert!(partitions(&place).await == 3 && report.unwrap().skipped.is_empty());
}

async fn tail_moves(server: &str) {
    let place = Place::on(server).await;
    let store = place.store_with(options()).await;
    // As a table looks whose maintainer stood still.
    place
        .run(
            "alter table outbox_event reorganize partition pmax into (
                 partition pmax values less than (maxvalue));
             alter table outbox_event remove partitioning",
        )
        .await;
    place
        .run(
            "alter table outbox_event partition by range columns (created_at) (
                 partition p20010101 values less than ('2001-01-02'),
                 partition pmax values less than (maxvalue))",
        )
        .await;
    let mut conn = place.conn().await;
    let rows: Vec<_> = (0..5).map(|_| due(event())).collect();
    for row in &rows {
        write(&store, &mut conn, std::slice::from_ref(row)).await;
    }
    let held = claim(&store, "holder").await;
    assert_eq!(held.len(), 5);
    drop(conn);
    let few = PartitionOptions { most_moved: 4, lookahead: DAY, ..PartitionOptions::default() };
    let report = pass(&store, few.clone()).await;
    assert_eq!(report.skipped[0].why, WhySkipped::TailTooFull);
    assert_eq!(report.created.len(), 0, "the whole tail would be written anew");
    let report = pass(&store, PartitionOptions { most_moved: 5, ..few }).await;
    assert_eq!((report.created.len(), report.moved), (2, 5));
    assert_eq!(place.number("select count(*) from outbox_event partition (pmax)").await, 0);
    for claimed in &held {
        assert!(settle_one(&store, hold_of(claimed), Outcome::Done).await, "still held");
    }
}

async fn refusals(server: &str) {
    let place = Place::on(server).await;
    let missing = MysqlStore::connect_with(&place.url, options()).await.unwrap();
    refused(&missing, "no table").await;
    let flat = place.store().await;
    refused(&flat, "is flat").await;
    let place = Place::on(server).await;
    let store = place.store_with(options()).await;
    place.run("alter table outbox_event drop partition pmax").await;
    refused(&store, "has no tail").await;
}

async fn refused(store: &MysqlStore, reason: &str) {
    let error = maintainer(store, keeping_a_day()).run_once().await.unwrap_err();
    assert!(matches!(error.source, StoreError::Misconfigured { .. }), "{error:?}");
    assert!(error.source.to_string().contains(reason), "{}", error.source);
}

async fn one_connection(server: &str) {
    let place = Place::on(server).await;
    place.store_with(options()).await.close().await;
    let user = format!("u{}", &place.database[place.database.len() - 20..]);
    place
        .run(&format!(
            "create user {user}@'%' with max_user_connections 1;
             grant all on {}.* to {user}@'%'",
            place.database
        ))
        .await;
    let (_, rest) = place.url.split_once('@').unwrap();
    let url = format!("mysql://{user}@{rest}");
    let store = MysqlStore::connect_with(&url, options()).await.unwrap();
    let report = pass(&store, PartitionOptions { lookahead: 3 * DAY, ..Default::default() }).await;
    assert_eq!(report.created.len(), 2);
    // The server counts a connection for a moment longer than anybody has it.
    let counts = async || store.counts().await.is_ok_and(|counts| counts.pending() == 0);
    eventually("the store to have its own again", counts).await;
    store.close().await;
    place.run(&format!("drop user {user}@'%'")).await;
}

async fn cleanup(server: &str) {
    let place = Place::on(server).await;
    let store = place.store().await;
    place
        .run(
            "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                       due_at, status, done_at)
             select random_bytes(16), 0, 't', '1', utc_timestamp(6), utc_timestamp(6), null,
                    case n % 10 when 0 then 3 else 1 end, utc_timestamp(6) - interval 8 day
               from (with recursive n(n) as (select 1 union all select n + 1 from n where n < 1000)
                     select a.n from n a join n b on b.n <= 50) numbers",
        )
        .await;
    let stop = Arc::new(std::sync::atomic::AtomicBool::new(false));
    let writer = tokio::spawn({
        let (store, stop, mut conn) = (store.clone(), stop.clone(), place.conn().await);
        async move {
            let mut written = 0;
            while !stop.load(std::sync::atomic::Ordering::SeqCst) {
                write(&store, &mut conn, &[due(event())]).await;
                written += 1;
            }
            written
        }
    });
    let options = CleanupOptions { include_dead: true, ..CleanupOptions::default() };
    let cleanup = CleanupMaintainer::new(Arc::new(store.clone()), options).unwrap();
    let cleaned = cleanup.run_once().await.unwrap();
    stop.store(true, std::sync::atomic::Ordering::SeqCst);
    let written = writer.await.unwrap();
    assert_eq!((cleaned.purged.done, cleaned.purged.dead), (45_000, 5_000));
    assert!(cleaned.finished && cleaned.batches >= 50, "{cleaned:?}");
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.new, counts.done, counts.dead), (written, 0, 0));
}

macro_rules! on_each_server {
    ($($(#[$doc:meta])* $name:ident: $case:ident)*) => {
        mod mariadb {
            use super::*;
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { $case(MARIADB).await; })*
        }

        mod mysql {
            use super::*;
            $($(#[$doc])* #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
            async fn $name() { $case(MYSQL).await; })*
        }
    };
}

on_each_server! {
    /// Holds L6 and C2.
    partitions_are_made_thirty_days_ahead_and_only_once: made_ahead_and_only_once
    /// Holds L6: what is over is dropped; what is owed a delivery is not, whatever its age.
    a_pending_row_blocks_the_drop_of_its_partition_until_it_is_settled: pending_blocks
    /// Holds L6: a transaction that wrote and has not committed keeps its partition.
    a_late_insert_that_came_first_is_not_lost: late_insert_first
    /// Holds L6: an insert that waited for the drop goes to another partition, and is delivered.
    a_late_insert_that_waited_for_the_drop_is_not_lost: late_insert_waits
    /// Holds L6: one works at a time, and whoever drops a pass frees its lock.
    one_works_at_a_time_and_a_cancelled_pass_leaves_no_lock: one_at_a_time_and_none_after_a_cancel
    /// Holds L6: rows of the tail move, holds with them.
    rows_of_the_tail_move_into_the_partition_that_is_made_for_them: tail_moves
    /// Holds L6 and L8.
    what_cannot_be_maintained_is_refused_with_the_reason: refusals
    /// Holds L6.
    one_connection_is_enough: one_connection
    /// Holds L7: fifty thousand terminal rows go in bounded batches while others write.
    fifty_thousand_rows_go_beside_steady_inserts: cleanup
}

/// Dead rows are not lost with their partition unless somebody said that they may.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_with_a_dead_row_stays_until_dead_rows_may_go() {
    for server in [MARIADB, MYSQL] {
        let (place, store) = place_with_an_old_partition(server).await;
        insert(&mut place.conn().await, 3).await;
        let report = pass(&store, keeping_a_day()).await;
        assert_eq!(skipped(&report), [(OLD, WhySkipped::Dead)]);
        assert!(report.dropped.is_empty());
        let report = pass(&store, PartitionOptions { drop_dead: true, ..keeping_a_day() }).await;
        assert_eq!(dropped(&report), [OLD]);
        assert_eq!(report.dropped_dead.len(), 1);
        assert_eq!(place.rows().await, 0);
    }
}
