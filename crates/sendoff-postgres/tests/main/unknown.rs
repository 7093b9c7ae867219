//! What PostgreSQL alone can say of a commit whose answer was lost.

use sendoff_core::Lane;
use sendoff_engine::capture::Resolution;
use sendoff_testkit::durability::{Broken, Remote};
use sendoff_testkit::proxy::Cut;

use crate::place::{claim, hold_of, settle_one};
use crate::through::tokio_postgres::TokioPostgres;
use crate::through::{COMMIT, COMMITTED, Orders};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_transaction_is_known_by_its_number_after_its_rows_are_gone() {
    let broken = Broken::new(TokioPostgres(Orders::deleting().await)).await;
    broken.outbox.close().await;
    let mark = broken.commit(Orders::REPLY_LOST).await;
    let store = broken.outbox.store();
    let held = hold_of(&claim(store, "a").await[0]);
    assert!(settle_one(store, held, sendoff_engine::store::Outcome::Done).await);
    assert_eq!(broken.harness.0.place.rows().await, 0);
    broken.resolves_to(&mark, Resolution::Committed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_any_answer_resolves_by_its_rows() {
    let broken = Broken::new(TokioPostgres(Orders::open().await)).await;
    let mark = broken.commit(Cut::AllReplies { text: COMMIT, answer: COMMITTED }).await;
    assert_eq!(mark.xid, None);
    broken.resolves_to(&mark, Resolution::Committed).await;
    broken.inbox.has(1).await;
    assert_eq!(broken.inbox.lanes(), [Lane::Cold]);
    broken.outbox.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absence_without_a_number_proves_nothing() {
    let broken = Broken::new(TokioPostgres(Orders::open().await)).await;
    let mark = broken.commit(Cut::Request { text: COMMIT, before: 5, reply: b"" }).await;
    assert_eq!(mark.xid, None);
    assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::NotYetKnown);
    let future = mark.with_xid(u64::from(u32::MAX));
    assert_eq!(broken.outbox.resolve(&future).await.unwrap(), Resolution::NotYetKnown);
    broken.outbox.close().await;
}

/// Without an answer to the insert COMMIT is never sent.
#[cfg(feature = "sqlx")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_sqlx_only_the_answer_to_commit_is_unknown() {
    use sendoff_engine::capture::CommitError;

    let broken = Broken::new(crate::through::sqlx_09::Sqlx::on(Orders::open().await)).await;
    let (_, error) = broken.error(Cut::Reply { text: b"INSERT 0 1\0", before: 5 }).await;
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");
    broken.outbox.close().await;
    assert!(broken.inbox.received().is_empty());
}
