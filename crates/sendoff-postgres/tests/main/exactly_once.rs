//! Effects that are made exactly once: by SQL, at the same time, and by processes that are killed.

use std::env;
use std::sync::OnceLock;
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId};
use sendoff_engine::capture::{Join, JoinError, Part};
use sendoff_engine::store::{Cutoff, InspectStore, RetainStore, SettleStore, Trail};
use sendoff_engine::{
    HandlerResult, Inbox, OnceError, Outbox, OutboxOptions, ProcessError, Processed, RetryOptions,
};
use sendoff_postgres::PostgresStore;
use sendoff_testkit::process::say;
use sendoff_testkit::steps::token_of;
use sendoff_testkit::wait::within;
use tokio_postgres::{Client, IsolationLevel};

use crate::partitions::as_role;
use crate::place::{Place, claim, due, hold_of, write};
use crate::process::node_of;

const EVENT: &str = "order.placed";
const EVENTS: i64 = 400;
const PLENTY: Duration = Duration::from_secs(120);

/// From SQL, with the limits of every other way.
#[tokio::test]
async fn a_consumer_sees_an_event_once_by_sql_too() {
    let place = Place::new();
    let store = place.store().await;
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let id = EventId::generate();
    let once = async |consumer: &str| -> Result<bool, tokio_postgres::Error> {
        let asked = format!("select sendoff_once($1, '{id}')");
        client.query_one(&asked, &[&consumer]).await.map(|row| row.get(0))
    };
    assert!(once("billing").await.unwrap());
    assert!(!once("billing").await.unwrap());
    assert!(once(&"ü".repeat(128)).await.unwrap());
    for (bad, why) in [
        (String::new(), "must not be empty"),
        ("ü".repeat(129), "has 129 characters; the limit is 128"),
        ("a\nb".into(), "must not contain a line end"),
    ] {
        let error = once(&bad).await.unwrap_err();
        let refusal = error.as_db_error().unwrap();
        assert!(refusal.message().contains(why), "{refusal:?}");
        assert_eq!(refusal.code().code(), "22023");
    }
    let inbox = Inbox::new(store);
    let mut other = place.client().await;
    let mut tx = other.transaction().await.unwrap();
    assert!(!inbox.once(&mut tx, "billing", id).await.unwrap(), "both are one inbox");
}

/// The second waits for the first, and sees what became of it; not for ever; and its session is as it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_sees_the_same_event_waits_for_the_end_of_the_first() {
    let place = Place::new();
    let inbox = Inbox::new(place.store().await);
    let (mut first, mut second) = (place.client().await, place.client().await);
    for commits in [true, false] {
        let id = EventId::generate();
        let mut tx = first.transaction().await.unwrap();
        assert!(inbox.once(&mut tx, "billing", id).await.unwrap());
        let waits = async {
            let mut tx = second.transaction().await.unwrap();
            let seen = inbox.once(&mut tx, "billing", id).await.unwrap();
            tx.commit().await.unwrap();
            seen
        };
        let ends = async {
            let waiting = "select count(*) from pg_stat_activity
                            where wait_event_type = 'Lock' and query like '%sendoff_once%'";
            within(PLENTY, "the other to wait", async || place.number(waiting).await > 0).await;
            match commits {
                true => tx.commit().await.unwrap(),
                false => tx.rollback().await.unwrap(),
            }
        };
        let (seen, ()) = tokio::join!(waits, ends);
        assert_eq!(seen, !commits);
    }
    // A session that waits for less does so.
    let id = EventId::generate();
    let mut tx = first.transaction().await.unwrap();
    assert!(inbox.once(&mut tx, "billing", id).await.unwrap());
    second.batch_execute("set lock_timeout = '50ms'").await.unwrap();
    let mut late = second.transaction().await.unwrap();
    let error = inbox.once(&mut late, "billing", id).await.unwrap_err();
    assert!(matches!(error, OnceError::Join(JoinError::Busy(_))), "{error:?}");
    late.rollback().await.unwrap();
    // What it sets for itself is over with it.
    for timeout in ["0", "50ms", "1min"] {
        second.batch_execute(&format!("set lock_timeout = '{timeout}'")).await.unwrap();
        let mut tx = second.transaction().await.unwrap();
        assert!(inbox.once(&mut tx, "billing", EventId::generate()).await.unwrap());
        let row = tx.query_one("show lock_timeout", &[]).await.unwrap();
        assert_eq!(row.get::<_, String>(0), timeout);
    }
}

/// Begins, makes the effect, commits; rolls back what fails.
#[tokio::test]
async fn process_makes_the_effect_once_and_undoes_what_fails() {
    let place = Place::new();
    let inbox = Inbox::new(place.store().await);
    place.run("create table effect (id bigint)").await;
    let mut client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let id = EventId::generate();
    let failed = inbox
        .process(&mut client, "billing", id, async |tx: &mut tokio_postgres::Transaction<'_>| {
            tx.batch_execute("insert into effect values (1)").await.unwrap();
            Err::<(), _>("no")
        })
        .await;
    assert!(matches!(failed, Err(ProcessError::Effect("no"))), "{failed:?}");
    for again in [false, true] {
        let made = inbox
            .process(
                &mut client,
                "billing",
                id,
                async |tx: &mut tokio_postgres::Transaction<'_>| {
                    tx.batch_execute("insert into effect values (2)").await
                },
            )
            .await
            .unwrap();
        assert_eq!(made == Processed::Again, again);
    }
    assert_eq!(place.number("select sum(id)::bigint from effect").await, 2);
}

/// Not a test of its own: this program again, as a node whose handler makes an effect in the database, by the way that it is
/// told.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node() {
    let Ok(schema) = env::var("SENDOFF_TEST_NODE") else { return };
    let place = Place::in_schema(env::var("SENDOFF_POSTGRES_URL").unwrap(), schema);
    let settles = env::var("SENDOFF_TEST_SETTLES").is_ok();
    let store = place.store().await;
    let url: &'static str = Box::leak(place.url.clone().into_boxed_str());
    let schema: &'static str = Box::leak(place.schema.clone().into_boxed_str());
    // The schema is the parent's.
    std::mem::forget(place);
    static OUTBOX: OnceLock<Outbox<PostgresStore>> = OnceLock::new();
    let inbox = Inbox::new(store.clone());
    let handler = move |delivery: Delivery| {
        let inbox = inbox.clone();
        async move {
            let place = std::mem::ManuallyDrop::new(Place::in_schema(url.into(), schema.into()));
            let mut client = place.client().await;
            client.batch_execute(&format!("set search_path = {schema}")).await?;
            effect(&mut client, settles, &inbox, &OUTBOX, &delivery).await
        }
    };
    let outbox = Outbox::builder(store).options(options()).on(EVENT, handler).start().await;
    OUTBOX.set(outbox.unwrap()).unwrap();
    say("up");
    std::future::pending::<()>().await;
}

async fn effect(
    client: &mut Client,
    settles: bool,
    inbox: &Inbox<PostgresStore>,
    outbox: &OnceLock<Outbox<PostgresStore>>,
    delivery: &Delivery,
) -> HandlerResult {
    let outbox = outbox.get().ok_or("it is not up yet")?;
    let mut tx = client.transaction().await?;
    let insert = format!("insert into effect values ('{}')", delivery.id());
    if settles {
        tx.batch_execute(&insert).await?;
        outbox.settle_in(delivery, &mut tx).await?;
    } else if inbox.once(&mut tx, "effects", delivery.id()).await? {
        tx.batch_execute(&insert).await?;
    }
    tx.commit().await?;
    Ok(())
}

fn options() -> OutboxOptions {
    OutboxOptions {
        workers: 4,
        poll_interval: Duration::from_millis(50),
        poll_batch: 20,
        cold_capacity: 40,
        hold: Duration::from_secs(2),
        hot_grace: Duration::from_secs(2),
        // Every kill counts an attempt of what was held.
        retry: RetryOptions { max_attempts: 1_000, ..RetryOptions::default() },
        ..OutboxOptions::default()
    }
}

/// Two nodes on one table, of which one is killed again and again, at no particular moment.
async fn killed_at_random(told: &[&str]) {
    let place = Place::new();
    let store = place.store().await;
    place.run("create table effect (event_id uuid not null)").await;
    let events: Vec<_> = (0..EVENTS).map(|n| due(Event::json(EVENT, &n).unwrap())).collect();
    write(&store, &mut place.client().await, &events).await;
    let node = || node_of("exactly_once::node", &place, told);
    let _steady = node();
    let mut random = fastrand::Rng::with_seed(16);
    let mut kills = 0;
    let done = async || store.counts().await.unwrap().pending() == 0;
    while kills < 8 && !done().await {
        let victim = node();
        victim.says("up");
        let effects = place.number("select count(*) from effect").await;
        let enough = effects + random.i64(1..40);
        within(PLENTY, "it to work", async || {
            place.number("select count(*) from effect").await >= enough.min(EVENTS)
        })
        .await;
        victim.signal("-KILL");
        kills += 1;
    }
    within(PLENTY, "everything to be done", done).await;
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done as i64, counts.dead), (EVENTS, 0), "after {kills} kills");
    let effects = "select count(*) from effect";
    let different = "select count(distinct event_id) from effect";
    assert_eq!(place.number(different).await, EVENTS, "nothing is missing");
    assert_eq!(place.number(effects).await, EVENTS, "and nothing is there twice");
    assert!(kills > 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_that_settle_in_their_transactions_make_each_effect_once() {
    killed_at_random(&["SENDOFF_TEST_SETTLES"]).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killed_processes_with_an_inbox_make_each_effect_once() {
    killed_at_random(&[]).await;
}

/// Above READ COMMITTED a transaction sees a row as it was at its first statement: one that was extended since then is
/// not found by its token, and nothing is settled. Where `settle_in` comes first there is nothing before it.
#[tokio::test]
async fn above_read_committed_settling_comes_first() {
    let place = Place::new();
    let store = place.store().await;
    write(&store, &mut place.client().await, &[due(Event::json(EVENT, &1).unwrap())]).await;
    let claimed = claim(&store, "a").await;
    let (mut held, created_at) = (hold_of(&claimed[0]), claimed[0].created_at);
    let mut client = place.client().await;
    for first in [false, true] {
        let begin = client.build_transaction().isolation_level(IsolationLevel::RepeatableRead);
        let mut tx = begin.start().await.unwrap();
        if !first {
            tx.batch_execute("select 1 from pg_class limit 1").await.unwrap();
        }
        held = store.extend(&[held], Duration::from_secs(60)).await.unwrap().held[0];
        let part = Part::Done { id: held.id, token: token_of(&held), created_at };
        assert_eq!(store.join(&mut tx, &part).await.unwrap(), first);
        tx.rollback().await.unwrap();
    }
}

/// Whoever cleans up has the rights that the guide names, and nothing else.
#[tokio::test]
async fn a_role_with_the_rights_of_the_guide_forgets_what_was_seen_and_done() {
    let place = Place::new();
    let _store = place.store().await;
    let role = format!("r_{}", place.schema);
    let schema = &place.schema;
    place
        .run(&format!(
            "create role {role} login;
             grant usage on schema {schema} to {role};
             grant select on {schema}.outbox_schema to {role};
             grant select, update, delete on {schema}.inbox_event, {schema}.outbox_audit to {role};
             select {schema}.sendoff_once('billing', gen_random_uuid());
             insert into {schema}.outbox_audit (action, actor, reason) values ('pause', 'ada', 'why');"
        ))
        .await;
    let cleaner =
        PostgresStore::connect_with(&as_role(&place, &role), place.options()).await.unwrap();
    let done = cleaner.forget(Trail::Audit, Cutoff::Age(Duration::ZERO), 10).await;
    let seen = Inbox::new(cleaner).forget(Cutoff::Age(Duration::ZERO), 10).await;
    place.run(&format!("drop owned by {role}; drop role {role}")).await;
    assert_eq!((done.unwrap(), seen.unwrap()), (1, 1));
}
