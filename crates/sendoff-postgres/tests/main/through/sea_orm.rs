//! Through sea-orm.

use ::sea_orm::{ConnectOptions, ConnectionTrait, Database, DatabaseConnection};
use sendoff_core::BoxError;
use sendoff_engine::Outbox;
use sendoff_engine::capture::{OutboxSavepoint, OutboxTx};
use sendoff_engine::store::NewRow;
use sendoff_postgres::{PostgresStore, SeaOrmTransaction};
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, SeaOrm,
    SeaOrmDatabase, Speaks, commit_rows,
};

use super::Orders;

impl SeaOrmDatabase for Orders {
    fn url(&self) -> &str {
        &self.place.url
    }
}

/// Through the guard.
pub(crate) struct Guarding(Orders);

impl OutboxHarness for Guarding {
    type Database = Orders;
    type Conn = DatabaseConnection;

    fn database(&self) -> &Orders {
        &self.0
    }

    /// A pool of one, so that what a session is told stays with it.
    async fn connect(&self) -> DatabaseConnection {
        let mut options = ConnectOptions::new(&self.0.place.url);
        options.max_connections(1);
        Database::connect(options).await.unwrap()
    }

    async fn begin<'c>(
        db: &'c mut DatabaseConnection,
        outbox: &'c Outbox<PostgresStore>,
    ) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(&*db).await?))
    }

    async fn own<'c>(_: &'c mut DatabaseConnection, _: &'c Outbox<PostgresStore>) -> Begun<'c> {
        Err("the other harness has them".into())
    }
}

impl CaptureHarness for Guarding {
    async fn sql(db: &mut DatabaseConnection, text: &str) -> Result<(), BoxError> {
        db.execute_unprepared(text).await?;
        Ok(())
    }

    async fn commit(
        db: &mut DatabaseConnection,
        store: &PostgresStore,
        rows: &[NewRow],
    ) -> Inserted {
        commit_rows(store, &*db, rows).await
    }
}

impl<'c> Speaks<SeaOrmTransaction<'c>> for Guarding {
    async fn sql(tx: &mut SeaOrmTransaction<'c>, text: &str) -> Result<(), BoxError> {
        tx.execute_unprepared(text).await?;
        Ok(())
    }
}

impl<'c> Guards<SeaOrmTransaction<'c>> for Guarding {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, PostgresStore, SeaOrmTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Nests<SeaOrmTransaction<'c>> for Guarding {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, PostgresStore, SeaOrmTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

sendoff_testkit::capture_suite!(own: SeaOrm(Orders::open().await));
// Holds W8.
sendoff_testkit::capture_suite!(guard: Guarding(Orders::open().await));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(own: SeaOrm(Orders::open().await));
}
