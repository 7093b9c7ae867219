//! The suites every store and every driver passes, on each server there is.

use std::time::Duration;

use sendoff_core::partition::Period;
use sendoff_core::{EventId, Timestamp};
use sendoff_engine::capture::{Capture, Commit, WriteError};
use sendoff_engine::store::{Born, NewRow};
use sendoff_postgres::{Doorbell, Layout, PostgresOptions, PostgresStore, Retention};
use sendoff_testkit::conformance::{
    ClockHarness, ForeignLock, LateWrite, StoreHarness, async_trait,
};
use tokio::sync::Mutex;
use tokio_postgres::Client;

use crate::place::{NEWER_SERVER, Place, SERVER, refusal};
use crate::server::Server;

pub(crate) struct Database {
    store: PostgresStore,
    options: PostgresOptions,
    client: Mutex<Client>,
    place: Place,
    partitioned: bool,
    /// The server, if it is the test's own; it goes last.
    server: Option<Server>,
}

impl Database {
    async fn with(server: &str, retention: Retention, doorbell: Doorbell) -> Self {
        Self::at(Place::on(server), retention, doorbell).await
    }

    async fn at(place: Place, retention: Retention, doorbell: Doorbell) -> Self {
        let options = PostgresOptions { retention, doorbell, ..place.options() };
        Self::of(place, options).await
    }

    async fn of(place: Place, options: PostgresOptions) -> Self {
        let store = place.store_with(options.clone()).await;
        let client = Mutex::new(place.client().await);
        Self { store, options, client, place, partitioned: false, server: None }
    }

    pub(crate) async fn keeping(server: &str) -> Self {
        Self::with(server, Retention::Keep(Duration::from_secs(60)), Doorbell::On).await
    }

    /// With the index for fair claims.
    async fn shared(server: &str, doorbell: Doorbell) -> Self {
        let place = Place::on(server);
        let options = PostgresOptions { doorbell, tenant_index: true, ..place.options() };
        Self::of(place, options).await
    }

    /// By months: a month ahead is two of them, where it would be thirty days, which take two seconds to make.
    pub(crate) async fn partitioned() -> Self {
        let place = Place::on(SERVER);
        let layout = Layout::Partitioned(Period::Month);
        let options = PostgresOptions { layout, tenant_index: true, ..place.options() };
        Self { partitioned: true, ..Self::of(place, options).await }
    }

    async fn deleting(server: &str) -> Self {
        Self::with(server, Retention::DeleteWhenDone, Doorbell::On).await
    }

    /// On a server with a clock of its own.
    async fn with_clock() -> Option<Self> {
        let server = Server::start_with_clock()?;
        let place = Place::in_schema(server.url(), "public".to_owned());
        let database = Self::at(place, Retention::default(), Doorbell::On).await;
        Some(Self { server: Some(server), ..database })
    }
}

#[async_trait]
impl ClockHarness for Database {
    async fn step_back(&self, time: Duration) {
        self.server.as_ref().unwrap().clock().step_back(time);
    }
}

#[async_trait]
impl StoreHarness for Database {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    async fn commit(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut client = self.client.lock().await;
        let tx = client.transaction().await.unwrap();
        self.store.commit(tx, rows).await.map_err(refusal)
    }

    async fn roll_back(&self, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        let mut client = self.client.lock().await;
        let mut tx = client.transaction().await.unwrap();
        let born = self.store.insert(&mut tx, rows).await?;
        tx.rollback().await.unwrap();
        Ok(born)
    }

    async fn now(&self) -> Timestamp {
        let client = self.client.lock().await;
        let rows = client.query_typed("select clock_timestamp()", &[]).await.unwrap();
        rows[0].get::<_, std::time::SystemTime>(0).into()
    }

    async fn pass(&self, time: Duration) {
        // The server's clock cannot be moved.
        tokio::time::sleep(time + Duration::from_millis(1)).await;
    }

    async fn lock_row(&self, id: EventId) -> Option<Box<dyn ForeignLock>> {
        let client = self.place.client().await;
        let row = format!("select from {}.outbox_event where event_id = '{id}'", self.place.schema);
        client.batch_execute(&format!("begin; {row} for update")).await.unwrap();
        Some(Box::new(Locker(client)))
    }

    async fn beside(&self) -> Option<PostgresStore> {
        let options = self.options.clone();
        Some(PostgresStore::connect_with(&self.place.url, options).await.unwrap())
    }

    async fn write_late(&self, rows: &[NewRow]) -> Option<Box<dyn LateWrite>> {
        let mut client = self.place.client().await;
        client.batch_execute("begin").await.unwrap();
        self.store.insert(&mut client, rows).await.unwrap();
        Some(Box::new(Locker(client)))
    }

    fn tick(&self) -> Duration {
        Duration::from_millis(150)
    }

    fn ids_are_unique_for_good(&self) -> bool {
        !self.partitioned
    }
}

/// A transaction that has a row, or has written some.
pub(crate) struct Locker(pub(crate) Client);

#[async_trait]
impl ForeignLock for Locker {
    async fn release(self: Box<Self>) {
        self.0.batch_execute("rollback").await.unwrap();
    }
}

#[async_trait]
impl LateWrite for Locker {
    async fn commit(self: Box<Self>) {
        self.0.batch_execute("commit").await.unwrap();
    }
}

mod keeping_what_is_done {
    use super::*;

    sendoff_testkit::store_suite!(Database::keeping(SERVER).await);
    sendoff_testkit::order_suite!(Database::keeping(SERVER).await);
}

/// Holds L6: every statement works on a table in partitions.
mod partitioned {
    use super::*;

    sendoff_testkit::store_suite!(Database::partitioned().await);
    sendoff_testkit::order_suite!(Database::partitioned().await);
    sendoff_testkit::fair_suite!(Database::partitioned().await);
}

mod fair {
    use super::*;

    sendoff_testkit::fair_suite!(Database::shared(SERVER, Doorbell::On).await);

    mod without_session_state {
        use super::*;

        sendoff_testkit::fair_suite!(Database::shared(SERVER, Doorbell::Off).await);
    }

    mod on_a_newer_server {
        use super::*;

        sendoff_testkit::fair_suite!(Database::shared(NEWER_SERVER, Doorbell::On).await);
    }
}

mod deleting_what_is_done {
    use super::*;

    sendoff_testkit::store_suite!(Database::deleting(SERVER).await);
    sendoff_testkit::order_suite!(Database::deleting(SERVER).await);
}

/// Fault 14.
mod a_clock_that_steps_back {
    use super::*;

    sendoff_testkit::clock_suite!(Database::with_clock().await);
}

mod letters {
    use super::*;

    sendoff_testkit::letters_suite!(Database::keeping(SERVER).await);

    mod in_partitions {
        use super::*;

        sendoff_testkit::letters_suite!(Database::partitioned().await);
    }
}

mod relaying {
    use super::*;

    sendoff_testkit::relay_suite!(Database::keeping(SERVER).await);

    mod deleting_what_is_done {
        use super::*;

        sendoff_testkit::relay_suite!(Database::deleting(SERVER).await);
    }

    mod without_session_state {
        use super::*;

        sendoff_testkit::relay_suite!(
            Database::with(SERVER, Retention::default(), Doorbell::Off).await
        );
    }
}

mod without_session_state {
    use super::*;

    sendoff_testkit::store_suite!(
        Database::with(SERVER, Retention::default(), Doorbell::Off).await
    );
}

/// PgBouncer gives every transaction another session.
mod behind_a_pooler {
    use super::*;

    sendoff_testkit::store_suite!(
        Database::at(Place::pooled(), Retention::default(), Doorbell::Off).await
    );
    sendoff_testkit::order_suite!(
        Database::at(Place::pooled(), Retention::default(), Doorbell::Off).await
    );

    mod relays {
        use super::*;

        sendoff_testkit::relay_suite!(
            Database::at(Place::pooled(), Retention::default(), Doorbell::Off).await
        );
    }
}

mod on_a_newer_server {
    use super::*;

    mod keeping_what_is_done {
        use super::*;

        sendoff_testkit::store_suite!(Database::keeping(NEWER_SERVER).await);
        sendoff_testkit::order_suite!(Database::keeping(NEWER_SERVER).await);
    }

    mod deleting_what_is_done {
        use super::*;

        sendoff_testkit::store_suite!(Database::deleting(NEWER_SERVER).await);
    }
}
