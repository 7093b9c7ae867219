//! A link that breaks on COMMIT.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, Opts};
use sendoff_core::Lane;
use sendoff_engine::capture::{Capture, CommitError, CommitMark, Resolution};
use sendoff_engine::store::Outcome;
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_mysql::{MysqlOptions, MysqlStore, Retention};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::proxy::{Cut, Proxy};
use sendoff_testkit::wait::eventually;

use crate::place::{MARIADB, MYSQL, Place, claim, connect, due, event, hold_of, settle_one};

/// COMMIT as the drivers send it; five bytes of header before it.
const COMMIT: &[u8] = b"COMMIT";
/// What the server answers: seven bytes, the first of this answer, all is well, autocommit.
const COMMITTED: &[u8] = b"\x07\0\0\x01\0\0\0\x02\0";
const REPLY_LOST: Cut = Cut::AllReplies { text: COMMIT, answer: COMMITTED };
const REQUEST_LOST: Cut = Cut::Request { text: COMMIT, before: 5, reply: b"" };

struct Broken {
    place: Place,
    proxy: Proxy,
    store: MysqlStore,
    outbox: Outbox<MysqlStore>,
    inbox: Inbox,
}

impl Broken {
    async fn new(server: &str, retention: Retention) -> Self {
        let place = Place::on(server).await;
        let store = place.store_with(MysqlOptions { retention, ..MysqlOptions::default() }).await;
        let opts = Opts::from_url(&place.url).unwrap();
        let server = format!("127.0.0.1:{}", opts.tcp_port()).parse().unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let inbox = Inbox::new();
        let options = OutboxOptions {
            hot_grace: Duration::from_millis(500),
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let outbox = Outbox::builder(store.clone())
            .options(options)
            .on("order.placed", inbox.clone())
            .start()
            .unwrap();
        Self { place, proxy, store, outbox, inbox }
    }

    /// The server, by way of the proxy.
    fn url(&self) -> String {
        let opts = Opts::from_url(&self.place.url).unwrap();
        let from = format!(":{}/", opts.tcp_port());
        self.place.url.replace(&from, &format!(":{}/", self.proxy.address().port()))
    }

    async fn conn(&self) -> Conn {
        connect(&self.url()).await
    }

    /// Commits one event over a link that breaks, and returns what is known of it.
    async fn commit(&self, cut: Cut) -> CommitMark {
        let mut conn = self.conn().await;
        let event = event();
        let mut tx = self.outbox.begin(&mut conn).await.unwrap();
        tx.emit(&event).unwrap();
        self.proxy.cut(cut);
        let error = tx.commit().await.unwrap_err();
        assert!(self.proxy.is_cut());
        let CommitError::Unknown { mark, .. } = error else { panic!("{error:?}") };
        assert_eq!(mark.ids, [event.id()]);
        mark
    }

    async fn resolves_to(&self, mark: &CommitMark, expected: Resolution) {
        // The server may need a moment to notice that its client is gone.
        let resolved = async || match self.outbox.resolve(mark).await.unwrap() {
            Resolution::NotYetKnown => false,
            answer => {
                assert_eq!(answer, expected);
                true
            }
        };
        eventually("the outcome to be known", resolved).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_whose_answer_was_lost_is_unknown_and_resolves_to_committed() {
    for server in [MARIADB, MYSQL] {
        let broken = Broken::new(server, Retention::default()).await;
        let mark = broken.commit(REPLY_LOST).await;
        broken.resolves_to(&mark, Resolution::Committed).await;
        broken.inbox.has(1).await;
        assert_eq!(broken.inbox.lanes(), [Lane::Cold], "never released, but delivered");
        broken.outbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_resolves_to_rolled_back() {
    for server in [MARIADB, MYSQL] {
        let broken = Broken::new(server, Retention::default()).await;
        let mark = broken.commit(REQUEST_LOST).await;
        assert!(mark.xid.is_some(), "the insert was answered");
        broken.resolves_to(&mark, Resolution::RolledBack).await;
        assert_eq!(broken.place.rows().await, 0);
        assert!(broken.inbox.received().is_empty());
        broken.outbox.close().await;
    }
}

/// A row that nobody sees may still be on its way.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_a_transaction_is_open_nothing_is_known() {
    for server in [MARIADB, MYSQL] {
        let broken = Broken::new(server, Retention::default()).await;
        let mut conn = broken.place.conn().await;
        conn.query_drop("begin").await.unwrap();
        let row = due(event());
        broken.store.insert(&mut conn, std::slice::from_ref(&row)).await.unwrap();
        let mark = CommitMark::new(vec![row.event.id()]).with_xid(1);
        assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::NotYetKnown);
        conn.query_drop("commit").await.unwrap();
        assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::Committed);
        broken.outbox.close().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn where_delivered_rows_are_deleted_absence_proves_nothing() {
    let broken = Broken::new(MARIADB, Retention::DeleteWhenDone).await;
    broken.outbox.close().await;
    let mark = broken.commit(REPLY_LOST).await;
    let claims = async || !claim(&broken.store, "z").await.is_empty();
    // Held by its writer until the grace is over.
    let mut claimed = Vec::new();
    eventually("the row to be due", async || {
        claimed = claim(&broken.store, "a").await;
        !claimed.is_empty()
    })
    .await;
    assert!(settle_one(&broken.store, hold_of(&claimed[0]), Outcome::Done).await);
    assert!(!claims().await);
    assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::NotYetKnown);
}

#[cfg(feature = "sqlx")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_sqlx_as_well() {
    use ::sqlx::Connection;

    for (cut, expected) in
        [(REPLY_LOST, Resolution::Committed), (REQUEST_LOST, Resolution::RolledBack)]
    {
        let broken = Broken::new(MARIADB, Retention::default()).await;
        let mut conn = ::sqlx::MySqlConnection::connect(&broken.url()).await.unwrap();
        let mut tx = broken.outbox.begin(&mut conn).await.unwrap();
        tx.emit(event()).unwrap();
        broken.proxy.cut(cut);
        let error = tx.commit().await.unwrap_err();
        let CommitError::Unknown { mark, .. } = error else { panic!("{error:?}") };
        broken.resolves_to(&mark, expected).await;
        broken.outbox.close().await;
    }
}
