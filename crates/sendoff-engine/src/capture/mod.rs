//! Events enter here, inside the caller's transaction.

mod error;
mod tx;

pub use error::{BeginError, CommitError, CommitMark, WriteError};
pub use tx::{
    Begin, BeginBlocking, Capture, CaptureBlocking, Commit, CommitBlocking, Nest, NestBlocking,
};
