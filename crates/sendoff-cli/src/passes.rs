//! What commands that work in passes are told.

use clap::Args;

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
