//! Events enter here, inside the caller's transaction.

mod error;
mod join;
mod outbox_tx;
mod outbox_tx_async;
mod outbox_tx_blocking;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-08")]
pub mod sqlx_08;
#[cfg(feature = "sqlx")]
pub mod sqlx_09;
mod staged;
mod staging;
mod tx;

pub use error::{
    BeginError, CommitError, CommitMark, Resolution, SendError, TornSavepoint, WriteError,
};
pub use join::{CursorMove, Join, JoinBlocking, JoinError, Part};
pub use outbox_tx::{
    Awaits, BlockingOutboxSavepoint, BlockingOutboxTx, Blocks, Guard, OutboxSavepoint, OutboxTx,
    Scope, Whole, Within,
};
#[cfg(feature = "sea-orm")]
pub use sea_orm::{SeaOrmStore, SeaOrmTransaction};
pub use staged::Staged;
pub use staging::Inserted;
pub use tx::{
    Begin, BeginBlocking, BoxFuture, Capture, CaptureBlocking, Commit, CommitBlocking,
    InsertResult, Nest, NestBlocking, Nesting, Release, ReleaseBlocking, Resolve,
};

pub(crate) use staging::{Writer, ring_for_delayed};
