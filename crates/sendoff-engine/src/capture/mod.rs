//! Events enter here, inside the caller's transaction.

mod error;
mod outbox_tx;
mod outbox_tx_async;
mod outbox_tx_blocking;
mod staged;
mod staging;
mod tx;

pub use error::{
    BeginError, CommitError, CommitMark, Resolution, SendError, TornSavepoint, WriteError,
};
pub use outbox_tx::{
    Awaits, BlockingOutboxSavepoint, BlockingOutboxTx, Blocks, OutboxSavepoint, OutboxTx,
};
pub use staged::Staged;
pub use tx::{
    Begin, BeginBlocking, BoxFuture, Capture, CaptureBlocking, Commit, CommitBlocking,
    InsertResult, Nest, NestBlocking, Nesting, Release, ReleaseBlocking, Resolve,
};

pub(crate) use staging::{Writer, ring_for_delayed};
