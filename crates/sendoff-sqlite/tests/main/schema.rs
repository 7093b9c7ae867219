//! Migrating SQLite files, and names of tables.

use std::sync::{Arc, Barrier};

use sendoff_core::Ident;
use sendoff_engine::capture::{BeginBlocking, CommitBlocking};
use sendoff_engine::store::{Birth, ClaimStore, InspectStore, NewRow, StoreError};
use sendoff_sqlite::{
    SqliteJournal, SqliteOptions, SqliteStore, journal_migration_sql, journal_upgrade_sql,
    migration_sql, upgrade_sql,
};

use sendoff_testkit::readable;

use crate::outbox::{Outbox, by, due};

fn prefixed(prefix: &str) -> SqliteOptions {
    SqliteOptions { prefix: Some(Ident::new(prefix).unwrap()), ..Default::default() }
}

#[tokio::test]
async fn opening_again_changes_nothing_and_leaves_user_version_to_the_application() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    outbox.store.connect().unwrap().pragma_update(None, "user_version", 42).unwrap();
    let again = outbox.again().await;
    assert!(again.find(id).await.unwrap().is_some());
    let conn = again.connect().unwrap();
    let user_version: i64 =
        conn.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!(user_version, 42);
    let versions: i64 =
        conn.query_row("select count(*) from outbox_schema", [], |row| row.get(0)).unwrap();
    assert_eq!(versions, 1);
}

#[test]
fn stores_that_open_a_new_file_at_once_migrate_it_once() {
    for _ in 0..20 {
        let dir = tempfile::tempdir().unwrap();
        let start = Arc::new(Barrier::new(2));
        let threads: Vec<_> = (0..2)
            .map(|_| {
                let (path, start) = (dir.path().join("outbox.db"), Arc::clone(&start));
                std::thread::spawn(move || {
                    let runtime = tokio::runtime::Builder::new_current_thread().build().unwrap();
                    start.wait();
                    runtime.block_on(async {
                        let store = SqliteStore::open(path).await?;
                        store.counts().await
                    })
                })
            })
            .collect();
        for thread in threads {
            assert_eq!(thread.join().unwrap().unwrap().pending(), 0);
        }
    }
}

#[tokio::test]
async fn a_newer_schema_is_refused_with_both_versions() {
    let outbox = Outbox::new().await;
    outbox.execute("update outbox_schema set version = 99");
    let error = SqliteStore::open(outbox.store.path()).await.unwrap_err();
    assert!(matches!(error, StoreError::NewerSchema { found: 99, known: 7 }), "{error:?}");
}

/// Holds W6.
#[tokio::test]
async fn outboxes_with_different_prefixes_live_side_by_side() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("outbox.db");
    let plain = SqliteStore::open(&path).await.unwrap();
    let billing = SqliteStore::open_with(&path, prefixed("billing_")).await.unwrap();
    assert_eq!(billing.table(), "billing_outbox_event");

    let mut conn = billing.connect().unwrap();
    let tx = billing.begin_blocking(&mut conn).unwrap();
    billing.commit_blocking(tx, &[due()]).unwrap();
    assert_eq!(billing.counts().await.unwrap().new, 1);
    assert_eq!(plain.counts().await.unwrap().new, 0);
    assert!(plain.claim(&by("a")).await.unwrap().rows.is_empty());
    assert_eq!(billing.claim(&by("a")).await.unwrap().rows.len(), 1);

    // SQLite's names have no case, and neither have ours.
    let shouting = SqliteStore::open_with(&path, prefixed("BILLING_")).await.unwrap();
    assert_eq!(shouting.counts().await.unwrap().new, 1);
}

/// Holds W6: every name that passes the check makes tables, and the others never reach SQL.
#[tokio::test]
async fn hostile_names_are_refused_and_odd_ones_work() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("outbox.db");
    for hostile in ["x; drop table orders; --", "a\"b", "a.b", "täble", ""] {
        assert!(Ident::new(hostile).is_err(), "{hostile:?}");
    }
    for reserved in ["sqlite_", "SQLite_mine"] {
        let error = SqliteStore::open_with(&path, prefixed(reserved)).await.unwrap_err();
        assert!(matches!(error, StoreError::Misconfigured { .. }), "{reserved}: {error:?}");
    }
    for odd in ["select", "_", "outbox_event", "sqlite"] {
        let store = SqliteStore::open_with(&path, prefixed(odd)).await.unwrap();
        assert_eq!(store.counts().await.unwrap().pending(), 0, "{odd}");
    }
}

/// Holds S1: what the columns are called and what they contain.
#[tokio::test]
async fn people_can_read_the_table() {
    let outbox = Outbox::new().await;
    let order = readable::order();
    let rows = [order.clone(), readable::scan()];
    let rows = rows.map(|event| NewRow { event, birth: Birth::Due });
    outbox.write(&rows);

    let conn = outbox.store.connect().unwrap();
    let shown = async |column: &str| -> Vec<Option<String>> {
        conn.prepare(&format!("select cast({column} as text) from outbox_event_json order by seq"))
            .unwrap()
            .query_map([], |row| row.get(0))
            .unwrap()
            .collect::<Result<_, _>>()
            .unwrap()
    };
    let own = [
        ("occurred_at", "1969-12-31T23:59:59.999999Z"),
        ("created_at", "2023-11-14T22:13:20.000000Z"),
        ("headers", r#"{"source":"shop"}"#),
    ];
    readable::people_can_read_the_table(&order, &own, shown).await;
    let due = [None, Some("2023-11-14T22:13:20.000000Z".to_owned())];
    assert_eq!(shown("due_at").await, due, "what has a key is in line, and has no time");
}

/// Tables of the version before are brought up to date, and what died then has an end.
#[tokio::test]
async fn the_second_migration_gives_dead_rows_their_end() {
    let outbox = Outbox::new().await;
    let id = outbox.write_due();
    outbox.execute("update outbox_event set status = 3");
    outbox.execute("drop view outbox_event_json");
    outbox.execute("create view outbox_event_json as select 1");
    outbox.execute("drop index outbox_event_key");
    outbox.execute("drop table inbox_event");
    outbox.execute("drop table outbox_key");
    outbox.execute("drop index outbox_event_delayed");
    for column in ["unavailable_since", "unroutable_since", "delayed_until"] {
        outbox.execute(&format!("alter table outbox_event drop column {column}"));
    }
    outbox.execute("drop table outbox_audit");
    outbox.execute("drop table outbox_pause");
    outbox.execute("drop table outbox_handled");
    outbox.execute("drop index outbox_event_dead");
    outbox.execute("drop table outbox_tally");
    outbox.execute("update outbox_schema set version = 1");
    let store = SqliteStore::open(outbox.store.path()).await.unwrap();
    let ended = store.find(id).await.unwrap().unwrap().done_at.unwrap();
    assert!(sendoff_core::Timestamp::now().since(ended) < std::time::Duration::from_secs(60));
    assert!(store.topics().await.unwrap().is_empty(), "counted from now on");
}

/// Holds L10: scripts for the outbox and the journal make what opening the file makes, from any version on.
#[tokio::test]
async fn the_scripts_are_what_opening_a_file_runs() {
    let made = tempfile::tempdir().unwrap();
    let opened = made.path().join("opened.db");
    let options = prefixed("shop_");
    SqliteStore::open_with(&opened, options.clone()).await.unwrap().close().await;
    SqliteJournal::open_with(&opened, options.clone()).await.unwrap().close().await;
    for from in 0..=3 {
        let scripted = made.path().join(format!("{from}.db"));
        let conn = rusqlite::Connection::open(&scripted).unwrap();
        for (whole, rest) in [
            (migration_sql(&options).unwrap(), upgrade_sql(&options, from).unwrap()),
            (
                journal_migration_sql(&options).unwrap(),
                journal_upgrade_sql(&options, from).unwrap(),
            ),
        ] {
            let begin = rest.find("strict;\n").map_or(0, |at| at + "strict;\n".len());
            let (first, _) = whole.split_once(&rest[begin..]).expect("the end of the whole");
            conn.execute_batch(&format!("{first}commit;")).unwrap();
            conn.execute_batch(&rest).unwrap();
        }
        assert_eq!(tables(&conn), tables(&rusqlite::Connection::open(&opened).unwrap()), "{from}");
        SqliteStore::open_existing_url(&format!("sqlite:{}", scripted.display()), options.clone())
            .await
            .unwrap();
    }
    assert!(migration_sql(&options).is_ok() && upgrade_sql(&options, 99).is_err());
    assert!(journal_upgrade_sql(&options, 99).unwrap_err().to_string().contains("no version 99"));
}

/// Everything that a file has, and how it was made.
fn tables(conn: &rusqlite::Connection) -> Vec<(String, Option<String>)> {
    let mut all = conn.prepare("select name, sql from sqlite_schema order by name").unwrap();
    all.query_map([], |row| Ok((row.get(0)?, row.get(1)?))).unwrap().map(Result::unwrap).collect()
}
