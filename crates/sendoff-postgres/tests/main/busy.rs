//! Somebody else has locked something: it is passed over, and never waited for.

use std::time::Duration;

use sendoff_core::partition::Period;
use sendoff_engine::store::{
    ClaimStore, EventKind, Held, Lock, LockStore, Outcome, RegisterStore, Retention, SettleStore,
    Settlement, StoreError,
};
use sendoff_postgres::{Doorbell, Layout, PostgresOptions, PostgresStore};
use sendoff_testkit::wait::within;
use tokio::time::timeout;
use tokio_postgres::Client;

use crate::place::{NEWER_SERVER, Place, by, claim, connect, due, event, hold_of, write};

/// Far longer than a statement takes, and shorter than any lock of these tests lasts.
const PROMPT: Duration = Duration::from_secs(10);
const PLENTY: Duration = Duration::from_secs(60);

async fn held(place: &Place, options: PostgresOptions, rows: usize) -> (PostgresStore, Vec<Held>) {
    let store = place.store_with(options).await;
    let mut client = place.client().await;
    let rows: Vec<_> = (0..rows).map(|_| due(event())).collect();
    write(&store, &mut client, &rows).await;
    let held = claim(&store, "a").await.iter().map(hold_of).collect();
    (store, held)
}

/// A transaction that stays open, as somebody's forgotten window does.
async fn open(place: &Place, sql: &str) -> Client {
    let client = place.client().await;
    let text = format!("set search_path = {}; begin; {sql}", place.schema);
    client.batch_execute(&text).await.unwrap();
    client
}

async fn lock_row(place: &Place, held: &Held, strength: &str) -> Client {
    let sql = format!("select from outbox_event where event_id = '{}' for {strength}", held.id);
    open(place, &sql).await
}

fn done(held: &[Held]) -> Vec<Settlement> {
    held.iter().map(|held| Settlement { held: *held, outcome: Outcome::Done }).collect()
}

/// Both ways of settling, and both kinds of sessions.
fn ways(place: &Place) -> [PostgresOptions; 3] {
    let keep = place.options();
    let delete = PostgresOptions { retention: Retention::DeleteWhenDone, ..place.options() };
    let pooled = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    [keep, delete, pooled]
}

#[tokio::test]
async fn a_locked_row_is_busy_and_its_neighbours_are_settled() {
    for way in 0..3 {
        let place = Place::new();
        let (store, held) = held(&place, ways(&place)[way].clone(), 5).await;
        let locker = lock_row(&place, &held[2], "update").await;
        let settled = timeout(PROMPT, store.settle(&done(&held))).await.unwrap().unwrap();
        assert_eq!(settled.busy, [held[2].id]);
        assert_eq!(settled.applied.len(), 4);
        locker.batch_execute("rollback").await.unwrap();
        let settled = store.settle(&done(&held)).await.unwrap();
        assert_eq!((settled.applied, settled.busy.len()), (vec![held[2].id], 0));
    }
}

#[tokio::test]
async fn a_locked_hold_is_busy_and_its_neighbours_are_extended() {
    let place = Place::new();
    let (store, held) = held(&place, place.options(), 3).await;
    let locker = lock_row(&place, &held[0], "share").await;
    let extend = store.extend(&held, Duration::from_secs(60));
    let extended = timeout(PROMPT, extend).await.unwrap().unwrap();
    assert_eq!((extended.held.len(), extended.busy), (2, vec![held[0].id]));
    locker.batch_execute("rollback").await.unwrap();
    let again = store.extend(&held[..1], Duration::from_secs(60)).await.unwrap();
    assert_eq!((again.held.len(), again.busy.len()), (1, 0));
}

/// Whoever has it locked, a hold that is another's by now is lost and not busy.
#[tokio::test]
async fn a_stale_token_is_fenced_also_where_the_row_is_locked() {
    let place = Place::new();
    let (store, held) = held(&place, place.options(), 2).await;
    place.run("update outbox_event set due_at = due_at + interval '1 s'").await;
    let _locker = lock_row(&place, &held[0], "update").await;
    let settled = store.settle(&done(&held)).await.unwrap();
    assert_eq!((settled.applied.len(), settled.busy.len()), (0, 0));
    let extended = store.extend(&held, Duration::from_secs(60)).await.unwrap();
    assert_eq!((extended.held.len(), extended.busy.len()), (0, 0));
}

/// What refers to a row keeps it from being deleted, and from nothing else.
#[tokio::test]
async fn a_row_that_a_foreign_key_keeps_is_settled_unless_it_were_deleted() {
    for (way, busy) in [(0, 0), (1, 1)] {
        let place = Place::new();
        let (store, held) = held(&place, ways(&place)[way].clone(), 3).await;
        let _keeper = lock_row(&place, &held[1], "key share").await;
        let settled = timeout(PROMPT, store.settle(&done(&held))).await.unwrap().unwrap();
        assert_eq!((settled.applied.len(), settled.busy.len()), (3 - busy, busy));
    }
}

/// It is claimed all the same: a claim changes no key.
#[tokio::test]
async fn a_row_that_a_foreign_key_keeps_is_claimed() {
    let place = Place::new();
    let (store, mut client) = (place.store().await, place.client().await);
    write(&store, &mut client, &[due(event())]).await;
    let _keeper = open(&place, "select from outbox_event for key share").await;
    assert_eq!(claim(&store, "a").await.len(), 1);
}

/// Somebody keeps writers out, as whoever builds an index does: what could not be settled is not taken, or
/// it would be delivered again and again for as long as that lasts.
#[tokio::test]
async fn nothing_is_taken_under_locks_while_it_could_not_be_settled() {
    let days = Layout::Partitioned(Period::Day);
    tokio::join!(
        takes_nothing_under_locks(Layout::Flat, Doorbell::On),
        takes_nothing_under_locks(Layout::Flat, Doorbell::Off),
        takes_nothing_under_locks(days, Doorbell::On),
        takes_nothing_under_locks(days, Doorbell::Off),
    );
}

async fn takes_nothing_under_locks(layout: Layout, doorbell: Doorbell) {
    let place = Place::new();
    let options = PostgresOptions { layout, doorbell, ..place.options() };
    let (store, mut client) = (place.store_with(options).await, place.client().await);
    write(&store, &mut client, &[due(event())]).await;
    let mut tables = vec!["outbox_event".to_owned(), "outbox_tally_delta".to_owned()];
    tables.extend(partition_of_a_row(&place).await);
    for table in tables {
        let locker = open(&place, &format!("lock table only {table} in share mode")).await;
        let taken = timeout(PROMPT, store.lock(&Lock::new(10))).await.unwrap();
        assert!(matches!(taken, Err(StoreError::Busy(_))), "{table} {layout:?}");
        // A claim writes, and is kept out like everybody; without the session's limit, for as long
        // as it is waited for.
        if table.contains("outbox_event") && doorbell == Doorbell::On {
            let claimed = timeout(PROMPT, store.claim(&by("a"))).await.unwrap();
            assert!(matches!(claimed, Err(StoreError::Busy(_))), "{table} {layout:?}");
        }
        locker.batch_execute("rollback").await.unwrap();
    }
    let mut locked = store.lock(&Lock::new(10)).await.unwrap().unwrap();
    let id = locked.take()[0].id;
    locked.commit(&[(id, Outcome::Done)]).await.unwrap();
}

/// Where a row is, if the table is in partitions.
async fn partition_of_a_row(place: &Place) -> Option<String> {
    let client = place.client().await;
    let text = format!("select tableoid::regclass::text from {}.outbox_event", place.schema);
    let table: String = client.query_one(&text, &[]).await.unwrap().get(0);
    Some(table).filter(|table| !table.ends_with("outbox_event"))
}

/// Somebody changes the table: whoever needs it is told so, long before he gives up by himself.
#[tokio::test]
async fn a_table_that_is_being_changed_is_busy() {
    let place = Place::new();
    let (store, held) = held(&place, place.options(), 1).await;
    let changer = open(&place, "lock table outbox_event in access exclusive mode").await;
    let settled = timeout(PROMPT, store.settle(&done(&held))).await.unwrap();
    assert!(matches!(settled, Err(StoreError::Busy(_))), "{settled:?}");
    changer.batch_execute("rollback").await.unwrap();
    assert_eq!(store.settle(&done(&held)).await.unwrap().applied.len(), 1);
}

/// Outcomes that the database refuses undo their whole batch, and the connection serves the next.
#[tokio::test]
async fn a_locked_batch_whose_outcomes_are_refused_leaves_its_rows_to_the_next() {
    for doorbell in [Doorbell::On, Doorbell::Off] {
        let place = Place::new();
        let options = PostgresOptions { doorbell, locked_connections: 1, ..place.options() };
        let (store, mut client) = (place.store_with(options).await, place.client().await);
        write(&store, &mut client, &[due(event()), due(event())]).await;
        place.run("alter table outbox_event add constraint few check (attempts < 5)").await;
        let mut batch = store.lock(&Lock::new(10)).await.unwrap().unwrap();
        let rows = batch.take();
        let retry =
            |attempts| Outcome::Retry { delay: Duration::ZERO, attempts, error: "no".to_owned() };
        let refused = batch.commit(&[(rows[0].id, Outcome::Done), (rows[1].id, retry(7))]).await;
        assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
        let mut batch = store.lock(&Lock::new(10)).await.unwrap().unwrap();
        assert_eq!(batch.take().len(), 2, "nothing was written");
        batch.commit(&[(rows[0].id, Outcome::Done), (rows[1].id, retry(1))]).await.unwrap();
        assert_eq!(place.number("select sum(status) from outbox_event").await, 3);
    }
}

/// What an administrator allows every transaction at most ends no batch whose handlers run, or they would
/// run again for ever. Silence does, as ever.
#[tokio::test]
async fn a_limit_for_every_transaction_ends_no_batch() {
    for doorbell in [Doorbell::On, Doorbell::Off] {
        let place = Place::on(NEWER_SERVER);
        let version = "select current_setting('server_version_num')::bigint";
        if place.number(version).await < 170_000 {
            return;
        }
        write(&place.store().await, &mut place.client().await, &[due(event())]).await;
        let and = if place.url.contains('?') { '&' } else { '?' };
        let limited = format!("{}{and}options=-c%20transaction_timeout%3D1000", place.url);
        let options = PostgresOptions { doorbell, ..place.options() };
        let store = PostgresStore::connect_with(&limited, options).await.unwrap();
        let mut batch = store.lock(&Lock::new(1)).await.unwrap().unwrap();
        let id = batch.take()[0].id;
        let another = connect(&limited).await.unwrap();
        another.batch_execute("begin").await.unwrap();
        within(PLENTY, "the limit to end another's", async || another.is_closed()).await;
        batch.keep_awake().await.unwrap();
        batch.commit(&[(id, Outcome::Done)]).await.unwrap();
    }
}

/// A process that freezes in the middle of a batch loses its transaction to the server's limit, and
/// one that is alive and says so does not.
#[tokio::test]
async fn a_silent_transaction_is_ended_by_the_server_and_one_that_is_kept_awake_is_not() {
    tokio::join!(ends_a_silent_transaction(Doorbell::On), ends_a_silent_transaction(Doorbell::Off));
}

async fn ends_a_silent_transaction(doorbell: Doorbell) {
    let place = Place::new();
    let idle_in_transaction_timeout = Duration::from_secs(10);
    let options = PostgresOptions { doorbell, idle_in_transaction_timeout, ..place.options() };
    let (store, mut client) = (place.store_with(options).await, place.client().await);
    write(&store, &mut client, &[due(event()), due(event())]).await;
    let silent = store.lock(&Lock::new(1)).await.unwrap().unwrap();
    let mut awake = store.lock(&Lock::new(1)).await.unwrap().unwrap();
    within(PLENTY, "the end of the silent one", async || {
        awake.keep_awake().await.unwrap();
        !silent.is_open()
    })
    .await;
    assert!(awake.is_open());
    let mut freed = store.lock(&Lock::new(10)).await.unwrap().unwrap();
    assert_eq!(freed.take().len(), 1, "what the silent one had, at once");
    freed.rollback().await.unwrap();
    awake.rollback().await.unwrap();
}

/// Statements that were given up while a table was locked leave no crowd of sessions behind, also where
/// no limit of a session's own ends them.
#[tokio::test]
async fn statements_that_are_given_up_do_not_pile_up_on_the_server() {
    tokio::join!(given_up_statements_end(Doorbell::On), given_up_statements_end(Doorbell::Off));
}

async fn given_up_statements_end(doorbell: Doorbell) {
    let place = Place::new();
    let and = if place.url.contains('?') { '&' } else { '?' };
    let url = format!("{}{and}application_name={}", place.url, place.schema);
    let options = PostgresOptions { doorbell, ..place.options() };
    let store = PostgresStore::connect_with(&url, options).await.unwrap();
    store.migrate().await.unwrap();
    let _changer = open(&place, "lock table outbox_event in access exclusive mode").await;
    for _ in 0..15 {
        let claim = by("a");
        let _ = timeout(Duration::from_millis(50), store.claim(&claim)).await;
    }
    let waiting = format!(
        "select count(*) from pg_stat_activity
          where application_name = '{}' and wait_event_type = 'Lock'",
        place.schema
    );
    within(PLENTY, "their end", async || place.number(&waiting).await <= 1).await;
}

/// Holds D6: one row that somebody has locked keeps a node neither from saying what it handles nor from hearing.
#[tokio::test]
async fn a_locked_row_of_who_handles_what_keeps_nobody_from_saying_and_hearing() {
    let place = Place::new();
    let store = place.store().await;
    let lately = Duration::from_secs(900);
    let kind = |aggregate_type, event_type| EventKind { aggregate_type, event_type };
    let (mine, theirs) = ([kind("a", "mine"), kind("a", "locked")], [kind("b", "theirs")]);
    store.register(&mine, lately).await.unwrap();
    store.register(&theirs, lately).await.unwrap();
    let client = place.client().await;
    let lock = "select from outbox_handled where event_type = 'locked' for update";
    let lock = format!("set search_path = {}; begin; {lock}", place.schema);
    client.batch_execute(&lock).await.unwrap();
    let said = "select count(*) from outbox_handled where seen_at > now() - interval '1 hour'";
    place.run("update outbox_handled set seen_at = now() - interval '2 hours' where event_type = 'mine'").await;
    let heard = store.register(&mine, lately).await.unwrap();
    assert!(heard.contains(&("b".into(), "theirs".into())), "{heard:?}");
    assert_eq!(place.number(said).await, 3, "what is not locked was said");
}
