//! A journal in partitions: made ahead, taken out when everybody has passed them, and nothing lost.

use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use sendoff_core::journal::retain::{RangeName, Ranges};
use sendoff_core::journal::{Position, Query};
use sendoff_core::{Delivery, Ident};
use sendoff_engine::WhySkipped;
use sendoff_engine::journal::retain::{
    Fate, JournalMaintainer, Keeping, RangeSession, RangeTable, RetainJournalStore, RetainOptions,
    RetainReport, Retained,
};
use sendoff_engine::journal::{AppendError, TailOptions};
use sendoff_engine::store::{Dropped, StoreError};
use sendoff_postgres::{
    Doorbell, JournalLayout, JournalOptions, PostgresJournal, PostgresOptions,
    journal_migration_sql,
};
use sendoff_testkit::history::{Expectations, History, check};
use sendoff_testkit::wait::{eventually, within};
use tokio_util::sync::CancellationToken;

use super::{Log, fact, journal, journal_with, options, partitioned, position, ranges, tagged};
use crate::place::Place;

pub(super) fn keeping(size: u64, last: Option<u64>) -> RetainOptions {
    RetainOptions {
        keep_last: last,
        ranges: ranges(size),
        lock_wait: Duration::from_millis(50),
        ..RetainOptions::default()
    }
}

pub(super) fn maintainer(journal: &Log, options: RetainOptions) -> JournalMaintainer {
    JournalMaintainer::new(Arc::new(journal.store().clone()), options).unwrap()
}

async fn pass(journal: &Log, options: RetainOptions) -> RetainReport {
    match maintainer(journal, options).run_once().await.unwrap() {
        Retained::Here(report) => report,
        Retained::Elsewhere => panic!("nobody else is at work"),
    }
}

async fn session(journal: &Log) -> Box<dyn RangeSession> {
    match journal.store().keeping().await.unwrap() {
        Keeping::Ranges(session) => session,
        other => panic!("{other:?}"),
    }
}

async fn append(journal: &Log, count: usize) {
    for _ in 0..count {
        journal.append([fact("t", &["w=1", "v=2"])]).await.unwrap();
    }
}

async fn in_table(place: &Place, table: &str) -> i64 {
    place.number(&format!("select count(*) from {table}")).await
}

/// The names of all tables of this place that begin like this.
async fn tables(place: &Place, begin: &str) -> Vec<String> {
    let query = "select relname::text from pg_class where relnamespace = $1::text::regnamespace
                    and relkind = 'r' and relname like $2 order by length(relname), relname";
    let rows = place.client().await.query(query, &[&place.schema, &format!("{begin}%")]).await;
    rows.unwrap().iter().map(|row| row.get(0)).collect()
}

fn name(text: &str) -> RangeName {
    text.parse().unwrap()
}

#[tokio::test]
async fn partitions_are_made_ahead_and_facts_find_theirs() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    let made = ["journal_event_p1", "journal_event_p11", "journal_event_p21", "journal_event_pmax"];
    let mut there = tables(&place, "journal_event_p").await;
    there.sort();
    assert_eq!(there, made);
    append(&journal, 15).await;
    assert_eq!(in_table(&place, "journal_event_p1").await, 10);
    assert_eq!(in_table(&place, "journal_event_p11").await, 5);
    assert_eq!(in_table(&place, "journal_tag_p11").await, 10);
    assert_eq!(in_table(&place, "journal_id").await, 15);

    let report = pass(&journal, keeping(10, None)).await;
    let again = [(RangeTable::Facts, name("p31")), (RangeTable::Tags, name("p31"))];
    assert_eq!((&*report.made, report.in_tail), (&again[..], None));
    assert!(pass(&journal, keeping(10, None)).await.made.is_empty());
    journal.store().migrate().await.unwrap();
    assert_eq!(tables(&place, "journal_event_p").await.len(), 5);
}

/// Whoever maintains too late moves them: found before, meanwhile and afterwards.
#[tokio::test]
async fn facts_of_the_tail_move_into_partitions_of_their_own() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    append(&journal, 250).await;
    assert_eq!(in_table(&place, "journal_event_pmax").await, 220);
    let dry = maintainer(&journal, keeping(1_000, None)).dry_run(1).await.unwrap();
    let Retained::Here(dry) = dry else { panic!("{dry:?}") };
    assert_eq!(dry.in_tail, Some(position(31)), "and it is said");

    let known = journal.read(Query::all(), position(99));
    let known = futures_util::TryStreamExt::try_collect::<Vec<_>>(known).await.unwrap();
    let report = pass(&journal, keeping(1_000, None)).await;
    assert_eq!((report.moved, report.in_tail), (3 * 220, None), "each with its two tags");
    // No more at once than may move.
    let names: Vec<_> = report.made.iter().map(|(_, name)| name.to_string()).collect();
    assert_eq!(names[..4], ["p31", "p131", "p231", "p331"]);
    assert_eq!(in_table(&place, "journal_event_pmax").await, 0);
    assert_eq!(in_table(&place, "journal_tag_pmax").await, 0);
    let found = journal.read(tagged("w=1"), position(99));
    let found = futures_util::TryStreamExt::try_collect::<Vec<_>>(found).await.unwrap();
    assert_eq!(found.len(), 151);
    let again = journal.append([known[0].fact.clone()]).await.unwrap();
    assert_eq!((again[0].position, again[0].fresh), (position(100), false));
    append(&journal, 1).await;
    assert_eq!(in_table(&place, "journal_event_pmax").await, 0);
}

/// Holds J1: the same append at once, over boundaries of partitions, is there once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_same_facts_twice_at_once_are_there_once_over_boundaries() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 2)).await;
    for round in 0..30 {
        let facts = [fact("a", &["w=1"]), fact("b", &[]), fact("c", &["w=2"])];
        let both = tokio::join!(journal.append(facts.clone()), journal.append(facts.clone()));
        let (first, second) = (both.0.unwrap(), both.1.unwrap());
        let places = |receipts: &[sendoff_engine::journal::Receipt]| {
            receipts.iter().map(|receipt| receipt.position).collect::<Vec<_>>()
        };
        assert_eq!(places(&first), places(&second), "round {round}");
        assert_ne!(first[0].fresh, second[0].fresh);
        // One of them known and one not: neither is appended.
        let mixed = journal.append([facts[0].clone(), fact("d", &[])]).await;
        assert!(matches!(mixed, Err(AppendError::IdTaken)), "{mixed:?}");
        if round % 10 == 5 {
            pass(&journal, keeping(2, None)).await;
        }
    }
    assert_eq!(in_table(&place, "journal_event").await, 90);
    assert_eq!(in_table(&place, "journal_id").await, 90);
}

#[tokio::test]
async fn what_is_dropped_takes_its_ids_and_tags_along() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    append(&journal, 35).await;
    let report = pass(&journal, keeping(10, Some(10))).await;
    assert_eq!(report.dropped, [name("p1"), name("p11")]);
    assert_eq!(report.release.up_to, position(25), "whole partitions only");
    assert_eq!(in_table(&place, "journal_event").await, 15);
    assert_eq!(in_table(&place, "journal_id").await, 15);
    assert_eq!(in_table(&place, "journal_tag").await, 30);
    let left = ["journal_tag_p21", "journal_tag_p31", "journal_tag_p41", "journal_tag_p51"];
    let there = tables(&place, "journal_tag_p").await;
    assert_eq!(there[..4], left);
    assert!(pass(&journal, keeping(10, Some(10))).await.dropped.is_empty());
}

/// A clock that was wrong for a while leads the search by time astray; the partition itself does not lie.
#[tokio::test]
async fn a_young_fact_among_old_positions_keeps_its_partition() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    append(&journal, 40).await;
    place
        .run(
            "update journal_event set recorded_at = now() - interval '2 hours' where position <> 3",
        )
        .await;
    let hour = Some(Duration::from_secs(3_600));
    let report = pass(&journal, RetainOptions { keep: hour, ..keeping(10, None) }).await;
    assert_eq!(report.skipped.len(), 1, "{report:?}");
    assert_eq!((report.skipped[0].name, report.skipped[0].why), (name("p1"), WhySkipped::Young));
    assert_eq!(tables(&place, "journal_event_p").await[0], "journal_event_p1");
    assert!(report.dropped.contains(&name("p11")), "{report:?}");
}

#[tokio::test]
async fn an_archive_keeps_the_facts_readable_in_a_table_of_their_own() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    append(&journal, 25).await;
    let archive = RetainOptions { fate: Fate::Archive, ..keeping(10, Some(5)) };
    let report = pass(&journal, archive.clone()).await;
    let table = |name: &str| format!("\"{}\".{name}", place.schema);
    assert_eq!(report.archived, [table("journal_archive_p1"), table("journal_archive_p11")]);
    assert!(report.dropped.is_empty());
    let readable = "select count(*) from journal_archive_p1
                     where position <= 10 and 'w=1' = any (tags) and payload = '{}'";
    assert_eq!(place.number(readable).await, 10);
    assert_eq!(in_table(&place, "journal_event").await, 5);
    assert_eq!(in_table(&place, "journal_id").await, 5);
    // It is out of everybody's way, and stays.
    let again = pass(&journal, archive).await;
    assert!(again.archived.is_empty());
    assert_eq!(tables(&place, "journal_archive").await.len(), 2);

    // Rows cannot be archived, and nothing is deleted instead.
    let elsewhere = Place::new();
    let flat = super::journal(&elsewhere).await;
    append(&flat, 2).await;
    let refused = RetainOptions { fate: Fate::Archive, ..keeping(10, Some(0)) };
    let error = maintainer(&flat, refused).run_once().await.unwrap_err();
    assert!(matches!(error.source, StoreError::Misconfigured { .. }), "{error:?}");
    assert_eq!(in_table(&elsewhere, "journal_event").await, 2);
}

/// What a maintainer that was cut off left half done, the next one finishes.
#[tokio::test]
async fn a_partition_that_was_only_taken_out_is_finished_by_the_next_pass() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    append(&journal, 25).await;
    let mut cut_off = session(&journal).await;
    let wait = Duration::from_secs(5);
    for (partition, fate) in [("p1", Fate::Drop), ("p11", Fate::Archive)] {
        let taken = cut_off.take_out(RangeTable::Facts, name(partition), fate, wait).await;
        assert_eq!(taken.unwrap(), Dropped::Gone);
    }
    drop(cut_off);
    assert_eq!(tables(&place, "journal_dropping").await, ["journal_dropping_p1"]);
    assert_eq!(in_table(&place, "journal_id").await, 25);
    // Its session is gone when the server has noticed.
    eventually("the lock to be free", async || {
        !matches!(journal.store().keeping().await.unwrap(), Keeping::Elsewhere)
    })
    .await;
    let report = loop {
        match maintainer(&journal, keeping(10, Some(25))).run_once().await.unwrap() {
            Retained::Here(report) => break report,
            Retained::Elsewhere => tokio::task::yield_now().await,
        }
    };
    assert_eq!((report.dropped.len(), report.archived.len()), (1, 1), "{report:?}");
    assert_eq!(tables(&place, "journal_archive").await, ["journal_archive_p11"]);
    assert_eq!(in_table(&place, "journal_id").await, 5);
}

/// A cursor that was put back after the decision is respected.
#[tokio::test]
async fn whoever_was_put_back_meanwhile_keeps_what_he_needs() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    append(&journal, 25).await;
    place
        .run("insert into journal_cursor (topic, publisher, last_position) values ('t', 'p', 9)")
        .await;
    let mut session = session(&journal).await;
    let mut take = async |partition: &str| {
        let wait = Duration::from_secs(5);
        session.take_out(RangeTable::Facts, name(partition), Fate::Drop, wait).await.unwrap()
    };
    assert_eq!(take("p1").await, Dropped::Pending);
    place.run("update journal_cursor set last_position = 10").await;
    place
        .run("insert into journal_parked (topic, publisher, position) values ('t', 'p', 10)")
        .await;
    assert_eq!(take("p1").await, Dropped::Pending);
    place.run("delete from journal_parked").await;
    assert_eq!(take("p1").await, Dropped::Gone);
    assert_eq!(take("p11").await, Dropped::Pending);
    assert_eq!(
        WhySkipped::Followed.to_string(),
        "somebody who follows the journal has not passed it"
    );
}

#[tokio::test]
async fn of_two_maintainers_one_works_and_the_other_says_so() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    let other = journal_with(&place, options(&place)).await;
    let working = session(&journal).await;
    let second = maintainer(&other, keeping(10, Some(0))).run_once().await.unwrap();
    assert_eq!(second, Retained::Elsewhere);
    working.release().await.unwrap();
    pass(&other, keeping(10, Some(0))).await;
}

/// A maintainer that froze gives its place up.
#[tokio::test]
async fn a_silent_maintainer_keeps_no_other_from_its_work() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 10)).await;
    let other = journal_with(&place, options(&place)).await;
    let frozen = session(&journal).await;
    within(Duration::from_secs(60), "the place", async || {
        let second = maintainer(&other, keeping(10, Some(0))).run_once().await.unwrap();
        second != Retained::Elsewhere
    })
    .await;
    assert!(frozen.release().await.is_err(), "it was ended");
}

/// An append that is open keeps nobody from making partitions ahead, keeps what it may have written
/// to, and waits for nobody.
#[tokio::test]
async fn an_open_append_is_not_waited_for_where_it_does_not_matter() {
    let place = Place::new();
    let journal = journal_with(&place, partitioned(&place, 1_000_000)).await;
    append(&journal, 3).await;
    let mut open = place.client().await;
    open.batch_execute("begin").await.unwrap();
    journal.append_in(&mut open, [fact("open", &["w=1"])], None).await.unwrap();

    let ahead = RetainOptions {
        ranges: Ranges { ahead: 5, ..ranges(1_000_000) },
        ..keeping(1_000_000, Some(0))
    };
    let report = pass(&journal, ahead).await;
    assert_eq!((report.made.len(), report.skipped.len()), (6, 0), "{report:?}");
    journal.append_in(&mut open, [fact("open", &["w=1"])], None).await.unwrap();

    let mut session = session(&journal).await;
    let began = Instant::now();
    let wait = Duration::from_millis(100);
    let taken = session.take_out(RangeTable::Facts, name("p1"), Fate::Drop, wait).await.unwrap();
    assert_eq!(taken, Dropped::Busy);
    assert!(began.elapsed() < Duration::from_secs(5));
    open.batch_execute("commit").await.unwrap();
    assert_eq!(in_table(&place, "journal_event").await, 5);
}

/// Holds J6: what is appended, by whomever and however late it commits, reaches whoever follows, while
/// partitions come and go; and no append waits for longer than maintenance may wait for its locks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_partitions_come_and_go() {
    under_load(partitioned, Duration::from_millis(300)).await;
}

/// The same where facts are deleted one by one.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_lost_while_facts_are_deleted() {
    under_load(|place, _| options(place), Duration::from_millis(300)).await;
}

const SIZE: u64 = 50;
const WRITERS: u64 = 6;
const LASTS: Duration = Duration::from_secs(6);
/// A machine that has other things to do.
const SLACK: Duration = Duration::from_millis(700);

async fn under_load(options: impl Fn(&Place, u64) -> JournalOptions, lock_wait: Duration) {
    let place = Place::new();
    let journal = journal_with(&place, options(&place, SIZE)).await;
    place.run("insert into journal_cursor (topic, publisher) values ('t', 'p')").await;
    let (history, stop) = (Arc::new(History::new()), CancellationToken::new());
    let (longest, committed) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicU64::new(0)));
    let mut writers = Vec::new();
    for writer in 0..WRITERS {
        let (journal, history, stop) = (journal.clone(), Arc::clone(&history), stop.clone());
        let (longest, committed) = (Arc::clone(&longest), Arc::clone(&committed));
        let mut client = place.client().await;
        writers.push(tokio::spawn(async move {
            let mut round = writer;
            while !stop.is_cancelled() {
                round += 1;
                let tag = format!("w={writer}");
                let facts: Vec<_> = (0..=round % 3).map(|_| fact("t", &[&tag])).collect();
                client.batch_execute("begin").await.unwrap();
                let began = Instant::now();
                journal.append_in(&mut client, facts.clone(), None).await.unwrap();
                let took = u64::try_from(began.elapsed().as_millis()).unwrap();
                longest.fetch_max(took, Ordering::Relaxed);
                tokio::time::sleep(Duration::from_millis(round % 7)).await;
                if round % 5 == 0 {
                    client.batch_execute("rollback").await.unwrap();
                    facts.iter().for_each(|fact| history.rolled_back(fact.event()));
                } else {
                    client.batch_execute("commit").await.unwrap();
                    facts.iter().for_each(|fact| history.committed(fact.event()));
                    committed.fetch_add(facts.len() as u64, Ordering::Relaxed);
                }
            }
        }));
    }
    let delivered = Arc::new(AtomicU64::new(0));
    let reader = tokio::spawn(follow(
        journal.clone(),
        place.client().await,
        place.schema.clone(),
        Arc::clone(&history),
        Arc::clone(&delivered),
    ));
    let keeping = RetainOptions {
        check_every: Duration::from_millis(20),
        lock_wait,
        batch: 100,
        ..keeping(SIZE, Some(SIZE))
    };
    let totals = Arc::new(std::sync::Mutex::new((0_u64, 0_usize, 0_u64)));
    let maintainer = maintainer(&journal, keeping);
    let kept = tokio::spawn({
        let (stop, totals) = (stop.clone(), Arc::clone(&totals));
        async move {
            while !stop.is_cancelled() {
                if let Retained::Here(report) = maintainer.run_once().await.unwrap() {
                    let mut totals = totals.lock().unwrap();
                    totals.0 += report.facts;
                    totals.1 += report.dropped.len();
                    totals.2 += report.moved;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        }
    });
    tokio::time::sleep(LASTS).await;
    stop.cancel();
    for writer in writers {
        writer.await.unwrap();
    }
    kept.await.unwrap();
    let all = committed.load(Ordering::Relaxed);
    within(Duration::from_secs(30), "all that was committed", async || {
        delivered.load(Ordering::Relaxed) >= all
    })
    .await;
    reader.abort();
    let verdict = check(&history, &Expectations::default());
    assert!(verdict.is_clean(), "{verdict}");
    let longest = Duration::from_millis(longest.load(Ordering::Relaxed));
    let (facts, dropped, moved) = *totals.lock().unwrap();
    let _ = writeln!(
        std::io::stdout(),
        "{all} committed and delivered, {} rolled back; {facts} facts and {dropped} partitions gone, \
         {moved} rows moved; longest append {longest:?}",
        verdict.rolled_back
    );
    assert!(longest <= lock_wait + SLACK, "{longest:?}");
    assert!(facts > 0 || dropped > 5, "{facts} facts and {dropped} partitions gone");
    assert!(in_table(&place, "journal_event").await < i64::try_from(all).unwrap());
}

/// Delivers everything in order, and moves the cursor past it, as a publisher would.
async fn follow(
    journal: Log,
    client: tokio_postgres::Client,
    schema: String,
    history: Arc<History>,
    delivered: Arc<AtomicU64>,
) {
    let quick = TailOptions {
        batch: 100,
        batch_bytes: sendoff_core::limits::READ_BYTES,
        interval: Duration::from_millis(5),
        gap_interval: Duration::from_millis(2),
    };
    let mut tail = journal.tail(Position::START, quick).await.unwrap();
    let mut last = Position::START;
    loop {
        let batch = tail.next().await.unwrap();
        for row in &batch.rows {
            assert!(row.position > last, "in the order of positions");
            last = row.position;
            let delivery = Delivery::of_fact(&Arc::new(row.recorded.as_ref().unwrap().clone()), 1);
            history.delivery_started("tail", &delivery).finished(true);
        }
        let up_to = batch.up_to;
        let advance = format!("update {schema}.journal_cursor set last_position = {up_to}");
        client.batch_execute(&advance).await.unwrap();
        delivered.fetch_add(batch.rows.len() as u64, Ordering::Relaxed);
    }
}

/// What cannot be kept from here says why, and what to do.
#[tokio::test]
async fn what_cannot_work_is_refused_with_its_remedy() {
    let place = Place::new();
    let flat = journal(&place).await;
    let store = PostgresJournal::connect_with(&place.url, partitioned(&place, 10)).await.unwrap();
    let refused = store.migrate().await.unwrap_err().to_string();
    assert!(refused.contains("not partitioned"), "{refused}");
    assert!(matches!(flat.store().keeping().await.unwrap(), Keeping::Rows));

    let long = Ident::new("p".repeat(26)).unwrap();
    let server = PostgresOptions { prefix: Some(long), ..place.options() };
    let long = JournalOptions { server, ..partitioned(&place, 10) };
    let refused = journal_migration_sql(&long).unwrap_err().to_string();
    assert!(refused.contains("25 at most"), "{refused}");

    // Its tables are made, and every row goes to the tails until a maintainer comes.
    let pooled = Place::new();
    let server = PostgresOptions { doorbell: Doorbell::Off, ..pooled.options() };
    let layout = JournalLayout::Partitioned(ranges(10));
    let unkept = journal_with(&pooled, JournalOptions { server, layout, ..options(&pooled) }).await;
    append(&unkept, 3).await;
    let refused = unkept.store().keeping().await.unwrap_err().to_string();
    assert!(refused.contains("connect directly"), "{refused}");
    let direct = journal_with(&pooled, options(&pooled)).await;
    assert_eq!(pass(&direct, keeping(10, None)).await.moved, 9);

    for (wrong, field) in [
        (RetainOptions { batch: 0, ..keeping(10, None) }, "batch"),
        (RetainOptions { lock_wait: Duration::ZERO, ..keeping(10, None) }, "lock_wait"),
        (
            RetainOptions { ranges: Ranges { ahead: 100, ..ranges(10) }, ..keeping(10, None) },
            "ahead",
        ),
    ] {
        let store = Arc::new(flat.store().clone());
        let refused = JournalMaintainer::new(store, wrong).unwrap_err().to_string();
        assert!(refused.contains(field), "{refused}");
    }
}

/// The longest names there can be.
#[tokio::test]
async fn partitions_have_room_for_their_names() {
    let place = Place::new();
    let server =
        PostgresOptions { prefix: Some(Ident::new("p".repeat(25)).unwrap()), ..place.options() };
    let journal = journal_with(&place, JournalOptions { server, ..partitioned(&place, 10) }).await;
    let prefix = "p".repeat(25);
    place
        .run(&format!("alter sequence {prefix}journal_position restart 9000000000000000001"))
        .await;
    append(&journal, 1).await;
    let report = pass(&journal, keeping(10, None)).await;
    assert!(report.skipped.is_empty() && report.moved == 3, "{report:?}");
    append(&journal, 24).await;
    let archive = RetainOptions { fate: Fate::Archive, ..keeping(10, Some(1)) };
    let report = pass(&journal, archive).await;
    let last = report.archived.last().unwrap();
    assert!(last.ends_with("journal_archive_p9000000000000000011"), "{last}");
    assert_eq!(in_table(&place, &format!("{prefix}journal_event")).await, 5);
}
