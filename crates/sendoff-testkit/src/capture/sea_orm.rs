//! Through sea-orm, whatever the database: in transactions of its own, and in guards.

use ::sea_orm::{
    ConnectOptions, ConnectionTrait, Database as Connect, DatabaseConnection, DatabaseTransaction,
    TransactionTrait,
};
use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{Capture, OutboxSavepoint, OutboxTx, SeaOrmStore, SeaOrmTransaction};
use sendoff_engine::store::NewRow;

use super::{
    Begun, CaptureHarness, Database, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own,
    Owns, Speaks, StoreOf, TRANSACTIONS_ONLY, Within, commit_rows,
};

/// A database that sea-orm reaches.
pub trait SeaOrmDatabase: Database<Store: SeaOrmStore> + 'static {
    /// Where it is.
    fn url(&self) -> &str;
}

/// A connection of sea-orm's.
#[derive(Debug)]
pub struct SeaOrm<D>(pub D);

impl<D: SeaOrmDatabase> OutboxHarness for SeaOrm<D> {
    type Database = D;
    type Conn = DatabaseConnection;

    fn database(&self) -> &D {
        &self.0
    }

    /// A pool of one, so that what a session is told stays with it.
    async fn connect(&self) -> DatabaseConnection {
        let mut options = ConnectOptions::new(self.0.url());
        options.max_connections(1);
        Connect::connect(options).await.expect("a connection")
    }

    async fn begin<'c>(db: &'c mut DatabaseConnection, outbox: &'c Outbox<D::Store>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(&*db).await?))
    }

    async fn own<'c>(db: &'c mut DatabaseConnection, outbox: &'c Outbox<D::Store>) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, db.begin().await?))
    }
}

/// Writes into a transaction whose `commit` only releases a savepoint, because a nested one is still open,
/// and releases the event all the same.
///
/// # Panics
/// If anything says that it failed.
pub async fn commit_beside_a_nested_transaction<S>(url: &str, outbox: &Outbox<S>, event: Event)
where
    S: Capture<DatabaseTransaction>,
{
    let db = Connect::connect(url).await.expect("a connection");
    let mut tx = db.begin().await.expect("a transaction");
    let nested = tx.begin().await.expect("a nested one");
    let staged = outbox.write(&mut tx, event).await.expect("it is written");
    tx.commit().await.expect("sea-orm says that it committed");
    staged.release();
    drop(nested);
}

impl<D: SeaOrmDatabase> CaptureHarness for SeaOrm<D> {
    const CANNOT: &'static [(&'static str, &'static str)] = &[TRANSACTIONS_ONLY];

    async fn sql(db: &mut DatabaseConnection, text: &str) -> Result<(), BoxError> {
        db.execute_unprepared(text).await?;
        Ok(())
    }

    async fn commit(db: &mut DatabaseConnection, store: &D::Store, rows: &[NewRow]) -> Inserted {
        commit_rows(store, &*db, rows).await
    }
}

impl<D: SeaOrmDatabase> Speaks<DatabaseTransaction> for SeaOrm<D> {
    async fn sql(tx: &mut DatabaseTransaction, text: &str) -> Result<(), BoxError> {
        tx.execute_unprepared(text).await?;
        Ok(())
    }
}

impl<D: SeaOrmDatabase> Owns<DatabaseTransaction> for SeaOrm<D> {
    async fn nest<'t>(tx: &'t mut DatabaseTransaction, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(tx.begin().await?))
    }

    async fn commit(tx: DatabaseTransaction) -> Result<(), BoxError> {
        Ok(tx.commit().await?)
    }

    async fn rollback(tx: DatabaseTransaction) -> Result<(), BoxError> {
        Ok(tx.rollback().await?)
    }
}

impl<'c, D: SeaOrmDatabase> Speaks<SeaOrmTransaction<'c>> for SeaOrm<D> {
    async fn sql(tx: &mut SeaOrmTransaction<'c>, text: &str) -> Result<(), BoxError> {
        tx.execute_unprepared(text).await?;
        Ok(())
    }
}

impl<'c, D: SeaOrmDatabase> Guards<SeaOrmTransaction<'c>> for SeaOrm<D> {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, StoreOf<Self>, SeaOrmTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c, D: SeaOrmDatabase> Nests<SeaOrmTransaction<'c>> for SeaOrm<D> {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, StoreOf<Self>, SeaOrmTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}
