//! The store in memory, as an application's test double.

use sendoff_core::BoxError;
use sendoff_engine::Outbox;
use sendoff_engine::capture::{OutboxSavepoint, OutboxTx};
use sendoff_engine::memory::{MemorySavepoint, MemoryStore, MemoryTx};
use sendoff_engine::store::NewRow;
use sendoff_testkit::capture::{
    Begun, CaptureHarness, Database, Guarded, Guards, Inserted, Nested, Nests, OutboxHarness, Own,
    Owns, Speaks, TRANSACTIONS_ONLY, Within, commit_rows,
};

struct InMemory(MemoryStore);

impl OutboxHarness for InMemory {
    type Database = Self;
    type Conn = MemoryStore;

    fn database(&self) -> &Self {
        self
    }

    async fn connect(&self) -> MemoryStore {
        self.0.clone()
    }

    async fn begin<'c>(conn: &'c mut MemoryStore, outbox: &'c Outbox<MemoryStore>) -> Begun<'c> {
        Ok(Guarded::<Self, _>::open(outbox.begin(&*conn).await?))
    }

    async fn own<'c>(conn: &'c mut MemoryStore, outbox: &'c Outbox<MemoryStore>) -> Begun<'c> {
        Ok(Own::<Self, _>::open(outbox, conn.transaction()?))
    }
}

impl Database for InMemory {
    type Store = MemoryStore;

    fn store(&self) -> MemoryStore {
        self.0.clone()
    }

    async fn orders(&self) -> Option<Vec<i64>> {
        None
    }

    async fn close(store: &MemoryStore) {
        store.close();
    }
}

impl CaptureHarness for InMemory {
    const CANNOT: &'static [(&'static str, &'static str)] = &[
        TRANSACTIONS_ONLY,
        ("a_transaction_ended_by_hand_is_none", "there are no statements"),
        ("a_write_does_not_depend_on_the_state_of_the_session", "there are no sessions"),
        ("an_error_of_a_statement_is_never_delivered_over", "there are no statements"),
        ("a_commit_that_the_database_refuses_was_rolled_back", "there are no constraints"),
        (
            "a_commit_dropped_on_its_way_is_carried_out_or_not_but_never_half",
            "a commit has no way to be on: it is done when it is first polled",
        ),
    ];

    async fn sql(_: &mut MemoryStore, _: &str) -> Result<(), BoxError> {
        Ok(())
    }

    async fn commit(conn: &mut MemoryStore, store: &MemoryStore, rows: &[NewRow]) -> Inserted {
        commit_rows(store, &*conn, rows).await
    }
}

impl<Tx> Speaks<Tx> for InMemory {
    async fn sql(_: &mut Tx, _: &str) -> Result<(), BoxError> {
        Ok(())
    }
}

impl Guards<MemoryTx> for InMemory {
    async fn savepoint<'t>(tx: &'t mut OutboxTx<'_, MemoryStore, MemoryTx>) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl<'c> Nests<MemorySavepoint<'c>> for InMemory {
    async fn deeper<'t>(
        tx: &'t mut OutboxSavepoint<'_, MemoryStore, MemorySavepoint<'c>>,
    ) -> Begun<'t> {
        Ok(Nested::<Self, _>::open(tx.savepoint().await?))
    }
}

impl Owns<MemoryTx> for InMemory {
    async fn nest<'t>(tx: &'t mut MemoryTx, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(tx.savepoint()))
    }

    async fn commit(tx: MemoryTx) -> Result<(), BoxError> {
        Ok(tx.commit()?)
    }

    async fn rollback(tx: MemoryTx) -> Result<(), BoxError> {
        tx.rollback();
        Ok(())
    }
}

impl<'c> Owns<MemorySavepoint<'c>> for InMemory {
    async fn nest<'t>(tx: &'t mut MemorySavepoint<'c>, within: Within<'t, Self>) -> Begun<'t> {
        Ok(within.open(tx.savepoint()))
    }

    async fn commit(tx: MemorySavepoint<'c>) -> Result<(), BoxError> {
        tx.release();
        Ok(())
    }

    async fn rollback(tx: MemorySavepoint<'c>) -> Result<(), BoxError> {
        tx.roll_back();
        Ok(())
    }
}

sendoff_testkit::capture_suite!(InMemory(MemoryStore::new()));

mod acceptance {
    use super::*;

    sendoff_testkit::acceptance_suite!(InMemory(MemoryStore::new()));
}
