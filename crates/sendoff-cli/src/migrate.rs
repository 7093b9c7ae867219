//! `sendoff migrate`: brings the tables of an outbox up to date, or shows what would be run.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use sendoff::mysql::MysqlStore;
use sendoff::postgres::{Layout, PostgresStore, migration_sql};
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
    sendoff migrate --database-url sqlite:shop.db")]
pub(crate) struct Options {
    #[command(flatten)]
    database: Database,
    /// Make the table in partitions of this size, which `sendoff partitions` then keeps. A table that
    /// is there cannot be changed to it
    #[arg(long, value_name = "PERIOD")]
    partitioned: Option<PeriodOption>,
    /// Print the PostgreSQL script for an empty database instead of running anything
    #[arg(long)]
    print: bool,
}

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database, partitioned, print } = options;
    let layout = partitioned.map_or(Layout::Flat, |period| Layout::Partitioned(period.into()));
    if print {
        let postgres = sendoff::postgres::PostgresOptions { layout, ..database.postgres_options() };
        output::data(migration_sql(&postgres)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    match database.named()? {
        Named::Postgres { url, mut options } => {
            options.layout = layout;
            let store = PostgresStore::connect_with(&url, options).await;
            let store = store.context("the database cannot be reached")?;
            store.migrate().await.context("the tables could not be brought up to date")?;
            output::note(&format!("{} is up to date", store.table()));
            store.close().await;
        }
        Named::Mysql { url, mut options } => {
            if let Some(period) = partitioned {
                options.layout = sendoff::mysql::Layout::Partitioned(period.into());
            }
            let store = MysqlStore::connect_with(&url, options).await;
            let store = store.context("the database cannot be reached")?;
            store.migrate().await.context("the tables could not be brought up to date")?;
            output::note(&format!("{} is up to date", store.table()));
            store.close().await;
        }
        Named::Sqlite { url, options } => {
            if partitioned.is_some() {
                bail!("--partitioned is not for SQLite, which has no partitions");
            }
            let store = SqliteStore::open_url_with(&url, options).await;
            let store = store.context("the file could not be brought up to date")?;
            output::note(&format!("{} is up to date", store.table()));
            store.close().await;
        }
    }
    Ok(ExitCode::SUCCESS)
}
