//! `sendoff migrate`: brings the tables of an outbox up to date, or shows what would be run.

use std::process::ExitCode;

use anyhow::Context;
use clap::{Args, ValueEnum};
use sendoff::any::{AnyOptions, AnyStore};
use sendoff::store::{Layout, Payloads};

use crate::database::{Database, told};
use crate::output;
use crate::partitions::PeriodOption;

/// Bring the tables of an outbox up to date
///
/// Safe to run from several places at once: one does the work, the others find it done. A schema made
/// by a newer version is refused and left as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff migrate\n  \
    sendoff migrate --partitioned day\n  \
    sendoff migrate --fair\n  \
    sendoff migrate --print --schema outbox > outbox.sql\n  \
    sendoff migrate --print --database-url mysql: --from 3 > upgrade.sql\n  \
    sendoff migrate --database-url sqlite:shop.db")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// Make the table in partitions of this size, which `sendoff partitions` then keeps. A table that
    /// is there cannot be changed to it
    #[arg(long, value_name = "PERIOD")]
    partitioned: Option<PeriodOption>,
    /// What the table takes for a payload. MySQL and MariaDB can refuse what is no JSON
    #[arg(long, value_enum, value_name = "KIND", default_value = "binary")]
    payloads: PayloadsOption,
    /// Make the index that claims need which are shared among tenants (the option `fair`), beside the writers of a
    /// table that is in use
    #[arg(long)]
    fair: bool,
    /// Print the script instead of running anything: for the kind of database that the URL names, which is
    /// not connected to, or for PostgreSQL without one
    #[arg(long)]
    print: bool,
    /// Print what is missing where the tables have this version (the newest in `outbox_schema`), instead of
    /// all of it
    #[arg(long, value_name = "VERSION", requires = "print", default_value_t = 0)]
    from: usize,
}

#[derive(Debug, Clone, Copy, ValueEnum)]
enum PayloadsOption {
    /// Any bytes.
    Binary,
    /// JSON only: the server refuses what is none.
    Json,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, partitioned, payloads, fair, print, from } = options;
    let outbox = AnyOptions {
        layout: partitioned.map_or(Layout::Flat, |period| Layout::Partitioned(period.into())),
        payloads: match payloads {
            PayloadsOption::Binary => Payloads::Binary,
            PayloadsOption::Json => Payloads::Json,
        },
        tenant_index: fair,
        ..database.options()
    };
    if print {
        output::data(outbox.upgrade_sql(database.kind()?, from)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let url = database.url()?;
    let store = AnyStore::connect_with(&url, &outbox).await.map_err(|error| told(&url, error))?;
    let migrated = store.migrate().await.context("the tables could not be brought up to date")?;
    output::note(&format!("{}: {migrated}", store.table()));
    store.close().await;
    Ok(ExitCode::SUCCESS)
}
