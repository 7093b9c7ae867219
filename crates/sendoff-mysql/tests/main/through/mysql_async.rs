//! Through mysql_async.

use std::net::SocketAddr;

use ::mysql_async::prelude::Queryable;
use ::mysql_async::{Conn, Pool, Transaction, TxOpts};
use sendoff_core::{BoxError, Event};
use sendoff_engine::Outbox;
use sendoff_engine::capture::{
    Capture, Join, JoinError, OutboxSavepoint, OutboxTx, Part, WriteError,
};
use sendoff_engine::store::{Born, NewRow};
use sendoff_mysql::{
    MysqlConnSavepoint, MysqlConnTransaction, MysqlSavepoint, MysqlStore, MysqlTransaction,
};
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own, Owns,
    Speaks, Within, Written, commit_rows,
};
use sendoff_testkit::durability::{LinkHarness, Remote};

use super::Orders;
use crate::place::{MARIADB, MYSQL, connect};

pub(crate) struct MysqlAsync(pub(crate) Orders);

/// A savepoint as an application sets it: the driver has none.
struct ByHand<'t, 'c> {
    tx: &'t mut Transaction<'c>,
    depth: u32,
}

impl<'t, 'c> ByHand<'t, 'c> {
    async fn set(tx: &'t mut Transaction<'c>, depth: u32) -> Result<Self, BoxError> {
        tx.query_drop(format!("savepoint mine_{depth}")).await?;
        Ok(Self { tx, depth })
    }

    async fn end(self, how: &str) -> Result<(), BoxError> {
        Ok(self.tx.query_drop(format!("{how} savepoint mine_{}", self.depth)).await?)
    }
}

impl OutboxHarness for MysqlAsync {
    type Database = Orders;
    type Conn = Conn;

    fn database(&self) -> &Orders {
        &self.0
    }

    async fn connect(&self) -> Conn {
        self.0.place.conn().await
    }

    async fn begin<'c>(conn: &'c mut Conn, outbox: &'c Outbox<MysqlStore>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(conn).await?))
    }

    async fn own<'c>(conn: &'c mut Conn, outbox: &'c Outbox<MysqlStore>) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, conn.start_transaction(TxOpts::new()).await?))
    }
}

impl CaptureHarness for MysqlAsync {
    const CANNOT: &'static [(&'static str, &'static str)] = &[(
        "own_transaction::a_dropped_savepoint_keeps_nothing",
        "the driver has no savepoints, and nobody drops what is set as text",
    )];

    /// The driver cannot undo it before anything else is sent.
    const DROPPED_SAVEPOINTS_END_TRANSACTIONS: bool = true;

    async fn write(conn: &mut Conn, outbox: &Outbox<MysqlStore>, events: &[Event]) -> Written {
        outbox.write_all(conn, events).await
    }

    async fn sql(conn: &mut Conn, text: &str) -> Result<(), BoxError> {
        Ok(conn.query_drop(text).await?)
    }

    async fn commit(conn: &mut Conn, store: &MysqlStore, rows: &[NewRow]) -> Inserted {
        commit_rows(store, conn, rows).await
    }
}

impl<'c> Speaks<MysqlConnTransaction<'c>> for MysqlAsync {
    async fn sql(tx: &mut MysqlConnTransaction<'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.query_drop(text).await?)
    }
}

impl<'c> Guards<MysqlConnTransaction<'c>> for MysqlAsync {
    async fn savepoint<'t>(
        tx: &'t mut OutboxTx<'_, MysqlStore, MysqlConnTransaction<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'o, 'c> Speaks<MysqlConnSavepoint<'o, 'c>> for MysqlAsync {
    async fn sql(tx: &mut MysqlConnSavepoint<'o, 'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.query_drop(text).await?)
    }
}

impl<'o, 'c: 'o> Nests<MysqlConnSavepoint<'o, 'c>> for MysqlAsync {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, MysqlStore, MysqlConnSavepoint<'o, 'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Speaks<Transaction<'c>> for MysqlAsync {
    async fn sql(tx: &mut Transaction<'c>, text: &str) -> Result<(), BoxError> {
        Ok(tx.query_drop(text).await?)
    }
}

impl<'c> Owns<Transaction<'c>> for MysqlAsync {
    async fn nest<'t>(tx: &'t mut Transaction<'c>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(ByHand::set(tx, 1).await?))
    }

    async fn commit(tx: Transaction<'c>) -> Result<(), BoxError> {
        Ok(tx.commit().await?)
    }

    async fn rollback(tx: Transaction<'c>) -> Result<(), BoxError> {
        Ok(tx.rollback().await?)
    }
}

impl<'o, 'c> Capture<ByHand<'o, 'c>> for MysqlStore {
    async fn insert(
        &self,
        savepoint: &mut ByHand<'o, 'c>,
        rows: &[NewRow],
    ) -> Result<Vec<Born>, WriteError> {
        self.insert(&mut *savepoint.tx, rows).await
    }
}

impl<'o, 'c> Join<ByHand<'o, 'c>> for MysqlStore {
    async fn join(&self, by_hand: &mut ByHand<'o, 'c>, part: &Part<'_>) -> Result<bool, JoinError> {
        self.join(&mut *by_hand.tx, part).await
    }
}

impl<'o, 'c> Speaks<ByHand<'o, 'c>> for MysqlAsync {
    async fn sql(savepoint: &mut ByHand<'o, 'c>, text: &str) -> Result<(), BoxError> {
        Ok(savepoint.tx.query_drop(text).await?)
    }
}

impl<'o, 'c> Owns<ByHand<'o, 'c>> for MysqlAsync {
    async fn nest<'t>(savepoint: &'t mut ByHand<'o, 'c>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(ByHand::set(savepoint.tx, savepoint.depth + 1).await?))
    }

    async fn commit(savepoint: ByHand<'o, 'c>) -> Result<(), BoxError> {
        savepoint.end("release").await
    }

    async fn rollback(savepoint: ByHand<'o, 'c>) -> Result<(), BoxError> {
        savepoint.end("rollback to").await
    }
}

impl LinkHarness for MysqlAsync {
    async fn connect_to(&self, address: SocketAddr) -> Conn {
        connect(&self.0.url_at(address)).await
    }
}

/// The same with a pool.
struct Pooled(Orders);

impl OutboxHarness for Pooled {
    type Database = Orders;
    type Conn = Pool;

    fn database(&self) -> &Orders {
        &self.0
    }

    async fn connect(&self) -> Pool {
        Pool::from_url(&self.0.place.url).unwrap()
    }

    async fn begin<'c>(pool: &'c mut Pool, outbox: &'c Outbox<MysqlStore>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(&*pool).await?))
    }

    async fn own<'c>(pool: &'c mut Pool, outbox: &'c Outbox<MysqlStore>) -> Begun<'c> {
        Ok(Own::<MysqlAsync, _>::open(outbox, pool.start_transaction(TxOpts::new()).await?))
    }
}

impl Speaks<MysqlTransaction> for Pooled {
    async fn sql(tx: &mut MysqlTransaction, text: &str) -> Result<(), BoxError> {
        Ok(tx.query_drop(text).await?)
    }
}

impl Guards<MysqlTransaction> for Pooled {
    async fn savepoint<'t>(tx: &'t mut OutboxTx<'_, MysqlStore, MysqlTransaction>) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'o> Speaks<MysqlSavepoint<'o>> for Pooled {
    async fn sql(tx: &mut MysqlSavepoint<'o>, text: &str) -> Result<(), BoxError> {
        Ok(tx.query_drop(text).await?)
    }
}

impl<'o> Nests<MysqlSavepoint<'o>> for Pooled {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, MysqlStore, MysqlSavepoint<'o>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

mod on_mariadb {
    use super::*;

    sendoff_testkit::capture_suite!(MysqlAsync(Orders::open(MARIADB).await));

    mod acceptance {
        use super::*;

        sendoff_testkit::acceptance_suite!(MysqlAsync(Orders::open(MARIADB).await));
    }

    mod pooled {
        use super::*;

        sendoff_testkit::acceptance_suite!(Pooled(Orders::open(MARIADB).await));
    }

    mod a_broken_link {
        use super::*;

        sendoff_testkit::link_suite!(MysqlAsync(Orders::open(MARIADB).await));
    }
}

mod on_mysql {
    use super::*;

    sendoff_testkit::capture_suite!(MysqlAsync(Orders::open(MYSQL).await));

    mod acceptance {
        use super::*;

        sendoff_testkit::acceptance_suite!(MysqlAsync(Orders::open(MYSQL).await));
    }

    mod a_broken_link {
        use super::*;

        sendoff_testkit::link_suite!(MysqlAsync(Orders::open(MYSQL).await));
    }
}
