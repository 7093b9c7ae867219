//! `sendoff migrate`: brings the tables of an outbox up to date, or shows what would be run.

use std::process::ExitCode;

use anyhow::{Context, bail};
use clap::Args;
use sendoff::Ident;
use sendoff::postgres::{PostgresOptions, PostgresStore, migration_sql};
use sendoff::sqlite::{SqliteOptions, SqliteStore};

use crate::output;

/// Bring the tables of an outbox up to date
///
/// Safe to run from several places at once: one does the work, the others find it done. A schema made
/// by a newer version is refused and left as it is.
#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  \
    SENDOFF_DATABASE_URL=postgres://app@db/shop sendoff migrate\n  \
    sendoff migrate --print --schema outbox > outbox.sql\n  \
    sendoff migrate --database-url sqlite:shop.db")]
pub(crate) struct Options {
    /// The database: `postgres://…` or `sqlite:…`. Better given by the environment, where other users
    /// of the machine do not see it
    #[arg(long, value_name = "URL", env = "SENDOFF_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The PostgreSQL schema that everything lives in
    #[arg(long, value_name = "NAME", value_parser = ident, env = "SENDOFF_SCHEMA")]
    schema: Option<Ident>,
    /// What the names of all tables begin with
    #[arg(long, value_name = "PREFIX", value_parser = ident, env = "SENDOFF_PREFIX")]
    prefix: Option<Ident>,
    /// Print the PostgreSQL script for an empty database instead of running anything
    #[arg(long)]
    print: bool,
}

fn ident(name: &str) -> Result<Ident, sendoff::InvalidIdent> {
    Ident::new(name)
}

pub(crate) async fn run(options: Options) -> anyhow::Result<ExitCode> {
    let Options { database_url, schema, prefix, print } = options;
    let postgres =
        PostgresOptions { schema: schema.clone(), prefix: prefix.clone(), ..Default::default() };
    if print {
        output::data(migration_sql(&postgres)?.trim_end())?;
        return Ok(ExitCode::SUCCESS);
    }
    let Some(url) = database_url else {
        bail!("which database? Set SENDOFF_DATABASE_URL or give --database-url");
    };
    // The URL may hold a password, so no message shows it.
    match url.split_once(':').map_or("", |(scheme, _)| scheme) {
        "postgres" | "postgresql" => {
            let store = PostgresStore::connect_with(&url, postgres).await;
            let store = store.context("the database cannot be reached")?;
            store.migrate().await.context("the tables could not be brought up to date")?;
            output::note(&format!("{} is up to date", store.table()));
            store.close().await;
        }
        "sqlite" => {
            if schema.is_some() {
                bail!("--schema is for PostgreSQL: an SQLite file has one schema");
            }
            let sqlite = SqliteOptions { prefix, ..SqliteOptions::default() };
            let store = SqliteStore::open_url_with(&url, sqlite).await;
            let store = store.context("the file could not be brought up to date")?;
            output::note(&format!("{} is up to date", store.table()));
            store.close().await;
        }
        _ => bail!("a database URL begins with `postgres://` or `sqlite:`"),
    }
    Ok(ExitCode::SUCCESS)
}
