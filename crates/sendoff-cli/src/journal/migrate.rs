//! `sendoff journal migrate`: brings the tables of a journal up to date, or shows what would be run.

use std::num::NonZeroU64;
use std::process::ExitCode;

use clap::Args;
use sendoff::journal::retain::Ranges;
use sendoff::postgres::{JournalLayout, JournalOptions, journal_migration_sql};

use super::opened;
use crate::database::Database;
use crate::output;

/// Bring the tables of a journal up to date
///
/// They are apart from those of an outbox, and have versions of their own. Safe to run from several
/// places at once: one does the work, the others find it done. A schema made by a newer version is
/// refused and left as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff journal migrate\n  \
    sendoff journal migrate --partitioned\n  \
    sendoff journal migrate --print --schema journal > journal.sql\n  \
    sendoff journal migrate --database-url sqlite:shop.db")]
pub(super) struct Options {
    #[command(flatten)]
    database: Database,
    /// Make the tables in partitions of so many positions, which `sendoff journal retain` then keeps.
    /// Tables that are there cannot be changed to it. PostgreSQL only
    #[arg(
        long,
        value_name = "POSITIONS",
        num_args = 0..=1,
        require_equals = true,
        default_missing_value = "1000000"
    )]
    partitioned: Option<NonZeroU64>,
    /// Print the PostgreSQL script for an empty database instead of running anything
    #[arg(long)]
    print: bool,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, partitioned, print } = options;
    let layout = partitioned.map_or(JournalLayout::Flat, |size| {
        JournalLayout::Partitioned(Ranges { size, ..Ranges::DEFAULT })
    });
    if print {
        let server = database.postgres_options();
        let script =
            journal_migration_sql(&JournalOptions { server, layout, ..Default::default() })?;
        output::data(script.trim_end())?;
    } else {
        let table = opened::migrate(database, layout).await?;
        output::note(&format!("{table} is up to date"));
    }
    Ok(ExitCode::SUCCESS)
}
