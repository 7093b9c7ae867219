//! `sendoff journal migrate`: brings the tables of a journal up to date, or shows what would be run.

use std::num::NonZeroU64;
use std::process::ExitCode;

use anyhow::bail;
use clap::Args;
use sendoff::journal::retain::Ranges;
use sendoff::mysql;
use sendoff::postgres::{JournalLayout, JournalOptions, journal_migration_sql};

use super::opened;
use crate::database::{Database, Named};
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
    /// Print the script for an empty database instead of running anything: for the kind of database that the
    /// URL names, which is not connected to, or for PostgreSQL without one
    #[arg(long)]
    print: bool,
}

pub(super) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, partitioned, print } = options;
    let layout = partitioned.map_or(JournalLayout::Flat, |size| {
        JournalLayout::Partitioned(Ranges { size, ..Ranges::DEFAULT })
    });
    if print {
        output::data(script(database, layout)?.trim_end())?;
    } else {
        let (table, without) = opened::migrate(database, layout).await?;
        output::note(&format!("{table} is up to date"));
        if let Some(without) = without {
            output::note(without);
        }
    }
    Ok(ExitCode::SUCCESS)
}

/// For the kind of database that the URL names, or for PostgreSQL without one.
fn script(database: Database, layout: JournalLayout) -> anyhow::Result<String> {
    let unnamed = database.postgres_options();
    let named = database.is_named().then(|| database.named()).transpose()?;
    let server = match named {
        Some(Named::Mysql { options: server, .. }) => {
            let options = mysql::JournalOptions { server, ..Default::default() };
            return Ok(mysql::journal_migration_sql(&options)?);
        }
        Some(Named::Sqlite { .. }) => {
            bail!("--print is not for SQLite: a file is brought up to date when it is opened")
        }
        Some(Named::Postgres { options, .. }) => options,
        None => unnamed,
    };
    Ok(journal_migration_sql(&JournalOptions { server, layout, ..Default::default() })?)
}
