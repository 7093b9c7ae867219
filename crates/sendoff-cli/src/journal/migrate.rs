//! `sendoff journal migrate`: brings the tables of a journal up to date, or shows what would be run.

use std::num::NonZeroU64;
use std::process::ExitCode;

use anyhow::Context;
use clap::Args;
use sendoff::any::{AnyJournal, AnyJournalOptions};
use sendoff::journal::retain::Ranges;

use crate::database::{Database, told};
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
    sendoff journal migrate --print --database-url mysql: --from 3 > upgrade.sql\n  \
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
    /// Print the script instead of running anything: for the kind of database that the URL names, which is
    /// not connected to, or for PostgreSQL without one
    #[arg(long)]
    print: bool,
    /// Print what is missing where the tables have this version (the newest in `journal_schema`), instead of
    /// all of it
    #[arg(long, value_name = "VERSION", requires = "print", default_value_t = 0)]
    from: usize,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, partitioned, print, from } = options;
    let partitions = partitioned.map(|size| Ranges { size, ..Ranges::DEFAULT });
    let journal = AnyJournalOptions { partitions, ..database.journal_options() };
    if print {
        output::data(journal.upgrade_sql(database.kind()?, from)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = database.url()?;
    let store =
        AnyJournal::connect_with(&url, &journal).await.map_err(|error| told(&url, error))?;
    let migrated = store.migrate().await.context("the tables could not be brought up to date")?;
    store.close().await;
    output::note(&format!("{}: {migrated}", store.table()));
    Ok(ExitCode::SUCCESS)
}
