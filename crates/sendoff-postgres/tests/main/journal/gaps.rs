//! What holds the tail back, and what does not.

use std::time::{Duration, Instant};

use sendoff_core::journal::{Sequence, Unsafe};
use sendoff_engine::journal::{JournalStore, TailError};
use sendoff_postgres::JournalLayout;
use sendoff_testkit::wait::eventually;
use tokio::task::JoinSet;
use tokio_postgres::Client;

use super::{Gid, Log, QUICK, fact, journal_in, position, positions, ranges, settled, tail};
use crate::place::Place;

/// Each of them in one table, and in partitions of two positions, where a gap is soon at a boundary.
macro_rules! in_both_layouts {
    ($($test:ident)*) => {
        mod flat {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::JournalLayout::Flat).await;
                }
            )*
        }

        mod in_partitions {
            $(
                #[tokio::test]
                async fn $test() {
                    super::$test(super::JournalLayout::Partitioned(super::ranges(2))).await;
                }
            )*
        }
    };
}

/// Holds J6: while nextval writes to the log, the sequence read as a table shows up to 32 numbers that nobody took.
/// A tail that believed them would pass what comes there, and a decision would not see it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn no_position_is_told_before_it_was_taken() {
    let place = Place::new();
    let journal = journal_in(&place, JournalLayout::Flat).await;
    // Whoever takes numbers has to wait for room in the log.
    let numbers = "select count(nextval('journal_position')) from generate_series(1, 100)";
    let log = "select pg_logical_emit_message(false, 'load', repeat('x', 500000))";
    let mut load = JoinSet::new();
    for sql in [numbers, numbers, log, log] {
        let client = place.client().await;
        load.spawn(async move {
            loop {
                run(&client, sql).await;
            }
        });
    }
    let (mut last, until) = (position(0), Instant::now() + Duration::from_secs(2));
    while Instant::now() < until {
        let head = journal.store().head().await.unwrap();
        assert!(head >= last, "{head} after {last}");
        last = head;
    }
}

in_both_layouts! {
    a_later_position_may_have_the_earlier_transaction_number
    a_slow_low_position_is_waited_for
    what_was_rolled_back_is_passed_at_once
    a_rolled_back_run_of_any_length_is_passed_in_one_step
    transactions_that_never_touched_the_journal_do_not_matter
    an_append_that_is_prepared_between_two_looks_is_still_waited_for
    whoever_holds_the_tail_back_is_named
    a_sequence_that_does_not_count_one_by_one_is_refused
    a_sequence_that_was_set_back_is_refused
    a_tail_from_now_begins_where_all_is_decided
    a_row_that_cannot_be_read_is_passed_on_as_such
    a_tail_that_waits_is_woken_by_an_append
}

/// A transaction begun by hand, with an append in it.
async fn open_append(journal: &Log, place: &Place) -> Client {
    let mut client = place.client().await;
    client.batch_execute("begin").await.unwrap();
    journal.append_in(&mut client, [fact("open", &[])], None).await.unwrap();
    client
}

async fn run(client: &Client, sql: &str) {
    client.batch_execute(sql).await.unwrap();
}

/// Holds J6: the order of transaction numbers is not the order of positions.
async fn a_later_position_may_have_the_earlier_transaction_number(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    let (mut early, mut late) = (place.client().await, place.client().await);
    run(&early, "begin; select pg_current_xact_id()").await;
    run(&late, "begin; select pg_current_xact_id()").await;
    journal.append_in(&mut late, [fact("first", &[])], None).await.unwrap();
    journal.append_in(&mut early, [fact("second", &[])], None).await.unwrap();
    run(&early, "commit").await;

    let mut reader = tail(&journal).await;
    let (passed, batch) = settled(&mut reader).await;
    assert!(passed.is_empty());
    assert_eq!((batch.gap, batch.waits_for.len()), (Some((position(1), position(1))), 1));
    run(&late, "commit").await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
}

/// Holds J6: and it holds back only what is above it.
async fn a_slow_low_position_is_waited_for(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    journal.append([fact("a", &[])]).await.unwrap();
    let slow = open_append(&journal, &place).await;
    journal.append([fact("b", &[]), fact("c", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    assert_eq!(settled(&mut reader).await.0, [1]);
    for _ in 0..20 {
        assert!(positions(&reader.look().await.unwrap()).is_empty());
    }
    run(&slow, "commit").await;
    assert_eq!(settled(&mut reader).await.0, [2, 3, 4]);
}

/// Holds J6: rolled back, by itself, to a savepoint, and by a lost connection.
async fn what_was_rolled_back_is_passed_at_once(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    let undone = open_append(&journal, &place).await;
    let mut kept = place.client().await;
    run(&kept, "begin; savepoint s").await;
    journal.append_in(&mut kept, [fact("undone", &[])], None).await.unwrap();
    run(&kept, "rollback to s").await;
    journal.append_in(&mut kept, [fact("kept", &[])], None).await.unwrap();
    let lost = open_append(&journal, &place).await;
    journal.append([fact("last", &[])]).await.unwrap();

    let mut reader = tail(&journal).await;
    let (passed, batch) = settled(&mut reader).await;
    assert_eq!((passed.len(), batch.waits_for.len()), (0, 3));
    run(&undone, "rollback").await;
    run(&kept, "commit").await;
    assert!(settled(&mut reader).await.0.is_empty(), "whose 4 may be, nobody knows");
    drop(lost);
    eventually("the server to notice", async || journal.holders().await.unwrap().is_empty()).await;
    assert_eq!(settled(&mut reader).await.0, [3, 5]);
}

/// Holds J6: an import that failed takes its numbers with it.
async fn a_rolled_back_run_of_any_length_is_passed_in_one_step(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    journal.append([fact("a", &[])]).await.unwrap();
    let numbers = format!(
        "select count(nextval('{}.journal_position')) from generate_series(1, 150000)",
        place.schema
    );
    run(&place.client().await, &format!("begin; {numbers}; rollback")).await;
    journal.append([fact("b", &[])]).await.unwrap();
    assert_eq!(settled(&mut tail(&journal).await).await.0, [1, 150_002]);
}

/// Holds J6: only who has an append open can hold it back.
async fn transactions_that_never_touched_the_journal_do_not_matter(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    place.run("create table foreign_work (n int)").await;
    let table = format!("{}.foreign_work", place.schema);
    let foreign = place.client().await;
    run(&foreign, &format!("begin; insert into {table} values (1)")).await;
    let (preparer, gid) = (place.client().await, Gid::new(&place));
    run(&preparer, &format!("begin; insert into {table} values (2)")).await;
    gid.prepare(&preparer).await;
    // Reading the journal is no append, also in a transaction that writes elsewhere.
    let read = format!("select count(*) from {}.journal_event", place.schema);
    run(&foreign, &read).await;
    let (server, _) = place.url.rsplit_once('/').unwrap();
    let elsewhere = crate::place::connect(&format!("{server}/template1")).await;
    let elsewhere = elsewhere.unwrap();
    run(&elsewhere, "begin; select pg_current_xact_id()").await;

    let undone = open_append(&journal, &place).await;
    journal.append([fact("a", &[])]).await.unwrap();
    run(&undone, "rollback").await;
    let mut reader = tail(&journal).await;
    assert_eq!(settled(&mut reader).await.0, [2]);
    run(&foreign, "commit").await;
    gid.roll_back(&preparer).await;
}

/// Holds J6: PREPARE takes the process away, and leaves the name.
async fn an_append_that_is_prepared_between_two_looks_is_still_waited_for(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    let (slow, gid) = (open_append(&journal, &place).await, Gid::new(&place));
    journal.append([fact("b", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    let (_, before) = settled(&mut reader).await;
    assert_eq!(before.waits_for.len(), 1);
    gid.prepare(&slow).await;
    for _ in 0..5 {
        let batch = reader.look().await.unwrap();
        assert!(batch.rows.is_empty());
        assert_eq!(batch.waits_for.len(), 1);
    }
    gid.commit(&slow).await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
}

/// What `sendoff doctor` says: the process or the name, and since when.
async fn whoever_holds_the_tail_back_is_named(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    assert!(journal.holders().await.unwrap().is_empty());
    let slow = open_append(&journal, &place).await;
    let pid: i32 = slow.query_one("select pg_backend_pid()", &[]).await.unwrap().get(0);
    run(&slow, "set application_name = 'slowpoke'").await;
    let holders = journal.holders().await.unwrap();
    let [holder] = &*holders else { panic!("{holders:?}") };
    assert_eq!((holder.pid, &holder.gid), (Some(pid), &None));
    assert_eq!(holder.application.as_deref(), Some("slowpoke"));
    let since = holder.since.unwrap();

    let gid = Gid::new(&place);
    gid.prepare(&slow).await;
    let holders = journal.holders().await.unwrap();
    let [prepared] = &*holders else { panic!("{holders:?}") };
    assert_eq!((prepared.pid, prepared.gid.as_deref()), (None, Some(gid.name())));
    assert!(prepared.since.unwrap() >= since);
    gid.roll_back(&slow).await;
    assert!(journal.holders().await.unwrap().is_empty());
}

/// A session that takes twenty numbers at once brings them late, and holds no lock meanwhile.
async fn a_sequence_that_does_not_count_one_by_one_is_refused(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    journal.append([fact("a", &[])]).await.unwrap();
    for (change, sequence) in [
        ("cache 20", Sequence { cache: 20, ..Sequence::ONE_BY_ONE }),
        ("increment 2", Sequence { increment: 2, ..Sequence::ONE_BY_ONE }),
        ("cycle", Sequence { cycles: true, ..Sequence::ONE_BY_ONE }),
    ] {
        let mut running = tail(&journal).await;
        running.look().await.unwrap();
        place.run(&format!("alter sequence journal_position {change}")).await;
        for look in [running.look().await, tail(&journal).await.look().await] {
            let error = look.map(|_| ()).unwrap_err();
            assert!(
                matches!(&error, TailError::Unsafe(Unsafe::Sequence(found)) if *found == sequence)
            );
            assert!(error.to_string().contains("ALTER SEQUENCE"), "{error}");
        }
        place.run("alter sequence journal_position cache 1 increment 1 no cycle").await;
        assert_eq!(settled(&mut tail(&journal).await).await.0, [1]);
    }
}

/// A journal that is set back, by whomever, is not read as if nothing had happened.
async fn a_sequence_that_was_set_back_is_refused(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    journal.append([fact("a", &[]), fact("b", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
    place.run("truncate journal_event, journal_tag restart identity").await;
    let error = reader.look().await.map(|_| ()).unwrap_err();
    assert!(matches!(error, TailError::Unsafe(Unsafe::WentBack { .. })), "{error:?}");
}

/// From now on: what is open is waited for, what was there is not seen, what comes is.
async fn a_tail_from_now_begins_where_all_is_decided(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    journal.append([fact("old", &[])]).await.unwrap();
    let slow = open_append(&journal, &place).await;
    let mut reader = journal.tail_from_now(QUICK).await.unwrap();
    for _ in 0..5 {
        assert!(reader.look().await.unwrap().rows.is_empty());
    }
    run(&slow, "commit").await;
    let mut next = tokio::spawn(async move { reader.next().await.map(|batch| positions(&batch)) });
    // It is there once it waits for something new.
    let appending = async {
        loop {
            journal.append([fact("new", &[])]).await.unwrap();
            tokio::time::sleep(std::time::Duration::from_millis(20)).await;
        }
    };
    tokio::select! {
        () = appending => unreachable!(),
        passed = &mut next => {
            let passed = passed.unwrap().unwrap();
            assert!(passed[0] > 2, "{passed:?}");
        }
    }
}

/// A row that is no fact any more has its place in the order, and does not stop the others.
async fn a_row_that_cannot_be_read_is_passed_on_as_such(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    journal.append([fact("a", &[]), fact("b", &[]), fact("c", &[])]).await.unwrap();
    place.run("update journal_event set tags = '{=}' where position = 2").await;
    let batch = tail(&journal).await.look().await.unwrap();
    let readable: Vec<_> = batch.rows.iter().map(|row| row.recorded.is_ok()).collect();
    assert_eq!(readable, [true, false, true]);
    assert_eq!(positions(&batch), [1, 2, 3]);
}

/// An append in this process is heard of at once.
async fn a_tail_that_waits_is_woken_by_an_append(layout: JournalLayout) {
    let place = Place::new();
    let journal = journal_in(&place, layout).await;
    let hour = std::time::Duration::from_secs(3_600);
    let options = sendoff_engine::journal::TailOptions { interval: hour, ..QUICK };
    let mut reader = journal.tail(sendoff_core::journal::Position::START, options).await.unwrap();
    let appender = journal.clone();
    let (passed, ()) = tokio::join!(reader.next(), async {
        appender.append([fact("a", &[])]).await.unwrap();
    });
    assert_eq!(positions(&passed.unwrap()), [1]);
}
