//! The suites every store and every driver passes, on each server there is.

use std::time::Duration;

use mysql_async::prelude::Queryable;
use mysql_async::{Conn, TxOpts};
use sendoff_core::partition::Period;
use sendoff_core::{EventId, Timestamp};
use sendoff_engine::capture::{Begin, Capture, Commit, WriteError};
use sendoff_engine::store::{Born, NewRow};
use sendoff_mysql::{Layout, MysqlOptions, MysqlStore, Retention};
use sendoff_testkit::conformance::{
    ClockHarness, ForeignLock, LateWrite, StoreHarness, async_trait,
};
use tokio::sync::Mutex;

use crate::place::{MARIADB, MYSQL, Place, refusal};
use crate::server::Server;

pub(crate) struct Database {
    store: MysqlStore,
    options: MysqlOptions,
    conn: Mutex<Conn>,
    place: Place,
    /// The server, if it is the test's own; it goes last.
    server: Option<Server>,
}

impl Database {
    async fn with(server: &str, options: MysqlOptions) -> Self {
        Self::at(Place::on(server).await, options).await
    }

    async fn at(place: Place, options: MysqlOptions) -> Self {
        let store = place.store_with(options.clone()).await;
        Self { store, options, conn: Mutex::new(place.conn().await), place, server: None }
    }

    /// On a server with a clock of its own.
    async fn with_clock() -> Option<Self> {
        let server = Server::start_with_clock()?;
        let database = Self::at(Place::at(server.url()).await, MysqlOptions::default()).await;
        Some(Self { server: Some(server), ..database })
    }

    pub(crate) async fn keeping(server: &str) -> Self {
        let retention = Retention::Keep(Duration::from_secs(60));
        Self::with(server, MysqlOptions { retention, ..MysqlOptions::default() }).await
    }

    async fn deleting(server: &str) -> Self {
        let retention = Retention::DeleteWhenDone;
        Self::with(server, MysqlOptions { retention, ..MysqlOptions::default() }).await
    }

    /// With the index for fair claims.
    async fn shared(server: &str) -> Self {
        Self::with(server, MysqlOptions { tenant_index: true, ..MysqlOptions::default() }).await
    }

    async fn shared_in_partitions(server: &str) -> Self {
        let layout = Layout::Partitioned(Period::Day);
        let options = MysqlOptions { layout, tenant_index: true, ..MysqlOptions::default() };
        Self::with(server, options).await
    }

    pub(crate) async fn partitioned(server: &str) -> Self {
        let layout = Layout::Partitioned(Period::Day);
        Self::with(server, MysqlOptions { layout, ..MysqlOptions::default() }).await
    }
}

#[async_trait]
impl StoreHarness for Database {
    type Store = MysqlStore;

    fn store(&self) -> &MysqlStore {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut conn = self.conn.lock().await;
        let tx = self.store.begin(&mut *conn).await.unwrap();
        self.store.commit(tx, rows).await.map_err(refusal)
    }

    async fn roll_back(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut conn = self.conn.lock().await;
        let mut tx = conn.start_transaction(TxOpts::new()).await.unwrap();
        let born = self.store.insert(&mut tx, rows).await?;
        tx.rollback().await.unwrap();
        Ok(born)
    }

    async fn now(&self) -> Timestamp {
        let now = "select timestampdiff(microsecond, '1970-01-01', utc_timestamp(6))";
        let micros: i64 = self.conn.lock().await.query_first(now).await.unwrap().unwrap();
        Timestamp::from_micros(micros)
    }

    async fn pass(&self, time: Duration) {
        // The server's clock cannot be moved.
        tokio::time::sleep(time + Duration::from_millis(1)).await;
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(150)
    }

    async fn beside(&self) -> Option<MysqlStore> {
        let options = self.options.clone();
        Some(MysqlStore::connect_with(&self.place.url, options).await.unwrap())
    }

    async fn write_late(&self, rows: &[NewRow]) -> Option<Box<dyn LateWrite>> {
        let mut conn = self.place.conn().await;
        conn.query_drop("begin").await.unwrap();
        self.store.insert(&mut conn, rows).await.unwrap();
        Some(Box::new(Operator(conn)))
    }

    async fn lock_row(&self, id: EventId) -> Option<Box<dyn ForeignLock>> {
        Some(Box::new(locked_row(&self.place, id).await))
    }
}

#[async_trait]
impl ClockHarness for Database {
    async fn step_back(&self, time: Duration) {
        self.server.as_ref().unwrap().clock().step_back(time);
    }
}

/// An open transaction, which has a row locked or has written some.
pub(crate) struct Operator(pub(crate) Conn);

/// Locks it as an open `update` does.
async fn locked_row(place: &Place, id: EventId) -> Operator {
    let mut conn = place.conn().await;
    let id = id.to_string().replace('-', "");
    let lock =
        format!("begin; select 1 from outbox_event where event_id = unhex('{id}') for update");
    conn.query_drop(lock).await.unwrap();
    Operator(conn)
}

#[async_trait]
impl ForeignLock for Operator {
    async fn release(mut self: Box<Self>) {
        self.0.query_drop("rollback").await.unwrap();
    }
}

#[async_trait]
impl LateWrite for Operator {
    async fn commit(mut self: Box<Self>) {
        self.0.query_drop("commit").await.unwrap();
    }
}

/// The suites on MariaDB.
mod mariadb {
    use super::*;

    mod keeping_what_is_done {
        use super::*;

        sendoff_testkit::store_suite!(Database::keeping(MARIADB).await);
    }

    mod deleting_what_is_done {
        use super::*;

        sendoff_testkit::store_suite!(Database::deleting(MARIADB).await);
    }

    mod in_partitions {
        use super::*;

        sendoff_testkit::store_suite!(Database::partitioned(MARIADB).await);
    }

    /// Fault 14.
    mod a_clock_that_steps_back {
        use super::*;

        sendoff_testkit::clock_suite!(Database::with_clock().await);
    }

    mod fair {
        use super::*;

        sendoff_testkit::fair_suite!(Database::shared(MARIADB).await);

        mod in_partitions {
            use super::*;

            sendoff_testkit::fair_suite!(Database::shared_in_partitions(MARIADB).await);
        }
    }

    mod order {
        use super::*;

        sendoff_testkit::order_suite!(Database::keeping(MARIADB).await);

        mod deleting_what_is_done {
            use super::*;

            sendoff_testkit::order_suite!(Database::deleting(MARIADB).await);
        }

        mod in_partitions {
            use super::*;

            sendoff_testkit::order_suite!(Database::partitioned(MARIADB).await);
        }
    }

    mod letters {
        use super::*;

        sendoff_testkit::letters_suite!(Database::keeping(MARIADB).await);

        mod in_partitions {
            use super::*;

            sendoff_testkit::letters_suite!(Database::partitioned(MARIADB).await);
        }
    }

    mod relaying {
        use super::*;

        sendoff_testkit::relay_suite!(Database::keeping(MARIADB).await);

        mod deleting_what_is_done {
            use super::*;

            sendoff_testkit::relay_suite!(Database::deleting(MARIADB).await);
        }
    }
}

/// The same on MySQL.
mod mysql {
    use super::*;

    mod keeping_what_is_done {
        use super::*;

        sendoff_testkit::store_suite!(Database::keeping(MYSQL).await);
    }

    mod deleting_what_is_done {
        use super::*;

        sendoff_testkit::store_suite!(Database::deleting(MYSQL).await);
    }

    mod in_partitions {
        use super::*;

        sendoff_testkit::store_suite!(Database::partitioned(MYSQL).await);
    }

    mod fair {
        use super::*;

        sendoff_testkit::fair_suite!(Database::shared(MYSQL).await);

        mod in_partitions {
            use super::*;

            sendoff_testkit::fair_suite!(Database::shared_in_partitions(MYSQL).await);
        }
    }

    mod order {
        use super::*;

        sendoff_testkit::order_suite!(Database::keeping(MYSQL).await);

        mod deleting_what_is_done {
            use super::*;

            sendoff_testkit::order_suite!(Database::deleting(MYSQL).await);
        }

        mod in_partitions {
            use super::*;

            sendoff_testkit::order_suite!(Database::partitioned(MYSQL).await);
        }
    }

    mod letters {
        use super::*;

        sendoff_testkit::letters_suite!(Database::keeping(MYSQL).await);

        mod in_partitions {
            use super::*;

            sendoff_testkit::letters_suite!(Database::partitioned(MYSQL).await);
        }
    }

    mod relaying {
        use super::*;

        sendoff_testkit::relay_suite!(Database::keeping(MYSQL).await);

        mod deleting_what_is_done {
            use super::*;

            sendoff_testkit::relay_suite!(Database::deleting(MYSQL).await);
        }
    }
}
