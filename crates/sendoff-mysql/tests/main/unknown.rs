//! What MySQL and MariaDB cannot say of a commit whose answer was lost.

use mysql_async::prelude::Queryable;
use sendoff_engine::capture::{Capture, CommitMark, Resolution};
use sendoff_engine::store::Outcome;
use sendoff_mysql::{MysqlOptions, Retention};
use sendoff_testkit::durability::{Broken, Remote};
use sendoff_testkit::wait::eventually;

use crate::place::{MARIADB, MYSQL, claim, due, event, hold_of, settle_one};
use crate::through::Orders;
use crate::through::mysql_async::MysqlAsync;

/// A row that nobody sees may still be on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_transaction_is_open_nothing_is_known() {
    for server in [MARIADB, MYSQL] {
        let broken = Broken::new(MysqlAsync(Orders::open(server).await)).await;
        let mut conn = broken.harness.0.place.conn().await;
        conn.query_drop("begin").await.unwrap();
        let row = due(event());
        broken.outbox.store().insert(&mut conn, std::slice::from_ref(&row)).await.unwrap();
        let mark = CommitMark::new(vec![row.event.id()]).with_xid(1);
        assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::NotYetKnown);
        conn.query_drop("commit").await.unwrap();
        assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::Committed);
        broken.outbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_delivered_rows_are_deleted_absence_proves_nothing() {
    let retention = Retention::DeleteWhenDone;
    let options = MysqlOptions { retention, ..MysqlOptions::default() };
    let broken = Broken::new(MysqlAsync(Orders::with(MARIADB, options).await)).await;
    broken.outbox.close().await;
    let mark = broken.commit(Orders::REPLY_LOST).await;
    let claims = async || !claim(broken.outbox.store(), "z").await.is_empty();
    // Held by its writer until the grace is over.
    let mut claimed = Vec::new();
    eventually("the row to be due", async || {
        claimed = claim(broken.outbox.store(), "a").await;
        !claimed.is_empty()
    })
    .await;
    assert!(settle_one(broken.outbox.store(), hold_of(&claimed[0]), Outcome::Done).await);
    assert!(!claims().await);
    assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::NotYetKnown);
}
