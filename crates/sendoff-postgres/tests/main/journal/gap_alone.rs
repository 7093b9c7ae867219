//! What is sent while a gap is open.

use sendoff_engine::journal::Journal;
use sendoff_postgres::PostgresJournal;
use sendoff_testkit::journal::large::append_large;
use sendoff_testkit::proxy::Proxy;

use super::{fact, journal, options, position, settled, tail};
use crate::place::{Place, by_way_of, port};

/// Holds J6: what lies after a gap is sent when it is found and when it has closed, and not with every
/// look between.
#[tokio::test]
async fn while_a_gap_is_open_what_lies_after_it_is_not_sent_again() {
    for ending in ["commit", "rollback"] {
        let place = Place::new();
        let writer = journal(&place).await;
        let mut slow = place.client().await;
        slow.batch_execute("begin").await.unwrap();
        writer.append_in(&mut slow, [fact("slow", &[])], None).await.unwrap();
        append_large(&writer, 50, 10_000).await;

        let proxy = Proxy::start(port(&place.url)).await.unwrap();
        let url = by_way_of(&place.url, &proxy);
        let store = PostgresJournal::connect_with(&url, options(&place)).await.unwrap();
        let mut reader = tail(&Journal::new(store)).await;
        let (passed, batch) = settled(&mut reader).await;
        assert_eq!((passed, batch.gap), (vec![], Some((position(1), position(1)))));
        let before = proxy.carried();
        for _ in 0..50 {
            assert!(reader.look().await.unwrap().rows.is_empty());
        }
        let sent = proxy.carried() - before;
        assert!(sent < 100_000, "{sent} bytes for 50 looks, with 500 kB after the gap");
        slow.batch_execute(ending).await.unwrap();
        let first = if ending == "commit" { 1 } else { 2 };
        assert_eq!(settled(&mut reader).await.0, (first..=51).collect::<Vec<_>>(), "{ending}");
    }
}
