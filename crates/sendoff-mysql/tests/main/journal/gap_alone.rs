//! What is sent while a gap is open.

use sendoff_engine::journal::Journal;
use sendoff_mysql::{JournalOptions, MysqlJournal};
use sendoff_testkit::journal::large::append_large;
use sendoff_testkit::proxy::Proxy;

use super::{journal, open_append, position, run, settled, tail};
use crate::place::{MARIADB, MYSQL, Place, by_way_of, port};

/// Holds J6: what lies after a gap is sent when it is found and when it has closed, and not with every
/// look between.
#[tokio::test]
async fn while_a_gap_is_open_what_lies_after_it_is_not_sent_again() {
    for (server, ending) in [(MARIADB, "commit"), (MARIADB, "rollback"), (MYSQL, "commit")] {
        let place = Place::on(server).await;
        let writer = journal(&place).await;
        let mut slow = open_append(&writer, &place).await;
        append_large(&writer, 50, 10_000).await;

        let proxy = Proxy::start(port(&place.url)).await.unwrap();
        let url = by_way_of(&place.url, &proxy);
        let store = MysqlJournal::connect_with(&url, JournalOptions::default()).await.unwrap();
        let mut reader = tail(&Journal::new(store)).await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!((passed, batch.gap), (vec![], Some((position(1), position(1)))));
        let before = proxy.carried();
        // Each of them waits for a second.
        for _ in 0..3 {
            assert!(reader.look().await.unwrap().rows.is_empty());
        }
        let sent = proxy.carried() - before;
        assert!(sent < 100_000, "{sent} bytes for 3 looks, with 500 kB after the gap");
        run(&mut slow, ending).await;
        let first = if ending == "commit" { 1 } else { 2 };
        assert_eq!(settled(&mut reader).await.0, (first..=51).collect::<Vec<_>>(), "{ending}");
    }
}
