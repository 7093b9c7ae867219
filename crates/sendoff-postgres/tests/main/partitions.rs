//! Partitions: made ahead, dropped when they are over, and no row lost between the two.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::partition::Period;
use sendoff_core::{EventId, Ident};
use sendoff_engine::store::{InspectStore, Outcome, RetainStore, StoreError};
use sendoff_engine::{
    Maintained, PartitionError, PartitionMaintainer, PartitionOptions, PartitionReport, WhySkipped,
};
use sendoff_postgres::{
    Doorbell, Layout, PostgresOptions, PostgresStore, Retention, migration_sql,
};
use sendoff_testkit::wait::eventually;
use tokio::task::JoinHandle;
use tokio_postgres::Client;
use tokio_util::sync::CancellationToken;

use crate::place::{Place, claim, connect, due, event, hold_of, settle_one, write};

const DAY: Duration = Duration::from_secs(24 * 60 * 60);
/// Long enough for a test to do what it must while somebody waits.
const PATIENT: Duration = Duration::from_secs(15);

fn layout() -> Layout {
    Layout::Partitioned(Period::Day)
}

fn options(place: &Place) -> PostgresOptions {
    PostgresOptions { layout: layout(), retention: Retention::FOREVER, ..place.options() }
}

/// An outbox in partitions, with one that ended two days ago.
async fn place_with_an_old_partition() -> (Place, PostgresStore, String) {
    let place = Place::new();
    let store = place.store_with(options(&place)).await;
    let client = place.client().await;
    let row = client
        .query_one(
            "select to_char(now() at time zone 'utc' - interval '3 days', 'YYYYMMDD'),
                    to_char(now() at time zone 'utc' - interval '2 days', 'YYYYMMDD')",
            &[],
        )
        .await
        .unwrap();
    let (from, to): (String, String) = (row.get(0), row.get(1));
    place
        .run(&format!(
            "create table outbox_event_p{from} partition of outbox_event
             for values from ('{from} 00:00:00+00') to ('{to} 00:00:00+00')"
        ))
        .await;
    (place, store, format!("p{from}"))
}

/// A row in the old partition.
fn old_row(status: u8) -> String {
    format!(
        "insert into outbox_event (event_id, shard, event_type, payload, occurred_at, created_at,
                                   due_at, status, done_at)
         values (gen_random_uuid(), 0, 't', 'x', now(),
                 date_trunc('day', now() at time zone 'utc') at time zone 'utc' - interval '60 hours',
                 now(), {status}, case when {status} in (1, 3) then now() end)"
    )
}

fn keeping_a_day() -> PartitionOptions {
    PartitionOptions {
        retention: Some(DAY),
        lock_wait: Duration::from_millis(50),
        ..PartitionOptions::default()
    }
}

fn maintainer(store: &PostgresStore, options: PartitionOptions) -> PartitionMaintainer {
    PartitionMaintainer::new(Arc::new(store.clone()), options).unwrap()
}

async fn pass(store: &PostgresStore, options: PartitionOptions) -> PartitionReport {
    here(maintainer(store, options).run_once().await)
}

fn here(pass: Result<Maintained, PartitionError>) -> PartitionReport {
    match pass.unwrap() {
        Maintained::Here(report) => report,
        Maintained::Elsewhere => panic!("nobody else is at work"),
    }
}

fn dropped(report: &PartitionReport) -> Vec<&str> {
    report.dropped.iter().map(|name| name.as_str()).collect()
}

fn skipped(report: &PartitionReport) -> Vec<(&str, WhySkipped)> {
    report.skipped.iter().map(|skipped| (skipped.name.as_str(), skipped.why)).collect()
}

async fn partitions(place: &Place) -> i64 {
    place
        .number("select count(*) from pg_inherits where inhparent = 'outbox_event'::regclass")
        .await
}

/// Holds L6 and C2: thirty days ahead, a tail after them, and nothing to do the second time.
#[tokio::test]
async fn partitions_are_made_thirty_days_ahead_and_only_once() {
    let place = Place::new();
    let store = place.store_with(options(&place)).await;
    assert_eq!(partitions(&place).await, 32, "today, thirty days, the tail");
    assert_eq!(pass(&store, PartitionOptions::default()).await, PartitionReport::default());

    write(&store, &mut place.client().await, &[due(event())]).await;
    let today = "select count(*) from outbox_event where tableoid =
        format('outbox_event_p%s', to_char(now() at time zone 'utc', 'YYYYMMDD'))::regclass";
    assert_eq!(place.number(today).await, 1);
    assert_eq!(claim(&store, "a").await.len(), 1);
    store.migrate().await.unwrap();
    assert_eq!(partitions(&place).await, 32);
}

/// Holds L6: what is over is dropped; what is owed a delivery is not, whatever its age.
#[tokio::test]
async fn a_pending_row_blocks_the_drop_of_its_partition_until_it_is_settled() {
    for (status, pending) in [(0, true), (1, false), (2, true)] {
        let (place, store, old) = place_with_an_old_partition().await;
        place.run(&old_row(status)).await;
        let seen = here(maintainer(&store, keeping_a_day()).dry_run().await);
        let report = pass(&store, keeping_a_day()).await;
        assert_eq!(seen, report, "a dry run says what is done then");
        if pending {
            assert_eq!(skipped(&report), [(&*old, WhySkipped::Pending)]);
            assert!(report.dropped.is_empty());
            let claimed = claim(&store, "a").await;
            assert_eq!(claimed.len(), 1, "and it is delivered like any other");
            assert!(settle_one(&store, hold_of(&claimed[0]), Outcome::Done).await);
            assert_eq!(dropped(&pass(&store, keeping_a_day()).await), [&*old]);
        } else {
            assert_eq!(dropped(&report), [&*old], "status {status}");
        }
        assert_eq!(place.rows().await, 0);
    }
}

/// Holds L6: a dry run changes nothing.
#[tokio::test]
async fn a_dry_run_changes_nothing() {
    let (place, store, old) = place_with_an_old_partition().await;
    let before = partitions(&place).await;
    let ahead = PartitionOptions { lookahead: 40 * DAY, ..keeping_a_day() };
    let report = here(maintainer(&store, ahead).dry_run().await);
    assert_eq!((report.created.len(), dropped(&report)), (10, vec![&*old]));
    assert_eq!(partitions(&place).await, before);
}

/// Holds L6: a transaction that wrote and has not committed keeps its partition, whoever asks.
#[tokio::test]
async fn a_late_insert_that_came_first_is_not_lost() {
    let (place, store, old) = place_with_an_old_partition().await;
    let mut client = schema_client(&place).await;
    let tx = client.transaction().await.unwrap();
    tx.batch_execute(&old_row(0)).await.unwrap();
    let report = pass(&store, keeping_a_day()).await;
    assert_eq!(skipped(&report), [(&*old, WhySkipped::Busy)]);
    tx.commit().await.unwrap();
    let report = pass(&store, keeping_a_day()).await;
    assert_eq!(skipped(&report), [(&*old, WhySkipped::Pending)]);
    assert_eq!(claim(&store, "a").await.len(), 1);
}

/// Holds L6: an insert that waited for the drop goes to the tail, and is delivered from there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_insert_that_waited_for_the_drop_is_not_lost() {
    let (place, store, old) = place_with_an_old_partition().await;
    let reading = reading(&place, &old).await;
    let dropping = start(&store, PartitionOptions { lock_wait: PATIENT, ..keeping_a_day() });
    waiting(&place, 1).await;
    let writer = schema_client(&place).await;
    let insert = tokio::spawn(async move { writer.batch_execute(&old_row(0)).await });
    waiting(&place, 2).await;
    reading.batch_execute("rollback").await.unwrap();
    assert_eq!(dropped(&here(dropping.await.unwrap())), [&*old]);
    insert.await.unwrap().unwrap();
    assert_eq!(place.number("select count(*) from outbox_event_pmax").await, 1);
    assert_eq!(claim(&store, "a").await.len(), 1);
}

fn start(
    store: &PostgresStore,
    options: PartitionOptions,
) -> JoinHandle<Result<Maintained, PartitionError>> {
    let maintainer = maintainer(store, options);
    tokio::spawn(async move { maintainer.run_once().await })
}

async fn schema_client(place: &Place) -> Client {
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    client
}

/// Somebody who reads a partition until it rolls back.
async fn reading(place: &Place, partition: &str) -> Client {
    let client = schema_client(place).await;
    let read = format!("begin; lock table outbox_event_{partition} in access share mode");
    client.batch_execute(&read).await.unwrap();
    client
}

/// Until so many sessions wait for a lock on something of this place.
async fn waiting(place: &Place, sessions: i64) {
    let query = format!(
        "select count(*) from pg_locks l join pg_class c on c.oid = l.relation
          where not l.granted and c.relnamespace = '{}'::regnamespace",
        place.schema
    );
    eventually("sessions that wait", async || place.number(&query).await >= sessions).await;
}

/// Holds L6: one at a time; the other says so, and both could go on later.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_two_maintainers_one_works_and_the_other_says_so() {
    let (place, store, old) = place_with_an_old_partition().await;
    let reading = reading(&place, &old).await;
    let first = start(&store, PartitionOptions { lock_wait: PATIENT, ..keeping_a_day() });
    waiting(&place, 1).await;
    let other = place.store_with(place.options()).await;
    let second = maintainer(&other, keeping_a_day()).run_once().await.unwrap();
    assert_eq!(second, Maintained::Elsewhere);
    reading.batch_execute("rollback").await.unwrap();
    assert_eq!(dropped(&here(first.await.unwrap())), [&*old]);
    assert_eq!(pass(&other, keeping_a_day()).await, PartitionReport::default());
}

/// Holds L6: whoever drops or cancels a pass frees its lock, also while it waits for another.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_pass_that_is_cancelled_leaves_no_lock() {
    let (place, store, old) = place_with_an_old_partition().await;
    let reading = reading(&place, &old).await;
    let held = format!(
        "select count(*) from pg_locks where locktype = 'advisory' and granted and pid in
            (select pid from pg_stat_activity where application_name = 'sendoff')
            and database = (select oid from pg_database where datname = current_database())
            and ((classid::bigint << 32) | objid::bigint) =
                hashtextextended('sendoff partitions \"{}\".outbox_event', 0)",
        place.schema
    );
    // Aborted.
    let waits = PartitionOptions { lock_wait: Duration::from_secs(2), ..keeping_a_day() };
    let aborted = start(&store, waits.clone());
    waiting(&place, 1).await;
    assert_eq!(place.number(&held).await, 1);
    aborted.abort();
    eventually("the lock to be free", async || place.number(&held).await == 0).await;
    // Cancelled in its loop.
    let cancel = CancellationToken::new();
    let running = tokio::spawn({
        let (maintainer, cancel) = (maintainer(&store, waits), cancel.clone());
        async move { maintainer.run(cancel.cancelled()).await }
    });
    waiting(&place, 1).await;
    cancel.cancel();
    running.await.unwrap();
    eventually("the lock to be free", async || place.number(&held).await == 0).await;

    reading.batch_execute("rollback").await.unwrap();
    assert_eq!(dropped(&pass(&store, keeping_a_day()).await), [&*old]);
    assert_eq!(place.number(&held).await, 0, "and a pass that ended holds none");
}

/// A role that owns the place's tables, with so many connections.
async fn owner(place: &Place, connections: i32) -> String {
    let role = format!("r_{}", EventId::generate().to_string().replace('-', ""));
    place
        .run(&format!(
            "create role {role} login connection limit {connections};
             create schema if not exists {schema}; grant all on schema {schema} to {role}",
            schema = place.schema
        ))
        .await;
    role
}

async fn forget(place: &Place, role: &str) {
    place.run(&format!("drop owned by {role} cascade; drop role {role}")).await;
}

pub(crate) fn as_role(place: &Place, role: &str) -> String {
    let (_, rest) = place.url.split_once('@').unwrap();
    format!("postgres://{role}@{rest}")
}

/// Holds L6: one connection is enough for everything.
#[tokio::test]
async fn one_connection_is_enough() {
    let place = Place::new();
    let role = owner(&place, 1).await;
    let url = as_role(&place, &role);
    let script = migration_sql(&options(&place)).unwrap();
    let client = connect(&url).await.unwrap();
    client.batch_execute(&script).await.unwrap();
    drop(client);
    let free = format!("select count(*) from pg_stat_activity where usename = '{role}'");
    eventually("the connection to end", async || place.number(&free).await == 0).await;

    let store = PostgresStore::connect_with(&url, place.options()).await.unwrap();
    assert!(connect(&url).await.is_err(), "there is no second one");
    let report = pass(&store, PartitionOptions::default()).await;
    assert_eq!(report.created.len(), 31);
    assert_eq!(store.counts().await.unwrap().pending(), 0, "and the store has its own again");
    assert_eq!(pass(&store, keeping_a_day()).await, PartitionReport::default());
    store.close().await;
    eventually("the connection to end", async || place.number(&free).await == 0).await;
    forget(&place, &role).await;
}

/// Holds L6: rows that fell into the tail move to their partition, holds and order with them.
#[tokio::test]
async fn rows_of_the_tail_move_into_the_partition_that_is_made_for_them() {
    let place = Place::new();
    place.client().await.batch_execute(&migration_sql(&options(&place)).unwrap()).await.unwrap();
    let store = PostgresStore::connect_with(&place.url, place.options()).await.unwrap();
    let mut client = place.client().await;
    let rows: Vec<_> = (0..10).map(|_| due(event())).collect();
    for row in &rows {
        write(&store, &mut client, std::slice::from_ref(row)).await;
    }
    assert_eq!(place.number("select count(*) from outbox_event_pmax").await, 10);
    let held = store_claim(&store, 3).await;

    let few = PartitionOptions { most_moved: 9, lookahead: DAY, ..PartitionOptions::default() };
    let report = pass(&store, few.clone()).await;
    assert_eq!((report.created.len(), report.moved), (1, 0), "tomorrow's has no rows in the tail");
    assert_eq!(report.skipped[0].why, WhySkipped::TailTooFull);
    let report = pass(&store, PartitionOptions { most_moved: 10, ..few }).await;
    assert_eq!((report.created.len(), report.moved), (1, 10));
    assert_eq!(place.number("select count(*) from outbox_event_pmax").await, 0);

    for claimed in &held {
        assert!(settle_one(&store, hold_of(claimed), Outcome::Done).await, "still held");
    }
    let rest: Vec<_> = claim(&store, "a").await.iter().map(|claimed| claimed.id).collect();
    let written: Vec<_> = rows[3..].iter().map(|row| row.event.id()).collect();
    assert_eq!(rest, written);
    write(&store, &mut client, &[due(event())]).await;
    assert_eq!(place.rows().await, 11, "numbers go on");
}

async fn store_claim(store: &PostgresStore, limit: usize) -> Vec<sendoff_engine::store::Claimed> {
    use sendoff_engine::store::{Claim, ClaimStore};
    store.claim(&Claim { limit, ..crate::place::by("holder") }).await.unwrap().rows
}

/// Holds L6: a maintainer that stood still is made up for, and what is older than the retention is
/// left to cleanup.
#[tokio::test]
async fn a_gap_is_filled_back_to_the_retention() {
    let place = Place::new();
    place.client().await.batch_execute(&migration_sql(&options(&place)).unwrap()).await.unwrap();
    let store = PostgresStore::connect_with(&place.url, place.options()).await.unwrap();
    for days in [0, 2, 9] {
        place
            .run(&format!(
                "insert into outbox_event (event_id, shard, event_type, payload, occurred_at,
                                           created_at, due_at)
                 values (gen_random_uuid(), 0, 't', 'x', now(), now() - interval '{days} days', now())"
            ))
            .await;
    }
    let kept = PartitionOptions { retention: Some(5 * DAY), lookahead: DAY, ..Default::default() };
    let report = pass(&store, kept).await;
    assert_eq!((report.created.len(), report.moved), (7, 2));
    assert_eq!(place.number("select count(*) from outbox_event_pmax").await, 1);
    assert_eq!(claim(&store, "a").await.len(), 3);
}

/// Holds L6: by month, and only what we named ourselves is dropped.
#[tokio::test]
async fn months_work_and_what_others_made_stays() {
    let place = Place::new();
    let layout = Layout::Partitioned(Period::Month);
    let store = place.store_with(PostgresOptions { layout, ..place.options() }).await;
    place
        .run(
            "create table theirs partition of outbox_event
                 for values from ('2001-01-01 00:00:00+00') to ('2001-02-01 00:00:00+00');
             create table outbox_event_p200102 partition of outbox_event
                 for values from ('2001-02-01 00:00:00+00') to ('2001-03-01 00:00:00+00')",
        )
        .await;
    let monthly = PartitionOptions { period: Period::Month, ..keeping_a_day() };
    let report = pass(&store, monthly).await;
    assert_eq!(dropped(&report), ["p200102"]);
    assert!(report.created.is_empty(), "{report:?}");
    assert_eq!(place.number("select count(*) from theirs").await, 0);
    let months = partitions(&place).await;
    assert!((4..=5).contains(&months), "{months}: two or three months, theirs, the tail");
}

/// Holds L6: by the hour; rows land in the hour that they were written in.
#[tokio::test]
async fn hours_are_made_filled_and_dropped() {
    let place = Place::new();
    let layout = Layout::Partitioned(Period::Hour);
    let retention = Retention::FOREVER;
    let store = place.store_with(PostgresOptions { layout, retention, ..place.options() }).await;
    // 48 hours ahead, the present one, and the tail.
    assert!((50..=51).contains(&partitions(&place).await), "{}", partitions(&place).await);
    write(&store, &mut place.client().await, &[due(event())]).await;
    assert_eq!(place.number("select count(*) from outbox_event_pmax").await, 0);
    let named = "select count(*) from outbox_event
                  where tableoid::regclass::text = to_char(created_at at time zone 'utc', '\"outbox_event_p\"YYYYMMDDHH24')";
    assert_eq!(place.number(named).await, 1);
    place
        .run(
            "create table outbox_event_p2001010207 partition of outbox_event
                 for values from ('2001-01-02 07:00:00+00') to ('2001-01-02 08:00:00+00')",
        )
        .await;
    let hourly = PartitionOptions { retention: Some(DAY), ..PartitionOptions::by(Period::Hour) };
    assert_eq!(dropped(&pass(&store, hourly).await), ["p2001010207"]);
    assert_eq!(claim(&store, "a").await.len(), 1);
}

/// Holds L6: PostgreSQL would cut the names, and two hours would have one.
#[tokio::test]
async fn hours_behind_the_longest_prefix_are_refused_by_the_length_of_their_names() {
    let place = Place::new();
    let longest = |length| Some(Ident::new("p".repeat(length)).unwrap());
    let layout = Layout::Partitioned(Period::Hour);
    let fits = PostgresOptions { layout, prefix: longest(39), ..place.options() };
    place.store_with(fits.clone()).await;
    let long = PostgresOptions { prefix: longest(40), ..fits };
    let store = PostgresStore::connect_with(&place.url, long).await.unwrap();
    let error = store.migrate().await.unwrap_err().to_string();
    assert!(error.contains("64 bytes") && error.contains("63"), "{error}");
}

/// Holds L6 and L8: what cannot be maintained is said, with what to do.
#[tokio::test]
async fn what_cannot_be_maintained_is_refused_with_the_reason() {
    let place = Place::new();
    let missing = PostgresStore::connect_with(&place.url, place.options()).await.unwrap();
    refused(&missing, "no table").await;
    let flat = place.store().await;
    refused(&flat, "is flat").await;
    let error = PostgresStore::connect_with(&place.url, options(&place)).await.unwrap();
    let error = error.migrate().await.unwrap_err();
    assert!(error.to_string().contains("not partitioned"), "{error}");

    let place = Place::new();
    let store = place.store_with(options(&place)).await;
    let pooled = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    refused(&place.store_with(pooled).await, "transaction pooler").await;
    place.run("drop table outbox_event_pmax").await;
    refused(&store, "has no tail").await;

    let role = owner(&place, 5).await;
    place.run("create table outbox_event_pmax partition of outbox_event default").await;
    place
        .run(&format!(
            "grant select, insert, update, delete on all tables in schema {} to {role}",
            place.schema
        ))
        .await;
    let store =
        PostgresStore::connect_with(&as_role(&place, &role), place.options()).await.unwrap();
    let error = maintainer(&store, keeping_more()).run_once().await.unwrap_err();
    assert!(matches!(error.source, StoreError::Rights { .. }), "{error:?}");
    let said = sendoff_core::report(&error);
    assert!(said.contains("must be owner") && said.contains("belong to the one who"), "{said}");
    store.close().await;
    drop(store);
    forget(&place, &role).await;
}

fn keeping_more() -> PartitionOptions {
    PartitionOptions { lookahead: 60 * DAY, ..PartitionOptions::default() }
}

async fn refused(store: &PostgresStore, reason: &str) {
    let error = maintainer(store, keeping_a_day()).run_once().await.unwrap_err();
    assert!(matches!(error.source, StoreError::Misconfigured { .. }), "{error:?}");
    assert!(error.source.to_string().contains(reason), "{}", error.source);
}

/// Names as long as they may be still tell a duplicate from other refusals, in every partition.
#[tokio::test]
async fn a_duplicate_is_known_whatever_its_partition_is_called() {
    use sendoff_engine::capture::{Commit, CommitError, WriteError};
    let place = Place::new();
    for prefix in ["", "a_prefix_as_long_as_a_prefix_may_ever_be"] {
        let prefix = (!prefix.is_empty()).then(|| Ident::new(prefix).unwrap());
        let store = place.store_with(PostgresOptions { prefix, ..options(&place) }).await;
        let twice = due(event());
        let mut client = place.client().await;
        let tx = client.transaction().await.unwrap();
        let refused = store.commit(tx, &[twice.clone(), twice]).await;
        assert!(
            matches!(refused, Err(CommitError::Refused(WriteError::DuplicateId))),
            "{refused:?}"
        );
    }
    assert!(
        PostgresOptions::default().layout == Layout::Flat
            && Retention::FOREVER != Retention::default()
    );
    let store = place.store_with(options(&place)).await;
    assert_eq!(store.keeps(), Some(Duration::MAX));
}
