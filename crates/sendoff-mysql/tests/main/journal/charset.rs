//! Databases in another character set than ours.

use sendoff_core::Failure;
use sendoff_core::journal::Topic;
use sendoff_core::journal::publish::Poison;
use sendoff_engine::journal::publish::{PairOptions, Publishing, Which};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::eventually;

use super::retain::keep_last;
use super::{fact, journal};
use crate::place::{MARIADB, MYSQL, Place};

/// A server that was set up with no character set in mind has one of its own for its databases: what is
/// appended there twice is known, published, parked, given up and let go, and every text is what it was.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_journal_is_appended_to_published_and_let_go_whatever_the_databases_character_set_is() {
    for server in [MARIADB, MYSQL] {
        let place = Place::on(server).await;
        let latin1 = "select count(*) from information_schema.schemata
                       where schema_name = database() and default_character_set_name = 'latin1'";
        assert_eq!(place.number(latin1).await, 1);
        let journal = journal(&place).await;
        let topic = Topic::builder("東京").build().unwrap();
        let latch = Latch::new("駅");
        let refused = |at: u64| (at == 2).then(|| Failure::dead("売切"));
        latch.refuse(move |fact| refused(fact.position.get()));
        let facts: Vec<_> = (0..3).map(|_| fact("a", &["線=山手"])).collect();
        journal.append(facts.clone()).await.unwrap();
        let again = journal.append(facts).await.unwrap();
        assert!(again.iter().all(|receipt| !receipt.fresh), "{again:?}");
        let options = PairOptions { poison: Poison::Park, ..PairOptions::default() };
        let pair = Publishing::builder(&journal).pair_with(&topic, latch.publisher(), options);
        let node = pair.start().await.unwrap();
        latch.wait_for(2).await;

        let publishers = journal.publishers();
        let parked = async || publishers.parked(&Which::all(), None, 10).await.unwrap();
        eventually("one is parked", async || parked().await.len() == 1).await;
        assert_eq!(parked().await[0].error.as_deref(), Some("売切"));
        latch.accept();
        assert_eq!(publishers.retry_parked(&Which::all(), None).await.unwrap(), 1);
        latch.wait_for(3).await;
        eventually("nothing is parked", async || parked().await.is_empty()).await;
        node.close().await;
        let led = "select count(*) from journal_cursor where leader is not null";
        assert_eq!(place.number(led).await, 0, "it was given up");

        assert_eq!(keep_last(&journal, 0).await.facts, 3);
        assert_eq!(place.number("select count(*) from journal_tag").await, 0);
    }
}
