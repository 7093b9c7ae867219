//! A link that breaks on COMMIT.

use std::time::Duration;

#[cfg(feature = "sqlx")]
use sendoff_core::Event;
use sendoff_core::Lane;
use sendoff_engine::capture::{CommitError, CommitMark, Resolution};
use sendoff_engine::{Outbox, OutboxOptions};
use sendoff_postgres::{PostgresOptions, PostgresStore, Retention};
use sendoff_testkit::acceptance::Inbox;
use sendoff_testkit::proxy::{Cut, Proxy};
use sendoff_testkit::wait::eventually;
use tokio_postgres::{Client, Config};

use crate::place::{Place, claim, connect, event, hold_of, settle_one};

/// COMMIT as the driver sends it, and as the server answers it; five bytes of header before each.
const COMMIT: &[u8] = b"commit\0";
const COMMITTED: &[u8] = b"COMMIT\0";

struct Broken {
    place: Place,
    proxy: Proxy,
    store: PostgresStore,
    outbox: Outbox<PostgresStore>,
    inbox: Inbox,
}

impl Broken {
    async fn new(retention: Retention) -> Self {
        let place = Place::new();
        let store = place.store_with(PostgresOptions { retention, ..place.options() }).await;
        let config: Config = place.url.parse().unwrap();
        let server = format!("127.0.0.1:{}", config.get_ports()[0]).parse().unwrap();
        let proxy = Proxy::start(server).await.unwrap();
        let inbox = Inbox::new();
        let config = OutboxOptions {
            hot_grace: Duration::from_millis(500),
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let outbox = Outbox::builder(store.clone())
            .options(config)
            .on("order.placed", inbox.clone())
            .start()
            .unwrap();
        Self { place, proxy, store, outbox, inbox }
    }

    /// The server, by way of the proxy.
    fn url(&self) -> String {
        let config: Config = self.place.url.parse().unwrap();
        let port = self.proxy.address().port();
        format!(
            "postgres://{}@127.0.0.1:{port}/{}",
            config.get_user().unwrap(),
            config.get_dbname().unwrap()
        )
    }

    async fn client(&self) -> Client {
        connect(&self.url()).await.unwrap()
    }

    /// Commits one event over a link that breaks, and returns what is known of it.
    async fn commit(&self, cut: Cut) -> CommitMark {
        let mut client = self.client().await;
        let event = event();
        let mut tx = self.outbox.begin(&mut client).await.unwrap();
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
    let broken = Broken::new(Retention::default()).await;
    let mark = broken.commit(Cut::Reply { text: COMMITTED, before: 5 }).await;
    assert!(mark.xid.is_some(), "the insert was answered");
    broken.resolves_to(&mark, Resolution::Committed).await;
    broken.inbox.has(1).await;
    assert_eq!(broken.inbox.lanes(), [Lane::Cold], "never released, but delivered");
    broken.outbox.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_committed_transaction_is_known_by_its_number_after_its_rows_are_gone() {
    let broken = Broken::new(Retention::DeleteWhenDone).await;
    broken.outbox.close().await;
    let mark = broken.commit(Cut::Reply { text: COMMITTED, before: 5 }).await;
    let held = hold_of(&claim(&broken.store, "a").await[0]);
    assert!(settle_one(&broken.store, held, sendoff_engine::store::Outcome::Done).await);
    assert_eq!(broken.place.rows().await, 0);
    broken.resolves_to(&mark, Resolution::Committed).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_without_any_answer_resolves_by_its_rows() {
    let broken = Broken::new(Retention::default()).await;
    let mark = broken.commit(Cut::AllReplies { text: COMMIT, answer: COMMITTED }).await;
    assert_eq!(mark.xid, None);
    broken.resolves_to(&mark, Resolution::Committed).await;
    broken.inbox.has(1).await;
    assert_eq!(broken.inbox.lanes(), [Lane::Cold]);
    broken.outbox.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_commit_that_never_arrived_resolves_to_rolled_back() {
    let broken = Broken::new(Retention::default()).await;
    let cut = Cut::Request { text: COMMIT, before: 5, reply: b"INSERT 0 1" };
    let mark = broken.commit(cut).await;
    assert!(mark.xid.is_some());
    broken.resolves_to(&mark, Resolution::RolledBack).await;
    assert_eq!(broken.place.rows().await, 0);
    assert!(broken.inbox.received().is_empty());
    broken.outbox.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn absence_without_a_number_proves_nothing() {
    let broken = Broken::new(Retention::default()).await;
    let mark = broken.commit(Cut::Request { text: COMMIT, before: 5, reply: b"" }).await;
    assert_eq!(mark.xid, None);
    assert_eq!(broken.outbox.resolve(&mark).await.unwrap(), Resolution::NotYetKnown);
    let future = mark.with_xid(u64::from(u32::MAX));
    assert_eq!(broken.outbox.resolve(&future).await.unwrap(), Resolution::NotYetKnown);
    broken.outbox.close().await;
}

#[cfg(feature = "sqlx")]
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn through_sqlx_only_the_answer_to_commit_is_unknown() {
    use ::sqlx::Connection;

    let broken = Broken::new(Retention::default()).await;
    let commit = async |event: &Event, cut| {
        let mut conn = ::sqlx::PgConnection::connect(&broken.url()).await.unwrap();
        let mut tx = broken.outbox.begin(&mut conn).await.unwrap();
        tx.emit(event).unwrap();
        broken.proxy.cut(cut);
        let error = tx.commit().await.unwrap_err();
        assert!(broken.proxy.is_cut());
        error
    };

    // Without an answer to the insert COMMIT is never sent.
    let error = commit(&event(), Cut::Reply { text: b"INSERT 0 1\0", before: 5 }).await;
    assert!(matches!(error, CommitError::RolledBack(_)), "{error:?}");

    let second = event();
    let error = commit(&second, Cut::Reply { text: COMMITTED, before: 5 }).await;
    let CommitError::Unknown { mark, .. } = error else { panic!("{error:?}") };
    assert_eq!(mark.ids, [second.id()]);
    assert!(mark.xid.is_some(), "the insert was answered");
    broken.resolves_to(&mark, Resolution::Committed).await;
    broken.inbox.has(1).await;
    assert_eq!(broken.inbox.ids(), [second.id()]);
    broken.outbox.close().await;
}
