//! `sendoff migrate`: brings the tables of an outbox up to date, or shows what would be run.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use sendoff::mysql::MysqlStore;
use sendoff::postgres::{Layout, PostgresStore};
use sendoff::sqlite::SqliteStore;

use crate::database::{Database, Named};
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
    /// Print the script instead of running anything: for the kind of database that the URL names, which is
    /// not connected to, or for PostgreSQL without one
    #[arg(long)]
    print: bool,
    /// Print what is missing where the tables have this version (the newest in `outbox_schema`), instead of
    /// all of it
    #[arg(long, value_name = "VERSION", requires = "print", default_value_t = 0)]
    from: usize,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, partitioned, print, from } = options;
    let layout = partitioned.map_or(Layout::Flat, |period| Layout::Partitioned(period.into()));
    let named = if print && !database.is_named() {
        let (url, options) = (String::new(), database.postgres_options());
        Named::Postgres { url, options }
    } else {
        database.named()?
    };
    match named {
        Named::Postgres { mut options, .. } if print => {
            options.layout = layout;
            output::data(sendoff::postgres::upgrade_sql(&options, from)?.trim_end())?;
        }
        Named::Mysql { mut options, .. } if print => {
            if let Some(period) = partitioned {
                options.layout = sendoff::mysql::Layout::Partitioned(period.into());
            }
            output::data(sendoff::mysql::upgrade_sql(&options, from)?.trim_end())?;
        }
        Named::Sqlite { options, .. } if print => {
            refuse_partitions(partitioned.is_some())?;
            output::data(sendoff::sqlite::upgrade_sql(&options, from)?.trim_end())?;
        }
        Named::Postgres { url, mut options } => {
            options.layout = layout;
            let store = PostgresStore::connect_with(&url, options).await;
            let store = store.context("the database cannot be reached")?;
            let migrated = store.migrate().await;
            let migrated = migrated.context("the tables could not be brought up to date")?;
            output::note(&format!("{}: {migrated}", store.table()));
            store.close().await;
        }
        Named::Mysql { url, mut options } => {
            if let Some(period) = partitioned {
                options.layout = sendoff::mysql::Layout::Partitioned(period.into());
            }
            let store = MysqlStore::connect_with(&url, options).await;
            let store = store.context("the database cannot be reached")?;
            let migrated = store.migrate().await;
            let migrated = migrated.context("the tables could not be brought up to date")?;
            output::note(&format!("{}: {migrated}", store.table()));
            store.close().await;
        }
        Named::Sqlite { url, options } => {
            refuse_partitions(partitioned.is_some())?;
            let store = SqliteStore::open_url_with(&url, options).await;
            let store = store.context("the file could not be brought up to date")?;
            output::note(&format!("{}: {}", store.table(), store.migrated()));
            store.close().await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn refuse_partitions(wanted: bool) -> anyhow::Result<()> {
    if wanted {
        bail!("--partitioned is not for SQLite, which has no partitions");
    }
    Ok(())
}
