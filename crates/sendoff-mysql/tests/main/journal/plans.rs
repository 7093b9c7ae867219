//! What an append and a read cost: as much as what they are about.

use mysql_async::Conn;
use mysql_async::prelude::Queryable;
use sendoff_core::journal::{Item, Query};
use sendoff_engine::journal::{JournalStore, Page};

use super::{Log, committed, fact, journal, position, run, tag, tagged};
use crate::place::{MARIADB, MYSQL, Place};

/// Three thousand facts, of which every one has a tag that all have.
async fn crowd(journal: &Log) {
    for round in 0..3 {
        let facts = (0..1_000)
            .map(|n| fact(&format!("t{}", n % 5), &["all=1", &format!("w={}", n + 1_000 * round)]));
        journal.append(facts).await.unwrap();
    }
}

/// Rows that this session has come by.
async fn touched(conn: &mut Conn) -> i64 {
    let status = "show session status where variable_name like 'Handler_read%'";
    let counts: Vec<(String, i64)> = conn.query(status).await.unwrap();
    counts.iter().map(|(_, count)| count).sum()
}

/// On tables that nobody analysed.
#[tokio::test]
async fn an_append_never_reads_what_it_is_not_about() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        crowd(&journal).await;
        let mut conn = committed(&place).await;
        let recent = position(2_990);
        for condition in [
            None,
            Some(tagged("w=7").none_after(recent)),
            Some(tagged("all=1").none_after(position(3_000))),
            Some(Query::of(Item::any().tagged(tag("all=1")).tagged(tag("w=5"))).none_after(recent)),
            Some(Query::of(Item::any().tagged(tag("w=5")).of_type("t9")).none_after(position(0))),
            Some(Query::of_type("t9").none_after(position(0))),
            Some(Query::all().none_after(position(3_000))),
        ] {
            let shown = format!("{condition:?}");
            run(&mut conn, "begin").await;
            let before = touched(&mut conn).await;
            journal.append_in(&mut conn, [fact("x", &["w=1"])], condition).await.unwrap();
            let rows = touched(&mut conn).await - before;
            assert!(rows <= 400, "{rows} rows for {shown}");
            run(&mut conn, "rollback").await;
        }
    }
}

/// A page is found by the rarest of the tags, and is what the query means.
#[tokio::test]
async fn a_read_is_found_by_its_rarest_tag() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let journal = journal(&place).await;
        crowd(&journal).await;
        let item = Item::any().tagged(tag("all=1")).tagged(tag("w=2005")).of_type("t0");
        let query = Query::of(item.clone()).or(Query::of(item.tagged(tag("no=1"))));
        let page = Page { after: position(0), up_to: position(9_999), limit: 100, bytes: 1 << 20 };
        let found = journal.store().read(&query, page).await.unwrap();
        let found: Vec<_> = found.facts.iter().map(|fact| fact.position.get()).collect();
        assert_eq!(found, [2_006]);
    }
}
