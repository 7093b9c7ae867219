//! Nothing that stands in a row, and no lock of somebody else, keeps the others waiting.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use sendoff_core::partition::Period;
use sendoff_core::{Event, EventId, GLOBAL_AGGREGATE, Holding, Status};
use sendoff_engine::capture::{Capture, Join, Part};
use sendoff_engine::store::{
    Claim, ClaimStore, EventKind, Except, InspectStore, Lock, LockStore, LockedRows, Outcome,
    RegisterStore, RetainStore, SettleStore, Settlement, StoreError, frame::Migrated, frame::text,
};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_mysql::{Layout, MysqlOptions, MysqlStore, Retention};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::wait::eventually;

use crate::place::{MARIADB, MYSQL, Place, by, claim, due, event, hold_of, settle_one, write};
use crate::server::Server;

/// Far longer than a statement takes.
const PROMPT: Duration = Duration::from_secs(10);

fn hex(id: EventId) -> String {
    id.to_string().replace('-', "")
}

fn done(held: sendoff_engine::store::Held) -> Settlement {
    Settlement { held, outcome: Outcome::Done }
}

/// In partitions the key cannot keep an id from being there twice.
#[tokio::test]
async fn an_id_that_is_there_twice_stops_no_claim_and_no_settlement() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let layout = Layout::Partitioned(Period::Day);
        let store = place.store_with(MysqlOptions { layout, ..Default::default() }).await;
        let rows = [due(event()), due(event())];
        write(&store, &mut place.conn().await, &rows).await;
        let id = rows[0].event.id();
        place
            .run(&format!(
                "insert into outbox_event (event_id, shard, event_type, payload, occurred_at,
                                           created_at, status, done_at)
                 select event_id, shard, event_type, payload, occurred_at,
                        created_at - interval 1 hour, 1, utc_timestamp(6)
                   from outbox_event where event_id = unhex('{}')",
                hex(id)
            ))
            .await;
        let claimed = claim(&store, "a").await;
        assert_eq!(claimed.len(), 2, "each once");
        let holds: Vec<_> = claimed.iter().map(hold_of).collect();
        let held = store.extend(&holds, Duration::from_secs(60)).await.unwrap().held;
        assert_eq!(held.len(), 2);
        let batch: Vec<_> = held.into_iter().map(done).collect();
        assert_eq!(store.settle(&batch).await.unwrap().applied.len(), 2);
        assert_eq!(place.number("select count(*) from outbox_event where status = 1").await, 3);
    }
}

/// Counts at their bounds, dates of zeros, headers that are none: what can be delivered is, and what
/// is no event is dead with its reason.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whatever_stands_in_a_row_the_others_are_claimed() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let (store, inbox) = (place.store().await, Inbox::new());
        let rows: Vec<_> = (0..6).map(|_| due(event())).collect();
        write(&store, &mut place.conn().await, &rows).await;
        let mut conn = place.conn().await;
        conn.query_drop("set sql_mode = ''").await.unwrap();
        for (at, set) in [
            "attempts = 4294967295, losses = 65535, locked_by = 'gone'",
            "due_at = 0",
            "created_at = 0",
            "occurred_at = 0",
            "headers = '{\"a\": [1]}'",
        ]
        .into_iter()
        .enumerate()
        {
            let id = hex(rows[at].event.id());
            let update = format!("update outbox_event set {set} where event_id = unhex('{id}')");
            conn.query_drop(update).await.unwrap();
        }
        assert_eq!(claim(&store, "a").await.len(), 5, "all but the suspect");
        assert!(claim(&store, "a").await.is_empty(), "held, whatever they were due at");
        let release = "update outbox_event set due_at = utc_timestamp(6), locked_by = null
                        where locked_by = 'a'";
        conn.query_drop(release).await.unwrap();
        let options =
            OutboxOptions { poll_interval: Duration::from_millis(50), ..Default::default() };
        let builder = Outbox::builder(store.clone()).options(options);
        let outbox = builder.on("order.placed", inbox.clone()).start().await.unwrap();
        let over = async || store.counts().await.unwrap().pending() == 0;
        eventually("an end for every row", over).await;
        outbox.close().await;
        let dead = "select count(*) from outbox_event where status = 3 and last_error is not null";
        assert!(place.number(dead).await >= 2, "what is no event is dead, with its reason");
        assert!(inbox.received().len() >= 3, "what is one is delivered");
    }
}

/// What a handler says is kept, whatever letters are in it; and a whole batch of it is no text that
/// the server refuses.
#[tokio::test]
async fn any_error_text_can_be_stored() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let rows: Vec<_> = (0..1_000).map(|_| due(event())).collect();
        write(&store, &mut place.conn().await, &rows).await;
        let held: Vec<_> = claim(&store, "a").await.iter().map(hold_of).collect();
        let nasty = "\0 \u{1f600} \u{10ffff} \u{fffe} \u{7f} ' \" \\ \r\n".to_owned();
        let dead = |error: &str| Outcome::dead(u32::MAX, error.to_owned());
        assert!(settle_one(&store, held[0], dead(&nasty)).await);
        let row = store.find(held[0].id).await.unwrap().unwrap();
        assert_eq!((row.last_error, row.attempts), (Some(nasty), u32::MAX));
        let long = "\u{1f600}".repeat(4_000);
        let batch: Vec<_> =
            held[1..].iter().map(|held| Settlement { held: *held, outcome: dead(&long) }).collect();
        assert_eq!(store.settle(&batch).await.unwrap().applied.len(), 999);
        let row = store.find(held[1].id).await.unwrap().unwrap();
        assert!(long.starts_with(&row.last_error.unwrap()) && row.status == Status::Dead);
    }
}

/// Somebody keeps writers out: what could not be settled is not taken, or it would be delivered again and
/// again for as long as that lasts.
#[tokio::test]
async fn nothing_is_taken_under_locks_while_it_could_not_be_settled() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        write(&store, &mut place.conn().await, &[due(event())]).await;
        for table in ["outbox_event", "outbox_tally_delta"] {
            let mut locker = place.conn().await;
            locker.query_drop(format!("lock tables {table} read")).await.unwrap();
            let taken = tokio::time::timeout(PROMPT, store.lock(&Lock::new(10))).await.unwrap();
            assert!(matches!(taken, Err(StoreError::Busy(_))), "{table}");
            locker.query_drop("unlock tables").await.unwrap();
        }
        let mut locked = store.lock(&Lock::new(10)).await.unwrap().unwrap();
        let id = locked.take()[0].id;
        locked.commit(&[(id, Outcome::Done)]).await.unwrap();
    }
}

/// A batch takes fewer rows than it may; the row due next is somebody's hold, who extends and settles it
/// while the handlers of the batch run, and waits for nothing.
#[tokio::test]
async fn a_locked_batch_has_nothing_locked_beside_its_rows() {
    for (server, layout) in [
        (MARIADB, Layout::Flat),
        (MARIADB, Layout::Partitioned(Period::Day)),
        (MYSQL, Layout::Flat),
    ] {
        let place = Place::on(server).await;
        let lock_timeout = 3 * PROMPT;
        let options = MysqlOptions { layout, lock_timeout, ..Default::default() };
        let store = place.store_with(options).await;
        let rows: Vec<_> = (0..5).map(|_| due(event())).collect();
        write(&store, &mut place.conn().await, &rows).await;
        let claimed = store.claim(&Claim { limit: 2, ..by("a") }).await.unwrap().rows;
        let holds: Vec<_> = claimed.iter().map(hold_of).collect();
        let mut batch = store.lock(&Lock { bytes: 4, ..Lock::new(10) }).await.unwrap().unwrap();
        assert_eq!(batch.take().len(), 2, "as many as have four bytes");
        let beside = async {
            let extended = store.extend(&holds, Duration::from_secs(60)).await.unwrap();
            assert_eq!((extended.held.len(), extended.busy.len()), (2, 0));
            let ends: Vec<_> = extended.held.into_iter().map(done).collect();
            let settled = store.settle(&ends).await.unwrap();
            assert_eq!((settled.applied.len(), settled.busy.len()), (2, 0));
            let mut rest = store.lock(&Lock::new(10)).await.unwrap().expect("what had no room");
            assert_eq!(rest.take().len(), 1);
        };
        tokio::time::timeout(PROMPT, beside).await.expect("nobody waits for the batch");
    }
}

/// A locking read would lock each of them, for as long as the claim lasts.
#[tokio::test]
async fn a_claim_that_leaves_rows_out_locks_none_of_them() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        let of = |event_type| due(Event::json(event_type, &1).unwrap());
        for _ in 0..20 {
            let left_out: Vec<_> = (0..1_000).map(|_| of("left out")).collect();
            write(&store, &mut conn, &left_out).await;
        }
        let wanted: Vec<_> = (0..10).map(|_| of("wanted")).collect();
        write(&store, &mut conn, &wanted).await;

        let mut claimer = place.conn().await;
        let kinds = "('__GLOBAL__', 'left out')";
        let text = text(include_str!("../../sql/outbox/claim.sql"), &["claim_except"])
            .replace("sendoff.", "")
            .replace(":kinds", kinds)
            .replace(":types", "''")
            .replace(":passed", "x''")
            .replace(":from", "0")
            .replace(":since", "0")
            .replace(":bytes", "1000000")
            .replace(":hold", "1000000")
            .replace(":owner", "'a'")
            .replace(":skip_recent", "0")
            .replace(":limit", "100");
        claimer.query_drop(text).await.unwrap();
        let found: Option<i64> =
            claimer.query_first("select json_length(@sendoff_rows)").await.unwrap();
        assert_eq!(found, Some(10));
        let locked = format!(
            "select trx_rows_locked from information_schema.innodb_trx
              where trx_mysql_thread_id = {}",
            claimer.id()
        );
        let locked: Option<u64> = conn.query_first(locked).await.unwrap();
        assert!(matches!(locked, Some(1..30)), "{locked:?}");
        claimer.query_drop("rollback").await.unwrap();

        let kind = EventKind { aggregate_type: GLOBAL_AGGREGATE, event_type: "left out" };
        let others =
            Claim { limit: 100, except: Except::kinds(std::slice::from_ref(&kind)), ..by("a") };
        let claimed = store.claim(&others).await.unwrap().rows;
        assert_eq!(claimed.len(), 10);
        assert!(store.claim(&others).await.unwrap().rows.is_empty());
    }
}

/// Five rows, and a batch that has three of them locked.
async fn three_of_five_locked(server: &str) -> (Place, MysqlStore, Box<dyn LockedRows>) {
    let place = Place::on(server).await;
    let store = place.store().await;
    let rows: Vec<_> = (0..5).map(|_| due(event())).collect();
    write(&store, &mut place.conn().await, &rows).await;
    let mut batch = store.lock(&Lock::new(3)).await.unwrap().unwrap();
    assert_eq!(batch.take().len(), 3);
    (place, store, batch)
}

/// What somebody has locked is seen by a plain read as well, and must hide no others.
#[tokio::test]
async fn rows_that_are_locked_hide_no_others_from_a_claim_that_leaves_rows_out() {
    for server in [MARIADB, MYSQL] {
        let (_place, store, batch) = three_of_five_locked(server).await;
        let kind = EventKind { aggregate_type: GLOBAL_AGGREGATE, event_type: "left out" };
        let two = Claim { limit: 2, except: Except::kinds(std::slice::from_ref(&kind)), ..by("a") };
        for (rows, cut) in [(1, true), (1, true), (0, false)] {
            let claimed = store.claim(&two).await.unwrap();
            assert_eq!((claimed.rows.len(), claimed.cut), (rows, cut), "as few as it may be");
        }
        batch.rollback().await.unwrap();
        let claimed = store.claim(&Claim { limit: 9, ..two }).await.unwrap();
        assert_eq!((claimed.rows.len(), claimed.cut), (3, false));
    }
}

/// The same of a lock.
#[tokio::test]
async fn rows_that_are_locked_hide_no_others_from_a_lock_that_leaves_rows_out() {
    for server in [MARIADB, MYSQL] {
        let (_place, store, batch) = three_of_five_locked(server).await;
        let kind = EventKind { aggregate_type: GLOBAL_AGGREGATE, event_type: "left out" };
        let two = Lock { except: Except::kinds(std::slice::from_ref(&kind)), ..Lock::new(2) };
        let mut open = Vec::new();
        // The second sees the first one's row beside two of the batch's, and then one that is free.
        for cut in [true, false] {
            let mut next = store.lock(&two).await.unwrap().expect("as few as it may be");
            assert_eq!((next.take().len(), next.is_cut()), (1, cut));
            open.push(next);
        }
        assert!(store.lock(&two).await.unwrap().is_none());
        batch.rollback().await.unwrap();
        let mut rest = store.lock(&Lock { limit: 3, ..two }).await.unwrap().unwrap();
        assert_eq!((rest.take().len(), rest.is_cut()), (3, false));
    }
}

/// The same of more rows than a claim of this size sees in its rounds.
#[tokio::test]
async fn many_rows_that_are_locked_hide_no_others_from_a_small_claim_that_leaves_rows_out() {
    let place = Place::on(MARIADB).await;
    let store = place.store().await;
    let rows: Vec<_> = (0..12).map(|_| due(event())).collect();
    write(&store, &mut place.conn().await, &rows).await;
    let mut batch = store.lock(&Lock::new(10)).await.unwrap().unwrap();
    assert_eq!(batch.take().len(), 10);
    let plain = store.claim(&Claim { limit: 1, ..by("b") }).await.unwrap().rows.len();
    assert_eq!(plain, 1, "a claim that leaves nothing out");
    let kind = EventKind { aggregate_type: GLOBAL_AGGREGATE, event_type: "left out" };
    let two = Claim { limit: 2, except: Except::kinds(std::slice::from_ref(&kind)), ..by("a") };
    let claimed = store.claim(&two).await.unwrap();
    assert!(claimed.rows.len() == 1 || claimed.cut, "{} {}", claimed.rows.len(), claimed.cut);
    batch.rollback().await.unwrap();
}

/// Somebody has locked an entry of the index by which rows are due, and not its row: what waits for it
/// is that row alone.
#[tokio::test]
async fn an_index_entry_that_somebody_has_locked_delays_its_own_row() {
    let place = Place::new().await;
    let lock_timeout = Duration::from_secs(1);
    let store = place.store_with(MysqlOptions { lock_timeout, ..Default::default() }).await;
    let rows: Vec<_> = (0..3).map(|_| due(event())).collect();
    write(&store, &mut place.conn().await, &rows).await;
    let holds: Vec<_> = claim(&store, "a").await.iter().map(hold_of).collect();
    let mut somebody = place.conn().await;
    // MariaDB keeps the lock on the first entry that it was not asked for.
    let lock = "set session transaction isolation level read committed; begin;
                select event_id, length(payload) from outbox_event force index (outbox_event_due)
                 where due_at <= utc_timestamp(6) order by due_at, seq limit 10 for update";
    somebody.query_drop(lock).await.unwrap();
    let extended = store.extend(&holds, Duration::from_secs(60)).await.unwrap();
    assert_eq!((extended.held.len(), extended.busy.len()), (2, 1));
    let busy = *holds.iter().find(|held| extended.busy.contains(&held.id)).unwrap();
    let batch: Vec<_> = extended.held.iter().copied().chain([busy]).map(done).collect();
    let began = std::time::Instant::now();
    let settled = store.settle(&batch).await.unwrap();
    assert_eq!((settled.applied.len(), settled.busy), (2, vec![busy.id]));
    assert!(began.elapsed() < lock_timeout, "it is known by now that somebody has one");
    somebody.query_drop("rollback").await.unwrap();
    assert!(settle_one(&store, busy, Outcome::Done).await);
}

/// A settlement of somebody else that has not ended, and whoever adds counters up, lock nothing that
/// others need.
#[tokio::test]
async fn counters_keep_no_settlement_waiting_and_are_added_up() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        let mut conn = place.conn().await;
        let rows: Vec<_> = (0..4).map(|_| due(event())).collect();
        write(&store, &mut conn, &rows).await;
        let held: Vec<_> = claim(&store, "a").await.iter().map(hold_of).collect();
        assert!(settle_one(&store, held[0], Outcome::Done).await);
        assert_eq!(store.fold().await.unwrap(), 1);
        assert!(settle_one(&store, held[1], Outcome::Done).await);
        // As those who fold do.
        let open = "set session transaction isolation level read committed; begin;
                    select * from outbox_tally for update;
                    select * from outbox_tally_delta for update";
        conn.query_drop(open).await.unwrap();
        let third = [done(held[2])];
        let settled = tokio::time::timeout(Duration::from_secs(10), store.settle(&third));
        assert_eq!(settled.await.expect("no wait").unwrap().applied, [held[2].id]);
        assert_eq!(store.topics().await.unwrap()[0].counts.done, 3, "in parts or not");
        conn.query_drop("rollback").await.unwrap();
        assert_eq!(store.fold().await.unwrap(), 2);
        assert_eq!(store.topics().await.unwrap()[0].counts.done, 3);
        assert_eq!(place.number("select count(*) from outbox_tally_delta").await, 0);
        let long_ago = "update outbox_tally set ended_at = '2020-01-01'";
        conn.query_drop(long_ago).await.unwrap();
        assert!(settle_one(&store, held[3], Outcome::Done).await);
        assert_eq!(store.fold().await.unwrap(), 1);
        assert_eq!(store.topics().await.unwrap()[0].counts.done, 4, "a type that lives stays");
        conn.query_drop(long_ago).await.unwrap();
        assert_eq!(store.fold().await.unwrap(), 0);
        assert!(store.topics().await.unwrap().is_empty(), "one that does not is forgotten");
    }
}

/// Settle and COMMIT of a locked batch are one text: when a statement of it fails nothing is written,
/// and the rows are free before anybody hears of it.
#[tokio::test]
async fn a_locked_batch_whose_settlement_is_refused_leaves_everything_as_it_was() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        write(&store, &mut place.conn().await, &[due(event()), due(event())]).await;
        place
            .run("alter table outbox_tally_delta add constraint none check (event_type = '')")
            .await;
        let mut batch = store.lock(&Lock::new(10)).await.unwrap().unwrap();
        batch.keep_awake().await.unwrap();
        let rows = batch.take();
        let outcomes = [(rows[0].id, Outcome::Done), (rows[1].id, Outcome::Done)];
        let error = batch.commit(&outcomes).await.unwrap_err();
        assert!(!matches!(error, StoreError::Timeout | StoreError::Unavailable(_)), "{error:?}");
        place.run("alter table outbox_tally_delta drop constraint none").await;
        let mut again = store.lock(&Lock::new(10)).await.unwrap().expect("the rows are free");
        let again_rows = again.take();
        assert_eq!(again_rows.len(), 2);
        assert!(again_rows.iter().all(|row| row.attempts == 0 && !row.lost));
        again.commit(&outcomes).await.unwrap();
        assert_eq!(store.counts().await.unwrap().done, 2);
    }
}

/// What an administrator allows transactions that read, or write, ends no batch whose handlers run, or they
/// would run again for ever. Our own limit does, if the process falls silent.
#[tokio::test]
async fn a_limit_for_idle_transactions_of_the_server_ends_no_batch() {
    let limits = &["--idle-readonly-transaction-timeout=1", "--idle-write-transaction-timeout=1"];
    let Some(server) = Server::start(limits) else { return };
    let place = Place::at(server.url()).await;
    let store = place.store().await;
    write(&store, &mut place.conn().await, &[due(event())]).await;
    let mut batch = store.lock(&Lock::new(1)).await.unwrap().unwrap();
    let id = batch.take()[0].id;
    let mut another = place.conn().await;
    another.query_drop("begin; select * from outbox_tally").await.unwrap();
    let there =
        format!("select count(*) from information_schema.processlist where id = {}", another.id());
    let ended = async || place.number(&there).await == 0;
    eventually("the limit to end another's", ended).await;
    batch.keep_awake().await.unwrap();
    batch.commit(&[(id, Outcome::Done)]).await.unwrap();
}

/// Batches say that they are alive as often as the limit that was chosen demands, and not as often as
/// that of the defaults would.
#[tokio::test]
async fn a_locked_batch_knows_after_how_long_a_silence_the_server_ends_it() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let idle_in_transaction_timeout = Duration::from_secs(12);
        let options = MysqlOptions { idle_in_transaction_timeout, ..MysqlOptions::default() };
        let store = place.store_with(options).await;
        write(&store, &mut place.conn().await, &[due(event())]).await;
        let batch = store.lock(&Lock::new(1)).await.unwrap().unwrap();
        assert_eq!(batch.idle_limit(), Some(idle_in_transaction_timeout));
        batch.rollback().await.unwrap();
    }
}

/// A migration waits a second at a time beside a transaction that did what `open` does, and the application
/// goes before it.
pub(crate) async fn writers_pass_a_migration(
    place: &Place,
    open: &str,
    write: &str,
    migrate: impl Future<Output = Result<Migrated, StoreError>> + Send + 'static,
) -> Migrated {
    let mut opened = place.conn().await;
    opened.query_drop(format!("begin; {open}")).await.unwrap();
    let migration = tokio::spawn(migrate);
    let waiting = format!(
        "select count(*) from information_schema.processlist
          where db = '{}' and state like 'Waiting for table metadata lock%'",
        place.database
    );
    eventually("the migration to wait", async || place.number(&waiting).await > 0).await;
    let mut writer = place.conn().await;
    let written = tokio::time::timeout(Duration::from_secs(10), writer.query_drop(write)).await;
    written.expect("a writer waits behind the migration").unwrap();
    assert!(!migration.is_finished());
    opened.query_drop("rollback").await.unwrap();
    migration.await.unwrap().unwrap()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_beside_an_open_transaction_keeps_no_writer_waiting_for_long() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = place.store().await;
        place.run("delete from outbox_schema where version >= 3").await;
        place.run("alter table outbox_tally drop column ended_at").await;
        let migrate = async move { store.migrate().await };
        let (open, write) =
            ("select * from outbox_tally", "insert into outbox_tally values ('t', 1, 1)");
        let migrated = writers_pass_a_migration(&place, open, write, migrate).await;
        assert_eq!((migrated.from, migrated.to), (2, 7));
    }
}

/// Holds D6: one row that somebody has locked keeps no node from hearing what others handle.
#[tokio::test]
async fn a_locked_row_of_who_handles_what_keeps_nobody_from_saying_and_hearing() {
    let place = Place::on(MARIADB).await;
    let store = place.store().await;
    let lately = Duration::from_secs(900);
    let kind = |event_type| EventKind { aggregate_type: "a", event_type };
    store.register(&[kind("mine"), kind("locked")], lately).await.unwrap();
    store.register(&[kind("theirs")], lately).await.unwrap();
    let mut conn = place.conn().await;
    conn.query_drop("start transaction").await.unwrap();
    let lock = "select * from outbox_handled where event_type = 'locked' for update";
    conn.query_drop(lock).await.unwrap();
    let heard = store.register(&[kind("mine"), kind("locked")], lately).await;
    assert!(
        heard.as_ref().is_ok_and(|heard| heard.contains(&("a".into(), "theirs".into()))),
        "{heard:?}"
    );
}

/// Holds G8: a handler settles its event in a transaction of its own, as that is set by default, and goes on. Whoever
/// writes events meanwhile does not wait for it, nor do two such handlers that write for each other.
#[tokio::test]
async fn a_transaction_that_settles_keeps_no_writer_waiting() {
    for (server, layout) in [
        (MARIADB, Layout::Flat),
        (MARIADB, Layout::Partitioned(Period::Day)),
        (MYSQL, Layout::Flat),
        (MYSQL, Layout::Partitioned(Period::Day)),
    ] {
        for retention in [Retention::FOREVER, Retention::DeleteWhenDone] {
            let place = Place::on(server).await;
            let options = MysqlOptions { layout, retention, ..Default::default() };
            let store = place.store_with(options).await;
            write(&store, &mut place.conn().await, &[due(event()), due(event())]).await;
            let claimed = claim(&store, "a").await;
            let (mut first, mut second) = (place.conn().await, place.conn().await);
            for (conn, row) in [(&mut first, &claimed[0]), (&mut second, &claimed[1])] {
                conn.query_drop("set innodb_lock_wait_timeout = 1").await.unwrap();
                conn.query_drop("set transaction isolation level repeatable read").await.unwrap();
                conn.query_drop("begin").await.unwrap();
                let Holding::Row(token) = row.by else { panic!("it is held by its row") };
                let part = Part::Done { id: row.id, token, created_at: row.created_at };
                assert!(store.join(conn, &part).await.unwrap(), "{layout:?}");
            }
            let mut third = place.conn().await;
            third.query_drop("set innodb_lock_wait_timeout = 1").await.unwrap();
            write(&store, &mut third, &[due(event())]).await;
            for conn in [&mut first, &mut second] {
                store.insert(conn, &[due(event())]).await.unwrap();
                conn.query_drop("commit").await.unwrap();
            }
            let pending = "select count(*) from outbox_event where status in (0, 2)";
            assert_eq!(place.number(pending).await, 3, "{layout:?}");
        }
    }
}
