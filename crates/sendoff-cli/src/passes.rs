//! What commands that work in passes are told.

use std::error::Error;

use clap::Args;
use sendoff::store::StoreError;

/// How many passes, whether they change anything, and how they are reported.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Passes {
    /// End after one pass
    #[arg(long)]
    pub(crate) once: bool,
    /// Only say what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// Report as one line of JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What went wrong; and where that is for want of rights, which ones the work needs.
pub(crate) fn explained(error: impl Into<anyhow::Error>, rights: &'static str) -> anyhow::Error {
    let error = error.into();
    let of_rights = |cause: &(dyn Error + 'static)| {
        matches!(cause.downcast_ref(), Some(StoreError::Rights { .. } | StoreError::Refused(_)))
    };
    if error.chain().any(of_rights) { error.context(rights) } else { error }
}
