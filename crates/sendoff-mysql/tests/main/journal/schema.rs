//! Migrating a journal on MySQL and MariaDB.

use sendoff_engine::store::StoreError;
use sendoff_mysql::{
    JournalOptions, MysqlJournal, MysqlOptions, journal_migration_sql, journal_upgrade_sql,
};
use sendoff_testkit::journal::facts;
use sendoff_testkit::upgrade::up_to;

use super::{fact, journal, journal_with, settled, tail};
use crate::locks::writers_pass_a_migration;
use crate::place::{MARIADB, MYSQL, Place};

/// Several at once, and again: one migrates.
#[tokio::test]
async fn migrating_is_done_once_and_needs_no_outbox() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let store = MysqlJournal::connect(&place.url).await.unwrap();
        assert!(store.check_installed().await.is_err());
        let (a, b, c) = tokio::join!(store.migrate(), store.migrate(), store.migrate());
        a.and(b).and(c).unwrap();
        store.migrate().await.unwrap();
        store.check_installed().await.unwrap();
        assert_eq!(place.number("select count(*) from journal_anchor").await, 4_096);
        let tables = format!(
            "select count(*) from information_schema.tables
              where table_schema = '{}' and table_name like 'outbox%'",
            place.database
        );
        assert_eq!(place.number(&tables).await, 0);

        place.run("insert into journal_schema values (99, now(6))").await;
        let refused = MysqlJournal::connect(&place.url).await;
        assert!(matches!(refused, Err(StoreError::NewerSchema { found: 99, .. })));
    }
}

#[tokio::test]
async fn journals_with_different_prefixes_live_side_by_side() {
    let place = Place::new().await;
    let with_prefix = async |prefix| {
        let server = MysqlOptions { prefix, ..MysqlOptions::default() };
        journal_with(&place, JournalOptions { server, ..JournalOptions::default() }).await
    };
    facts::journals_with_different_prefixes_live_side_by_side(with_prefix).await;
}

#[tokio::test]
async fn the_script_does_what_migrating_does_and_may_run_again() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let script = journal_migration_sql(&JournalOptions::default()).unwrap();
        place.run_script(&script).await;
        let journal = journal(&place).await;
        journal.append([fact("a", &["w=1"])]).await.unwrap();
        place.run_script(&script).await;
        // Holds L10: for a version that is not there any more, and for the newest.
        for from in [3, 5] {
            place.run_script(&journal_upgrade_sql(&JournalOptions::default(), from).unwrap()).await;
        }
        assert!(journal_upgrade_sql(&JournalOptions::default(), 6).is_err());
        assert_eq!(settled(&mut tail(&journal).await).await.0, [1]);
    }
}

#[tokio::test]
async fn options_are_checked_when_it_connects() {
    let place = Place::new().await;
    let options = JournalOptions::default;
    for wrong in [
        JournalOptions { connections: 0, ..options() },
        JournalOptions { patience: std::time::Duration::from_millis(999), ..options() },
    ] {
        let refused = MysqlJournal::connect_with(&place.url, wrong).await;
        assert!(matches!(refused, Err(StoreError::Misconfigured { .. })), "{refused:?}");
    }
}

#[tokio::test]
async fn a_closed_journal_says_so() {
    let place = Place::new().await;
    let journal = journal(&place).await;
    let reader = tail(&journal).await;
    journal.store().close().await;
    facts::nothing_is_answered_any_more(&journal, reader).await;
}

/// A log in use: an append and a cursor are locked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_migration_beside_an_open_append_keeps_no_writer_waiting_for_long() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let script = journal_migration_sql(&JournalOptions::default()).unwrap();
        place.run_script(&up_to(&script, "journal_schema", 4)).await;
        let store = MysqlJournal::connect(&place.url).await.unwrap();
        let migrate = async move { store.migrate().await };
        let open = "select * from journal_anchor limit 1 for update; select * from journal_cursor";
        let write = "insert into journal_cursor (topic, publisher) values ('t', 'p')";
        let migrated = writers_pass_a_migration(&place, open, write, migrate).await;
        assert_eq!((migrated.from, migrated.to), (4, 5));
    }
}
