//! What the durability suite needs of a driver and of the link to its server.

use std::net::SocketAddr;

use async_trait::async_trait;
use sendoff_core::Event;
use sendoff_engine::Outbox;
use sendoff_engine::capture::{CommitError, Resolve, WriteError};
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
    type Store: OutboxStore;

    /// The store, with links of its own.
    async fn store(&self) -> Self::Store;

    /// A connection of the application's; `None` where nobody answers.
    async fn connect(&self) -> Option<Box<dyn Writer<Self::Store>>>;
}

/// An application with one connection.
#[async_trait]
pub trait Writer<S>: Send {
    /// Commits an event through a guard. A transaction that could not begin was rolled back.
    async fn commit(&mut self, outbox: &Outbox<S>, event: &Event) -> Result<(), CommitError>;

    /// Writes an event into a transaction that stays open.
    async fn leave_open(&mut self, outbox: &Outbox<S>, event: &Event) -> Result<(), WriteError>;
}
