//! What holds the tail back, and what does not.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use sendoff_core::journal::{Position, Sequence, Unsafe};
use sendoff_engine::journal::{JournalStore, TailError};
use sendoff_engine::store::StoreError;
use sendoff_testkit::wait::eventually;

use super::{
    QUICK, burn, committed, fact, journal, open_append, position, positions, run, settled, tail,
};
use crate::place::{MARIADB, MYSQL, Place, connect};

/// Holds J6: and it holds back only what is above it.
#[tokio::test]
async fn a_slow_low_position_is_waited_for() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        journal.append([fact("a", &[])]).await.unwrap();
        let mut slow = open_append(&journal, &place).await;
        journal.append([fact("b", &[]), fact("c", &[])]).await.unwrap();
        let mut reader = tail(&journal).await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!((passed, batch.gap), (vec![1], Some((position(2), position(2)))));
        assert!(positions(&reader.look().await.unwrap()).is_empty());
        run(&mut slow, "commit").await;
        assert_eq!(settled(&mut reader).await.0, [2, 3, 4]);
        assert_eq!(place.number("select count(*) from journal_event").await, 4, "no void");
    }
}

/// Holds J6: rolled back, by itself, to a savepoint, and by a lost connection.
#[tokio::test]
async fn what_was_rolled_back_is_passed_at_once() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut undone = open_append(&journal, &place).await;
        let mut kept = place.conn().await;
        run(&mut kept, "begin; savepoint s").await;
        journal.append_in(&mut kept, [fact("undone", &[])], None).await.unwrap();
        run(&mut kept, "rollback to s").await;
        journal.append_in(&mut kept, [fact("kept", &[])], None).await.unwrap();
        let lost = open_append(&journal, &place).await;
        journal.append([fact("last", &[])]).await.unwrap();

        let mut reader = tail(&journal).await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!((passed.len(), batch.gap), (0, Some((position(1), position(4)))));
        run(&mut undone, "rollback").await;
        run(&mut kept, "commit").await;
        // What is below the one that is still open needs not wait for it.
        assert_eq!(settled(&mut reader).await.0, [3]);
        assert_eq!(reader.at(), position(3));
        drop(lost);
        let mut passed = Vec::new();
        eventually("the server to notice", async || {
            passed.extend(settled(&mut reader).await.0);
            passed == [5]
        })
        .await;
        let voids = "select count(*) from journal_event where event_id is null";
        assert_eq!(place.number(voids).await, 3);
        // Nobody else ever sees them.
        assert_eq!(settled(&mut tail(&journal).await).await.0, [3, 5]);
    }
}

/// Holds J6: only who has an append open can hold it back.
#[tokio::test]
async fn transactions_that_never_touched_the_journal_do_not_matter() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        place.run("create table foreign_work (n int)").await;
        let (mut foreign, mut prepared) = (place.conn().await, place.conn().await);
        run(&mut foreign, "begin; insert into foreign_work values (1)").await;
        run(&mut foreign, "select count(*) from journal_event").await;
        let name = format!("'{}'", place.database);
        run(&mut prepared, &format!("xa start {name}")).await;
        run(&mut prepared, "insert into foreign_work values (2)").await;
        run(&mut prepared, &format!("xa end {name}; xa prepare {name}")).await;

        let mut undone = open_append(&journal, &place).await;
        journal.append([fact("a", &[])]).await.unwrap();
        run(&mut undone, "rollback").await;
        assert_eq!(settled(&mut tail(&journal).await).await.0, [2]);
        run(&mut prepared, &format!("xa rollback {name}")).await;
        run(&mut foreign, "commit").await;
    }
}

/// Holds J6: an append that is prepared has no session, and its locks.
#[tokio::test]
async fn an_append_that_is_prepared_is_still_waited_for() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut slow = place.conn().await;
        let name = format!("'{}'", place.database);
        run(&mut slow, &format!("xa start {name}")).await;
        journal.append_in(&mut slow, [fact("a", &[])], None).await.unwrap();
        run(&mut slow, &format!("xa end {name}; xa prepare {name}")).await;
        drop(slow);
        journal.append([fact("b", &[])]).await.unwrap();
        let mut reader = tail(&journal).await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!((passed.len(), batch.gap), (0, Some((position(1), position(1)))));
        let mut other = place.conn().await;
        eventually("the server to give it to another session", async || {
            other.query_drop(format!("xa commit {name}")).await.is_ok()
        })
        .await;
        assert_eq!(settled(&mut reader).await.0, [1, 2]);
    }
}

/// What `sendoff doctor` says: the session, and since when.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn whoever_holds_the_tail_back_is_named() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        assert!(journal.holders().await.unwrap().is_empty());
        let mut slow = open_append(&journal, &place).await;
        let session: i32 = slow.query_first("select connection_id()").await.unwrap().unwrap();
        journal.append([fact("b", &[])]).await.unwrap();
        let mut reader = tail(&journal).await;
        let (_, batch) = settled(&mut reader).await;
        let [named] = &*batch.waits_for else { panic!("{batch:?}") };
        let waiting = tokio::spawn(async move { settled(&mut reader).await.0 });
        eventually("it to be named", async || {
            // MariaDB tells the same again to whoever asks sooner.
            tokio::time::sleep(Duration::from_millis(150)).await;
            let holders = journal.holders().await.unwrap();
            let Some(holder) = holders.first() else { return false };
            assert_eq!((holder.pid, &holder.id), (Some(session), named));
            assert!(holder.since.is_some());
            true
        })
        .await;
        run(&mut slow, "commit").await;
        assert_eq!(waiting.await.unwrap(), [1, 2]);
    }
}

/// The right to know is another than the right to append.
#[tokio::test]
async fn a_user_who_may_not_know_who_is_told_what_is_missing() {
    let place = Place::new().await;
    journal(&place).await;
    let user = place.database[..30].to_owned();
    place.run(&format!("create user '{user}'@'%' identified by 'secret'")).await;
    place.run(&format!("grant select, insert on {}.* to '{user}'@'%'", place.database)).await;
    let url = place.url.replace("root@", &format!("{user}:secret@"));
    let limited = sendoff_mysql::MysqlJournal::connect(&url).await.unwrap();
    let said = limited.holders().await.unwrap_err();
    assert!(matches!(said, StoreError::Rights { .. }), "{said:?}");
    assert!(said.to_string().contains("PROCESS"), "{said}");
    place.run(&format!("drop user '{user}'@'%'")).await;
}

/// Where several servers are written to they do not count one by one, and know no locks of one another.
#[tokio::test]
async fn a_server_that_does_not_count_one_by_one_is_refused() {
    let place = Place::new().await;
    let log = journal(&place).await;
    log.append([fact("a", &[])]).await.unwrap();
    let mut conn = place.conn().await;
    run(&mut conn, "set session auto_increment_increment = 2; begin").await;
    let refused = log.append_in(&mut conn, [fact("b", &[])], None).await;
    let said = refused.unwrap_err().to_string();
    assert!(said.contains("auto_increment_increment"), "{said}");
    run(&mut conn, "commit").await;
    assert_eq!(settled(&mut tail(&log).await).await.0, [1]);
}

/// The same of a tail, and one that is read-only: on a server that is this test's own.
#[tokio::test]
async fn a_tail_of_such_a_server_or_of_a_replica_is_refused() {
    let Some(server) = crate::server::Server::start(&[]) else { return };
    let mut root = connect(&server.url()).await;
    run(&mut root, "create database j").await;
    let url = server.url().replace("/mysql", "/j");
    let log = sendoff_mysql::MysqlJournal::connect(&url).await.unwrap();
    log.migrate().await.unwrap();
    let log = sendoff_engine::journal::Journal::new(log);
    log.append([fact("a", &[])]).await.unwrap();

    run(&mut root, "set global auto_increment_increment = 3").await;
    let sequence = Sequence { increment: 3, ..Sequence::ONE_BY_ONE };
    let refused = tail(&log).await.look().await.map(|_| ());
    assert!(
        matches!(refused, Err(TailError::Unsafe(Unsafe::Sequence(found))) if found == sequence),
        "{refused:?}"
    );
    run(&mut root, "set global auto_increment_increment = 1; set global read_only = 1").await;
    let refused = tail(&log).await.look().await.map(|_| ());
    assert!(matches!(refused, Err(TailError::Unsafe(Unsafe::Standby))), "{refused:?}");
}

/// A journal that is set back, by whomever, is not read as if nothing had happened.
#[tokio::test]
async fn positions_that_went_back_are_noticed() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    journal.append([fact("a", &[]), fact("b", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
    place.run("truncate journal_event").await;
    let error = reader.look().await.map(|_| ()).unwrap_err();
    assert!(matches!(error, TailError::Unsafe(Unsafe::WentBack { .. })), "{error:?}");
}

/// Holds J6: a failed import of 151,000 facts, and whoever is somewhere else in it.
#[tokio::test]
async fn a_rolled_back_run_of_any_length_is_passed_in_one_step() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        journal.append([fact("a", &[])]).await.unwrap();
        let mut import = place.conn().await;
        run(&mut import, "begin").await;
        let facts = (0..1_000).map(|_| fact("import", &["of=it"]));
        journal.append_in(&mut import, facts, None).await.unwrap();
        run(&mut import, "rollback").await;
        burn(&mut import, 150_000).await;
        let last = journal.append([fact("b", &[])]).await.unwrap()[0].position.get();
        assert_eq!(settled(&mut tail(&journal).await).await.0, [1, last]);
        let holes = "select count(*) from journal_hole";
        assert_eq!(place.number(holes).await, 1);
        let rows = "select count(*) from journal_event";
        assert_eq!(place.number(rows).await, 3, "a void where it ends");

        // Others find it passed, also those who begin in the middle of it.
        assert_eq!(settled(&mut tail(&journal).await).await.0, [1, last]);
        let mut within = journal.tail(position(70_000), QUICK).await.unwrap();
        assert_eq!(settled(&mut within).await.0, [last]);
        let mut reader = journal.tail_from_now(QUICK).await.unwrap();
        while reader.at() == Position::START {
            reader.look().await.unwrap();
        }
        assert_eq!((reader.at(), place.number(holes).await), (position(last), 1));

        // Of any length: here somebody set AUTO_INCREMENT.
        place.run("alter table journal_event auto_increment = 5000000000").await;
        journal.append([fact("c", &[])]).await.unwrap();
        assert_eq!(settled(&mut tail(&journal).await).await.0, [1, last, 5_000_000_000]);
    }
}

/// Holds J6: also where a run is hardly longer, or hardly shorter, than what is filled number by number.
#[tokio::test]
async fn a_run_of_any_length_is_passed_without_an_error() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut reader = tail(&journal).await;
        let (mut passed, mut all, mut last) = (Vec::new(), Vec::new(), 0);
        for length in [1, 999, 1_000, 1_001, 1_002, 2_001] {
            last += length + 1;
            place.run(&format!("alter table journal_event auto_increment = {last}")).await;
            journal.append([fact("a", &[])]).await.unwrap();
            all.push(last);
            passed.extend(settled(&mut reader).await.0);
            assert_eq!(passed, all, "after {length} numbers");
            let mut from_now = journal.tail_from_now(QUICK).await.unwrap();
            while from_now.at() < position(last) {
                from_now.look().await.unwrap();
            }
            assert_eq!(settled(&mut tail(&journal).await).await.0, all);
        }
    }
}

/// Holds J6: who has a number in the middle of such a run is waited for, be it prepared.
#[tokio::test]
async fn an_open_append_in_a_long_rolled_back_run_is_waited_for() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut import = place.conn().await;
        burn(&mut import, 50_000).await;
        let mut slow = committed(&place).await;
        run(&mut slow, "begin").await;
        let low = journal.append_in(&mut slow, [fact("slow", &[])], None).await.unwrap();
        let mut prepared = committed(&place).await;
        let name = format!("'{}'", place.database);
        run(&mut prepared, &format!("xa start {name}")).await;
        journal.append_in(&mut prepared, [fact("prepared", &[])], None).await.unwrap();
        run(&mut prepared, &format!("xa end {name}; xa prepare {name}")).await;
        burn(&mut import, 50_000).await;
        let last = journal.append([fact("last", &[])]).await.unwrap()[0].position.get();

        let mut reader = tail(&journal).await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!((passed.len(), batch.gap.unwrap().0), (0, low[0].position));
        assert_eq!(place.number("select count(*) from journal_hole").await, 1);
        run(&mut slow, "commit").await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!(passed, [low[0].position.get()]);
        assert_eq!(batch.gap.unwrap().0, low[0].position.next());
        run(&mut prepared, &format!("xa rollback {name}")).await;
        assert_eq!(settled(&mut reader).await.0, [last]);
    }
}

/// Above READ COMMITTED the server keeps the place locked where an append looked, as if it were in the
/// run: it is waited for, and named.
#[tokio::test]
async fn a_long_run_waits_for_open_appends_above_read_committed_and_names_them() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    burn(&mut place.conn().await, 50_000).await;
    let mut slow = open_append(&journal, &place).await;
    let mut reader = tail(&journal).await;
    let last = journal.append([fact("last", &[])]).await.unwrap()[0].position.get();
    let (passed, batch) = settled(&mut reader).await;
    assert_eq!((passed.len(), batch.gap.unwrap().0, batch.waits_for.len()), (0, position(1), 1));
    run(&mut slow, "rollback").await;
    assert_eq!(settled(&mut reader).await.0, [last]);
}

/// Holds J6: whoever took numbers that were closed before it had rows takes others, in a transaction of
/// its own and in the caller's, at whatever isolation.
#[tokio::test]
async fn an_append_whose_numbers_were_closed_takes_others() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        journal.append([fact("a", &[])]).await.unwrap();
        // As if it had taken them before: what is asked is whether they are closed, not since when.
        place.run("insert into journal_hole values (4, 2, utc_timestamp(6))").await;
        let two = [fact("b", &["x=1"]), fact("c", &["x=1"])];
        let receipts = journal.append(two).await.unwrap();
        assert_eq!(receipts.iter().map(|r| r.position.get()).collect::<Vec<_>>(), [6, 7]);
        assert_eq!(place.number("select count(*) from journal_tag").await, 2);

        let mut conn = place.conn().await;
        run(&mut conn, "begin; select count(*) from journal_hole").await;
        place.run("insert into journal_hole values (9, 8, utc_timestamp(6))").await;
        journal.append_in(&mut conn, [fact("d", &["x=1"])], None).await.unwrap();
        run(&mut conn, "commit").await;
        assert_eq!(settled(&mut tail(&journal).await).await.0, [1, 6, 7, 10]);
    }
}

/// From now on: what is open is waited for, what was there is not seen, what comes is.
#[tokio::test]
async fn a_tail_from_now_begins_where_all_is_decided() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        journal.append([fact("old", &[])]).await.unwrap();
        let mut slow = open_append(&journal, &place).await;
        journal.append([fact("old too", &[])]).await.unwrap();
        let mut reader = journal.tail_from_now(QUICK).await.unwrap();
        for _ in 0..3 {
            assert!(reader.look().await.unwrap().rows.is_empty());
            assert_eq!(reader.at(), Position::START, "nothing is decided yet");
        }
        run(&mut slow, "commit").await;
        while reader.at() == Position::START {
            assert!(reader.look().await.unwrap().rows.is_empty());
        }
        assert_eq!(reader.at(), position(3));
        journal.append([fact("new", &[])]).await.unwrap();
        assert_eq!(settled(&mut reader).await.0, [4]);
    }
}

/// The way to where now is begins where the last one ended.
#[tokio::test]
async fn the_floor_rises_with_tails_that_know_it() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let floor = async || place.number("select position from journal_floor").await;
    for _ in 0..11 {
        journal.append((0..1_000).map(|_| fact("a", &[]))).await.unwrap();
    }
    let mut late = journal.tail(position(5), QUICK).await.unwrap();
    assert_eq!(settled(&mut late).await.0.len(), 10_995);
    assert_eq!(floor().await, 0, "what is below 5 it does not know");
    let mut reader = journal.tail_from_now(QUICK).await.unwrap();
    while reader.at() == Position::START {
        reader.look().await.unwrap();
    }
    assert_eq!((reader.at(), floor().await), (position(11_000), 11_000));
    place.run("delete from journal_event where position < 9000").await;
    let mut again = journal.tail_from_now(QUICK).await.unwrap();
    while again.at() == Position::START {
        again.look().await.unwrap();
    }
    assert_eq!(again.at(), position(11_000), "nobody looked below the floor");
}

/// A row that is no fact any more has its place in the order, and does not stop the others.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_passed_on_as_such() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    journal.append([fact("a", &[]), fact("b", &[]), fact("c", &[])]).await.unwrap();
    place.run("update journal_event set tags = '[\"=\"]' where position = 2").await;
    let batch = tail(&journal).await.look().await.unwrap();
    let readable: Vec<_> = batch.rows.iter().map(|row| row.recorded.is_ok()).collect();
    assert_eq!(readable, [true, false, true]);
    assert_eq!(positions(&batch), [1, 2, 3]);
}

/// Several tails at the same gap: one makes the void, and all of them pass it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn tails_at_the_same_gap_do_not_stop_one_another() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        let mut undone = place.conn().await;
        run(&mut undone, "begin").await;
        let facts = (0..5).map(|_| fact("undone", &[]));
        journal.append_in(&mut undone, facts, None).await.unwrap();
        journal.append([fact("b", &[])]).await.unwrap();
        let mut readers = Vec::new();
        for _ in 0..4 {
            let mut reader = tail(&journal).await;
            settled(&mut reader).await;
            readers.push(tokio::spawn(async move { positions(&reader.next().await.unwrap()) }));
        }
        eventually("them to wait", async || {
            tokio::time::sleep(Duration::from_millis(150)).await;
            !journal.holders().await.unwrap().is_empty()
        })
        .await;
        run(&mut undone, "rollback").await;
        for reader in readers {
            assert_eq!(reader.await.unwrap(), [6]);
        }
    }
}

/// A tail whose caller did not wait for a look goes on with it.
#[tokio::test]
async fn a_look_that_was_given_up_is_not_lost() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let mut slow = open_append(&journal, &place).await;
    journal.append([fact("b", &[])]).await.unwrap();
    let mut reader = tail(&journal).await;
    let soon = Duration::from_millis(20);
    for _ in 0..5 {
        assert!(tokio::time::timeout(soon, reader.next()).await.is_err());
    }
    run(&mut slow, "commit").await;
    assert_eq!(settled(&mut reader).await.0, [1, 2]);
}
