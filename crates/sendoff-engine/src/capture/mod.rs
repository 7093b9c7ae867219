//! Events enter here, inside the caller's transaction.

mod awaits;
mod blocks;
mod error;
mod guard;
mod staged;
mod staging;
mod tx;

pub use error::{BeginError, CommitError, CommitMark, Resolution, TornSavepoint, WriteError};
pub use guard::{Awaits, BlockingGuard, BlockingSavepoint, Blocks, Guard, SavepointGuard};
pub use staged::Staged;
pub use tx::{
    Begin, BeginBlocking, BoxFuture, Capture, CaptureBlocking, Commit, CommitBlocking, Nest,
    NestBlocking, Release, ReleaseBlocking, Resolve,
};

pub(crate) use staging::{Writer, ring_for_delayed};
