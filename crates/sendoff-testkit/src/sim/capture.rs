//! How an application writes in a simulated world.

use sendoff_engine::capture::{
    Begin, BeginError, BoxFuture, Capture, Commit, CommitError, CommitMark, InsertResult, Nest,
    Nesting, Release,
};
use sendoff_engine::memory::{MemorySavepoint, MemoryTx};
use sendoff_engine::store::{Born, NewRow};
use tokio::time::sleep;

use super::weather::Fate;
use super::wire::{LinkBroke, Wire};
use crate::history::FaultKind;

impl Begin<()> for Wire {
    type Tx = MemoryTx;

    async fn begin(&self, (): ()) -> Result<MemoryTx, BeginError> {
        self.gate.pass().await;
        sleep(self.weather.latency()).await;
        self.table.transaction().map_err(|error| BeginError(error.into()))
    }
}

impl Capture<MemoryTx> for Wire {
    async fn insert(&self, tx: &mut MemoryTx, rows: &[NewRow]) -> InsertResult {
        self.gate.pass().await;
        sleep(self.weather.latency()).await;
        let born = self.table.insert(tx, rows).await;
        sleep(self.weather.latency()).await;
        self.gate.pass().await;
        born
    }
}

impl Commit<MemoryTx> for Wire {
    async fn commit(&self, tx: MemoryTx, rows: &[NewRow]) -> Result<Vec<Born>, CommitError> {
        let fate = self.weather.fate();
        self.gate.pass().await;
        sleep(self.weather.latency()).await;
        let unknown = || {
            let mark = CommitMark::of(rows);
            Err(CommitError::Unknown { mark, source: LinkBroke.into() })
        };
        let answer = match fate {
            // The server rolls back what lost its connection.
            Fate::RequestLost | Fate::Late(_) => unknown(),
            Fate::ReplyLost => {
                // Born for a node that does not know of them.
                let ids: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
                self.misfortune(FaultKind::Untold, &ids);
                self.table.commit(tx, rows).await.and_then(|_| unknown())
            }
            Fate::Fine | Fate::Twice => self.table.commit(tx, rows).await,
        };
        sleep(self.weather.latency()).await;
        self.gate.pass().await;
        answer
    }

    async fn rollback(&self, tx: MemoryTx) -> Result<(), CommitError> {
        self.table.rollback(tx).await
    }
}

impl<'t> Nest<'t, MemoryTx> for Wire {
    type Nested = MemorySavepoint<'t>;

    fn savepoint(&'t self, tx: &'t mut MemoryTx) -> Nesting<'t, Self::Nested> {
        self.table.savepoint(tx)
    }
}

impl<'t> Release<'t, MemorySavepoint<'t>> for Wire {
    fn release(&'t self, nested: MemorySavepoint<'t>) -> BoxFuture<'t, Result<(), CommitError>> {
        self.table.release(nested)
    }

    fn roll_back_to(
        &'t self,
        nested: MemorySavepoint<'t>,
    ) -> BoxFuture<'t, Result<(), CommitError>> {
        self.table.roll_back_to(nested)
    }
}
