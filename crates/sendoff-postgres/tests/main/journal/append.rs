//! Appends in an application's transaction on PostgreSQL.

use futures_util::TryStreamExt;
use sendoff_core::journal::{Fact, Position, Query};
use sendoff_core::{BoxError, limits};
use sendoff_engine::journal::{AppendError, Fold, fold};
use sendoff_postgres::{Doorbell, JournalOptions, PostgresOptions};

use super::facts as all;
use super::{Log, fact, journal, journal_with, options, settled, tag, tagged, tail};
use crate::place::Place;

async fn types(journal: &Log, query: Query) -> Vec<String> {
    let found: Vec<_> = journal.read(query, Position::START).try_collect().await.unwrap();
    found.iter().map(|fact| fact.event().event_type().to_owned()).collect()
}

/// The mark of an open transaction, where the type does not prove one.
#[tokio::test]
async fn without_a_transaction_nothing_is_appended() {
    let place = Place::new();
    let journal = journal(&place).await;
    let mut client = place.client().await;
    let answer = journal.append_in(&mut client, [fact("t", &[])], None).await;
    assert!(matches!(answer, Err(AppendError::NoTransaction)), "{answer:?}");
    assert!(all(&journal).await.is_empty());
    client.batch_execute("begin").await.unwrap();
    journal.append_in(&mut client, [fact("t", &[])], None).await.unwrap();
    client.batch_execute("commit").await.unwrap();
    assert_eq!(all(&journal).await.len(), 1);
}

/// Many tags are one lock, also from many at once; and the session is as it was.
#[tokio::test]
async fn a_thousand_facts_with_twenty_tags_each_do_not_fill_the_table_of_locks() {
    let place = Place::new();
    let journal = journal(&place).await;
    let large = |from: usize| -> Vec<Fact> {
        let tags = |n: usize| (0..20).map(move |t| tag(&format!("t{t}={}", from + n)));
        let of = |n| Fact::builder(("t", "{}")).tags(tags(n)).build().unwrap();
        (0..limits::APPEND_FACTS).map(of).collect()
    };
    let mut client = place.client().await;
    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, large(0), None).await.unwrap();
    let locks =
        "select count(*) from pg_locks where locktype = 'advisory' and pid = pg_backend_pid()";
    assert_eq!(tx.query_one(locks, &[]).await.unwrap().get::<_, i64>(0), 1);
    for (setting, value) in [("lock_timeout", "0"), ("enable_seqscan", "on")] {
        let row = tx.query_one(&format!("show {setting}"), &[]).await.unwrap();
        assert_eq!(row.get::<_, &str>(0), value);
    }
    tx.commit().await.unwrap();
    let appends = (1..4).map(|n| journal.append(large(n * 1_000)));
    for answer in futures_util::future::join_all(appends).await {
        assert_eq!(answer.unwrap().len(), limits::APPEND_FACTS);
    }
    assert_eq!(place.number("select count(*) from journal_tag").await, 4 * 20_000);
}

/// Holds J1: the pool's own transactions.
#[tokio::test]
async fn facts_are_appended_in_a_transaction_of_a_pool() {
    let place = Place::new();
    let journal = journal(&place).await;
    let manager =
        deadpool_postgres::Manager::new(place.url.parse().unwrap(), tokio_postgres::NoTls);
    let pool = deadpool_postgres::Pool::builder(manager).max_size(1).build().unwrap();
    let mut client = pool.get().await.unwrap();
    let mut tx = client.transaction().await.unwrap();
    journal.append_in(&mut tx, [fact("a", &["w=1"])], None).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(types(&journal, tagged("w=1")).await, ["a"]);
}

/// Nothing of the session is used: no setting, no prepared statement, no lock that outlives a
/// transaction.
#[tokio::test]
async fn behind_a_transaction_pooler_it_works_the_same() {
    let place = Place::pooled();
    let server = PostgresOptions { doorbell: Doorbell::Off, ..place.options() };
    let journal = journal_with(&place, JournalOptions { server, ..options(&place) }).await;
    journal.append([fact("a", &["w=1"])]).await.unwrap();
    let count = || {
        fold(tagged("w=1"), 0, |count: &mut u32, _| {
            *count += 1;
            Ok(())
        })
    };
    let decided = journal.decide(count()).await.unwrap();
    assert_eq!(decided.model.state, 1);
    journal.append_if([fact("b", &["w=1"])], decided.condition).await.unwrap();
    let third = |model: Fold<u32, _>| {
        assert_eq!(model.state, 2);
        Ok::<_, BoxError>(vec![fact("c", &["w=1"])])
    };
    assert_eq!(journal.execute_locked(count, third).await.unwrap().tries, 1);
    assert_eq!(settled(&mut tail(&journal).await).await.0, [1, 2, 3]);
}
