//! `sendoff journal retain`, on real databases.

use sendoff::journal::Journal;
use sendoff::sqlite::SqliteJournal;
use serde_json::json;

use crate::journal::{Log, fact};
use crate::postgres::Place;
use crate::program::{number, report, run, stderr};

fn append(place: &Place, journal: &Log, count: usize) {
    place.block_on(async {
        for _ in 0..count {
            journal.append([fact("opened", "w1")]).await.unwrap();
        }
    });
}

/// The whole way of a journal in partitions, by the program alone.
#[test]
fn partitions_of_a_journal_are_made_dropped_and_archived_by_the_program() {
    let Some(place) = Place::new() else { return };
    let migrated = place.run(&["journal", "migrate", "--partitioned=10"]);
    assert!(migrated.status.success(), "{}", stderr(&migrated));
    let journal = crate::journal::journal(&place);
    append(&place, &journal, 35);
    place.sql(
        "insert into journal_cursor (topic, publisher, last_position, status)
         values ('wallets', 'kafka', 20, 'PAUSED'), ('wallets', 'log', 35, 'ACTIVE')",
    );
    let once = ["journal", "retain", "--once", "--json", "--size", "10", "--ahead", "2"];
    let once = [&once[..], &["--keep-last", "5"]].concat();
    let foretold = report(&place.run(&[&once[..], &["--dry-run"]].concat()));
    assert_eq!(place.number("select count(*) from journal_event"), 35);
    let done = place.run(&once);
    assert!(done.status.success(), "{}", stderr(&done));
    let summary = report(&done);
    assert_eq!(summary["dropped"], json!(["p1", "p11"]));
    assert_eq!(foretold["dropped"], summary["dropped"]);
    assert_eq!(summary["made"], json!(["p41", "p51"]));
    assert_eq!((number(&summary, "up_to"), number(&summary, "wanted")), (20, 30));
    let held = &summary["held_by"];
    assert_eq!(held.as_array().unwrap().len(), 1, "{held}");
    assert_eq!((&held[0]["publisher"], &held[0]["position"]), (&json!("kafka"), &json!(20)));
    assert_eq!(held[0]["why"], "wallets:kafka is PAUSED at position 20");
    assert_eq!(place.number("select count(*) from journal_event"), 15);

    place.sql("update journal_cursor set last_position = 35");
    let archive = ["journal", "retain", "--once", "--keep-last", "5", "--archive", "--size", "10"];
    let text = place.run(&archive);
    assert!(text.status.success(), "{}", stderr(&text));
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("up to position 30") && text.contains("journal_archive_p21"), "{text}");
    assert_eq!(place.number("select count(*) from journal_archive_p21"), 10);
}

/// Without partitions: in one table on PostgreSQL, and in a file.
#[test]
fn facts_are_deleted_by_the_program() {
    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    assert!(run(&["journal", "migrate", "--database-url", &url]).status.success());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = SqliteJournal::open(folder.path().join("shop.db")).await.unwrap();
        let journal = Journal::new(store);
        for _ in 0..12 {
            journal.append([fact("opened", "w1")]).await.unwrap();
        }
        journal.store().close().await;
    });
    let retain = ["journal", "retain", "--once", "--keep-last", "2", "--json"];
    let retain = [&retain[..], &["--database-url", &url]].concat();
    assert_eq!(number(&report(&run(&[&retain[..], &["--dry-run"]].concat())), "facts"), 10);
    assert_eq!(number(&report(&run(&retain)), "facts"), 10);
    let summary = report(&run(&retain));
    assert_eq!((number(&summary, "facts"), &summary["finished"]), (0, &json!(true)));

    let Some(place) = Place::new() else { return };
    let journal = crate::journal::journal(&place);
    append(&place, &journal, 12);
    let kept = place.run(&["journal", "retain", "--once", "--keep", "1d", "--json"]);
    assert_eq!(number(&report(&kept), "facts"), 0);
    let text = place.run(&["journal", "retain", "--once", "--keep-last", "2"]);
    let text = String::from_utf8(text.stdout).unwrap();
    assert!(text.contains("up to position 10") && text.contains("deleted 10 facts"), "{text}");
    assert_eq!(place.number("select count(*) from journal_tag"), 2);
}

#[test]
fn what_cannot_be_meant_is_refused() {
    let unbound = run(&["journal", "retain", "--once"]);
    assert_eq!(unbound.status.code(), Some(2));
    assert!(stderr(&unbound).contains("--keep"), "{}", stderr(&unbound));
    let both = run(&["journal", "retain", "--keep-all", "--keep", "1d"]);
    assert_eq!(both.status.code(), Some(2));

    let folder = tempfile::tempdir().unwrap();
    let url = format!("sqlite:{}", folder.path().join("shop.db").display());
    let missing = run(&["journal", "retain", "--keep", "1d", "--database-url", &url]);
    assert!(stderr(&missing).contains("sendoff journal migrate"), "{}", stderr(&missing));
    let no_partitions = ["journal", "migrate", "--partitioned", "--database-url", &url];
    let refused = run(&no_partitions);
    assert!(stderr(&refused).contains("SQLite"), "{}", stderr(&refused));
    assert!(run(&["journal", "migrate", "--database-url", &url]).status.success());
    let archive = ["journal", "retain", "--once", "--keep", "1d", "--archive"];
    let refused = run(&[&archive[..], &["--database-url", &url]].concat());
    assert_eq!(refused.status.code(), Some(2));
    assert!(stderr(&refused).contains("only partitions can be archived"), "{}", stderr(&refused));
}
