//! Through diesel-async.

use ::diesel_async::{
    AnsiTransactionManager, AsyncConnection, AsyncPgConnection, SimpleAsyncConnection,
    TransactionManager,
};
use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{
    Capture, Join, JoinError, OutboxSavepoint, OutboxTx, Part, WriteError,
};
use sendoff_engine::store::{Born, NewRow};
use sendoff_postgres::{DieselTransaction, Doorbell, PostgresStore};
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own, Owns,
    Speaks, Within, Written, commit_rows,
};

use super::Orders;
use crate::place::Place;

struct Diesel(Orders);

/// A transaction as diesel's own manager begins and ends it around a closure.
struct Managed<'c>(&'c mut AsyncPgConnection);

impl<'c> Managed<'c> {
    async fn begin(conn: &'c mut AsyncPgConnection) -> Result<Self, BoxError> {
        AnsiTransactionManager::begin_transaction(&mut *conn).await?;
        Ok(Self(conn))
    }
}

impl OutboxHarness for Diesel {
    type Database = Orders;
    type Conn = AsyncPgConnection;

    fn database(&self) -> &Orders {
        &self.0
    }

    async fn connect(&self) -> AsyncPgConnection {
        AsyncPgConnection::establish(&self.0.place.url).await.unwrap()
    }

    async fn own<'c>(
        conn: &'c mut AsyncPgConnection,
        outbox: &'c Outbox<PostgresStore>,
    ) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, Managed::begin(conn).await?))
    }
}

impl CaptureHarness for Diesel {
    const CANNOT: &'static [(&'static str, &'static str)] = &[
        ("a_dropped_savepoint_keeps_nothing", "a savepoint is a closure, and ends with it"),
        (
            "what_is_dropped_is_rolled_back_and_the_connection_stays_usable",
            "a transaction is a closure, and diesel gives a connection up that was dropped in one",
        ),
    ];

    /// diesel counts transactions itself.
    const CONNECTIONS_OUTLIVE_ENDS_BY_HAND: bool = false;

    async fn write(
        conn: &mut AsyncPgConnection,
        outbox: &Outbox<PostgresStore>,
        events: &[Event],
    ) -> Written {
        outbox.write_all(conn, events).await
    }

    async fn sql(conn: &mut AsyncPgConnection, text: &str) -> Result<(), BoxError> {
        Ok(conn.batch_execute(text).await?)
    }
}

impl<'c> Capture<Managed<'c>> for PostgresStore {
    async fn insert(&self, tx: &mut Managed<'c>, rows: &[NewRow]) -> Result<Vec<Born>, WriteError> {
        self.insert(&mut *tx.0, rows).await
    }
}

impl<'c> Join<Managed<'c>> for PostgresStore {
    async fn join(&self, tx: &mut Managed<'c>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join(&mut *tx.0, part).await
    }
}

impl<'c> Speaks<Managed<'c>> for Diesel {
    async fn sql(tx: &mut Managed<'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.0.batch_execute(text).await?)
    }
}

impl<'c> Owns<Managed<'c>> for Diesel {
    async fn nest<'t>(tx: &'t mut Managed<'c>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(Managed::begin(tx.0).await?))
    }

    async fn commit(tx: Managed<'c>) -> Result<(), BoxError> {
        Ok(AnsiTransactionManager::commit_transaction(tx.0).await?)
    }

    async fn rollback(tx: Managed<'c>) -> Result<(), BoxError> {
        Ok(AnsiTransactionManager::rollback_transaction(tx.0).await?)
    }
}

/// Through the guard.
struct Guarding(Diesel);

impl OutboxHarness for Guarding {
    type Database = Orders;
    type Conn = AsyncPgConnection;

    fn database(&self) -> &Orders {
        self.0.database()
    }

    async fn connect(&self) -> AsyncPgConnection {
        self.0.connect().await
    }

    async fn begin<'c>(
        conn: &'c mut AsyncPgConnection,
        outbox: &'c Outbox<PostgresStore>,
    ) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(conn).await?))
    }

    async fn own<'c>(_: &'c mut AsyncPgConnection, _: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Err("the other harness has them".into())
    }
}

impl CaptureHarness for Guarding {
    const CANNOT: &'static [(&'static str, &'static str)] = &[(
        "a_dropped_savepoint_keeps_nothing",
        "a savepoint that is dropped takes its transaction with it",
    )];

    async fn sql(conn: &mut AsyncPgConnection, text: &str) -> Result<(), BoxError> {
        Ok(conn.batch_execute(text).await?)
    }

    async fn commit(
        conn: &mut AsyncPgConnection,
        store: &PostgresStore,
        rows: &[NewRow],
    ) -> Inserted {
        commit_rows(store, conn, rows).await
    }
}

impl<'c> Speaks<DieselTransaction<'c>> for Guarding {
    async fn sql(tx: &mut DieselTransaction<'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.batch_execute(text).await?)
    }
}

impl<'c> Guards<DieselTransaction<'c>> for Guarding {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, PostgresStore, DieselTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Nests<DieselTransaction<'c>> for Guarding {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, PostgresStore, DieselTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

sendoff_testkit::capture_suite!(own: Diesel(Orders::open().await));
// Holds W8.
sendoff_testkit::capture_suite!(guard: Guarding(Diesel(Orders::open().await)));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Diesel(Orders::open().await));
}

mod without_session_state {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: Diesel(
        Orders::with(Place::new(), Doorbell::Off).await
    ));
}
