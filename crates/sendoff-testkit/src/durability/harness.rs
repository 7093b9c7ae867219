//! What the durability suite needs of a driver and of the link to its server.

use std::net::SocketAddr;

use async_trait::async_trait;
use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::{BeginError, Capture, Commit, CommitError, OutboxTx, Resolve};
use sendoff_engine::store::OutboxStore;

use crate::capture::{Database, OutboxHarness};
use crate::proxy::Cut;

/// A database at the end of a link that can break.
pub trait Remote: Database<Store: Resolve> {
    /// COMMIT is carried out, and its answer lost.
    const REPLY_LOST: Cut;

    /// COMMIT is lost on its way, after everything before it was answered.
    const REQUEST_LOST: Cut;

    /// Where the server is.
    fn server(&self) -> SocketAddr;

    /// The URL of the database by way of what stands before the server.
    fn url_at(&self, address: SocketAddr) -> String;
}

/// A driver whose connections have a link that can break.
pub trait LinkHarness: OutboxHarness<Database: Remote> {
    /// Where the link breaks so that COMMIT is lost, for a driver that sends it in a way of its own.
    const REQUEST_LOST: Cut = <Self::Database as Remote>::REQUEST_LOST;

    /// Connects to what stands before the server.
    async fn connect_to(&self, address: SocketAddr) -> Self::Conn;
}

/// A server of the suite's own.
#[async_trait]
pub trait OwnServer: Send + Sync {
    /// A database on it.
    type Database: Served;

    /// The database.
    async fn database(&self) -> Self::Database;

    /// Takes the server down without a word.
    fn kill(&mut self);

    /// Starts it again.
    fn up(&mut self);
}

/// A database on a server that comes and goes.
#[async_trait]
pub trait Served: Send + Sync + 'static {
    /// The store.
    type Store: OutboxStore + Capture<Self::Conn>;

    /// A connection of the application's.
    type Conn: Send;

    /// The store, with links of its own.
    async fn store(&self) -> Self::Store;

    /// A connection; `None` where nobody answers.
    async fn connect(&self) -> Option<Self::Conn>;

    /// Begins a transaction by hand.
    async fn begin(conn: &mut Self::Conn);

    /// Commits an event through a guard: `commit_in(outbox.begin(conn).await, event).await`.
    async fn commit(
        conn: &mut Self::Conn,
        outbox: &Outbox<Self::Store>,
        event: &Event,
    ) -> Result<(), CommitError>;
}

/// Commits an event. A transaction that could not begin was rolled back.
pub async fn commit_in<S: Commit<Tx>, Tx>(
    begun: Result<OutboxTx<'_, S, Tx>, BeginError>,
    event: &Event,
) -> Result<(), CommitError> {
    let mut tx = begun.map_err(|error| CommitError::RolledBack(error.into()))?;
    tx.emit(event).map_err(CommitError::Refused)?;
    tx.commit().await
}
