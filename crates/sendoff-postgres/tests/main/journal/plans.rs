//! What an append, a decision and a look cost: as much as what they are about.

use std::sync::Arc;

use sendoff_core::journal::retain::Ranges;
use sendoff_core::journal::{Item, Query};
use sendoff_engine::journal::retain::{JournalMaintainer, RetainOptions};
use sendoff_engine::journal::{JournalStore, Page as ReadPage};
use sendoff_engine::store::frame::text;
use tokio_postgres::Client;

use super::{Log, fact, journal, journal_with, partitioned, position, ranges, tag, tagged};
use crate::place::Place;

/// Ten thousand facts, of which every one has a tag that all have.
const CROWD: &str = "
    insert into journal_event (event_id, occurred_at, recorded_at, event_type, content_type, tags,
                               payload)
    select gen_random_uuid(), now(), now(), 't' || n % 5, 'text/plain',
           array['all=1', 'w=' || n % 1000], 'x'
      from generate_series(1, 10000) n;
    insert into journal_tag select t, position from journal_event, unnest(tags) t";

/// Rows that this transaction's scans came by, and how many scans read a whole table.
async fn touched(client: &Client, schema: &str) -> (i64, i64) {
    let rows = "select (sum(seq_scan)::bigint, sum(idx_tup_fetch + seq_tup_read)::bigint)::text,
                       coalesce(sum(seq_scan), 0)::bigint,
                       coalesce(sum(idx_tup_fetch + seq_tup_read), 0)::bigint
                  from pg_stat_xact_user_tables where schemaname = $1";
    let row = client.query_one(rows, &[&schema]).await.unwrap();
    (row.get(1), row.get(2))
}

/// In partitions of a thousand, all of which are there.
async fn crowd_in_partitions(place: &Place) -> Log {
    let journal = journal_with(place, partitioned(place, 1_000)).await;
    place.run(CROWD).await;
    let options = RetainOptions {
        ranges: Ranges { most_moved: ranges(1_000).size, ..ranges(1_000) },
        ..RetainOptions::default()
    };
    let maintainer = JournalMaintainer::new(Arc::new(journal.store().clone()), options).unwrap();
    maintainer.run_once().await.unwrap();
    let parts = "select count(*) from pg_inherits where inhparent = 'journal_event'::regclass";
    assert_eq!(place.number(parts).await, 14, "ten, the next one, two ahead, and the tail");
    assert_eq!(place.number("select count(*) from journal_event_pmax").await, 0);
    journal
}

/// A statement of a file, as it is in the schema that is searched.
fn statement(name: &str, file: &str) -> String {
    text(file, &[name]).replace("sendoff.", "")
}

#[tokio::test]
async fn an_append_never_reads_what_it_is_not_about() {
    let place = Place::new();
    let journal = journal(&place).await;
    place.run(CROWD).await;
    append_reads_little(&place, &journal).await;
}

#[tokio::test]
async fn nor_does_one_in_partitions() {
    let place = Place::new();
    let journal = crowd_in_partitions(&place).await;
    append_reads_little(&place, &journal).await;
}

/// A client whose plans are made once for all, along indexes.
async fn planning(place: &Place) -> tokio_postgres::Client {
    let client = place.client().await;
    client.batch_execute(&format!("set search_path = {}", place.schema)).await.unwrap();
    let settings = "set plan_cache_mode = force_generic_plan; set enable_seqscan = off;
        set enable_bitmapscan = off; set enable_hashjoin = off; set enable_mergejoin = off";
    client.batch_execute(settings).await.unwrap();
    client
}

/// A look at the end, a fact by its position and a recent decision go to the partitions that they
/// concern; the others are not even opened.
#[tokio::test]
async fn only_the_partitions_are_read_that_a_look_is_about() {
    let place = Place::new();
    let _journal = crowd_in_partitions(&place).await;
    let client = planning(&place).await;
    let read = statement("read", include_str!("../../../sql/journal/read.sql"));
    client.batch_execute(&format!("prepare r as {read}")).await.unwrap();
    let tail = statement("tail", include_str!("../../../sql/journal/tail.sql"));
    client.batch_execute(&format!("prepare t as {tail}")).await.unwrap();
    for (statement, old) in [
        ("t(9500, 100, 1000000, 9223372036854775807)", false),
        ("r('{1}', array['{w=5}'], array[null], 9500, 10000, 100, 1000000)", false),
        ("r('{2}', array[null], array['{t1}'], 9500, 10000, 100, 1000000)", false),
        ("r('{3}', array[null], array[null], 9500, 10000, 100, 1000000)", false),
        ("r('{1}', array['{w=5}'], array[null], 0, 10000, 100, 1000000)", true),
    ] {
        let explain = format!("explain (analyze, costs off, timing off) execute {statement}");
        let plan = explained(&client, &explain).await;
        let read = |partition: &str| {
            plan.iter().any(|line| line.contains(partition) && !line.contains("never executed"))
        };
        let shown = plan.join("\n");
        let scanned = shown.contains("Seq Scan on journal_event")
            || shown.contains("Seq Scan on journal_tag");
        assert!(read("_p9001") && !scanned, "{statement}\n{shown}");
        assert_eq!(read("_p2001"), old, "{statement}\n{shown}");
    }
}

async fn explained(client: &Client, explain: &str) -> Vec<String> {
    let answer = client.simple_query(explain).await.unwrap();
    let lines = answer.iter().filter_map(|message| match message {
        tokio_postgres::SimpleQueryMessage::Row(row) => row.get(0).map(str::to_owned),
        _ => None,
    });
    lines.collect()
}

/// In a session that nobody configured, on tables that nobody analysed.
async fn append_reads_little(place: &Place, journal: &Log) {
    let mut client = place.client().await;
    let recent = position(9_990);
    for condition in [
        None,
        Some(tagged("w=7").none_after(recent)),
        Some(tagged("all=1").none_after(position(10_000))),
        Some(Query::of(Item::any().tagged(tag("all=1")).tagged(tag("w=5"))).none_after(recent)),
        Some(Query::of(Item::any().tagged(tag("w=5")).of_type("t9")).none_after(position(0))),
        Some(Query::of_type("t9").none_after(position(0))),
        Some(Query::all().none_after(position(10_000))),
    ] {
        let mut tx = client.transaction().await.unwrap();
        let shown = format!("{condition:?}");
        journal.append_in(&mut tx, [fact("x", &["w=1"])], condition).await.unwrap();
        let (scans, rows) = touched(tx.client(), &place.schema).await;
        assert_eq!(scans, 0, "{shown}");
        assert!(rows <= 300, "{rows} rows for {shown}");
        tx.rollback().await.unwrap();
    }
}

/// A page is found by the rarest of the tags, and ends where it is full.
#[tokio::test]
async fn a_read_is_found_by_its_rarest_tag() {
    let place = Place::new();
    let journal = journal(&place).await;
    place.run(CROWD).await;
    let item = Item::any().tagged(tag("all=1")).tagged(tag("w=5"));
    let page = ReadPage { after: position(0), up_to: position(10_000), limit: 100, bytes: 1 << 20 };
    let found = journal.store().read(&Query::of(item), page).await.unwrap();
    assert_eq!(found.facts.len(), 10);
    let statement = statement("read", include_str!("../../../sql/journal/read.sql"));
    let client = planning(&place).await;
    client.batch_execute(&format!("prepare r as {statement}")).await.unwrap();
    let explain = "explain (analyze, costs off, timing off)
        execute r('{1}', array['{all=1,w=5}'], array[null], 0, 10000, 100, 1000000)";
    let plan = explained(&client, explain).await;
    let shown = plan.join("\n");
    assert!(!shown.contains("Seq Scan"), "{shown}");
    for line in &plan {
        let rows = line.split_once("actual rows=").and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        });
        assert!(rows.unwrap_or(0) <= 100, "{line}\n{shown}");
    }
}

/// However long a tag's history is, what came before its last closing is not looked at.
#[tokio::test]
async fn a_book_is_read_back_to_where_it_was_closed() {
    let place = Place::new();
    let _journal = journal(&place).await;
    place.run(CROWD).await;
    place.run("update journal_event set event_type = 'closed' where position = 9993").await;
    let client = planning(&place).await;
    let statement = statement("read_book", include_str!("../../../sql/journal/read_book.sql"));
    client.batch_execute(&format!("prepare r as {statement}")).await.unwrap();
    let explain = "explain (analyze, costs off, timing off)
        execute r('all=1', null, 0, 10000, 100, 1000, '{closed}')";
    let plan = explained(&client, explain).await;
    let shown = plan.join("\n");
    assert!(!shown.contains("Seq Scan"), "{shown}");
    assert!(plan[0].contains("actual rows=8"), "{shown}");
    for line in &plan {
        let rows = line.split_once("actual rows=").and_then(|(_, rest)| {
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse::<u64>().ok()
        });
        assert!(rows.unwrap_or(0) <= 8, "{line}\n{shown}");
    }
}
