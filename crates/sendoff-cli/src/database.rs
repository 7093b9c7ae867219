//! Which database a command works on.

use anyhow::{Context, bail};
use clap::Args;
use sendoff::mysql::{MysqlOptions, MysqlStore};
use sendoff::postgres::{PostgresOptions, PostgresStore};
use sendoff::sqlite::{SqliteOptions, SqliteStore};
use sendoff::{Ident, InvalidIdent};

#[derive(Debug, Clone, Args)]
pub(crate) struct Database {
    /// The database: `postgres://…`, `mysql://…`, `mariadb://…` or `sqlite:…`. Better given by the
    /// environment, where other users of the machine do not see it; DATABASE_URL is read where neither
    /// names one
    #[arg(long, value_name = "URL", env = "SENDOFF_DATABASE_URL", hide_env_values = true)]
    database_url: Option<String>,
    /// The PostgreSQL schema that everything lives in
    #[arg(long, value_name = "NAME", value_parser = ident, env = "SENDOFF_SCHEMA")]
    schema: Option<Ident>,
    /// What the names of all tables begin with
    #[arg(long, value_name = "PREFIX", value_parser = ident, env = "SENDOFF_PREFIX")]
    prefix: Option<Ident>,
}

fn ident(name: &str) -> Result<Ident, InvalidIdent> {
    Ident::new(name)
}

/// A database by its kind, with the URL that names it. The URL may hold a password: no message shows
/// it.
pub(crate) enum Named {
    Postgres { url: String, options: PostgresOptions },
    Mysql { url: String, options: MysqlOptions },
    Sqlite { url: String, options: SqliteOptions },
}

impl Database {
    /// The options of a PostgreSQL store, also where no database is named.
    pub(crate) fn postgres_options(&self) -> PostgresOptions {
        let (schema, prefix) = (self.schema.clone(), self.prefix.clone());
        PostgresOptions { schema, prefix, ..PostgresOptions::default() }
    }

    /// Whether a database is named at all.
    pub(crate) fn is_named(&self) -> bool {
        self.url().is_some()
    }

    /// An application's own variable comes last: who operates several databases names ours.
    fn url(&self) -> Option<String> {
        let applications = || std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
        self.database_url.clone().or_else(applications)
    }

    pub(crate) fn named(self) -> anyhow::Result<Named> {
        let options = self.postgres_options();
        let Some(url) = self.url() else {
            bail!(
                "which database? Set SENDOFF_DATABASE_URL or DATABASE_URL, or give --database-url"
            );
        };
        match url.split_once(':').map_or("", |(scheme, _)| scheme) {
            "postgres" | "postgresql" => Ok(Named::Postgres { url, options }),
            "mysql" | "mariadb" | "sqlite" if self.schema.is_some() => {
                bail!("--schema is for PostgreSQL: other databases have one schema")
            }
            "mysql" | "mariadb" => {
                let options = MysqlOptions { prefix: self.prefix, ..MysqlOptions::default() };
                Ok(Named::Mysql { url, options })
            }
            "sqlite" => {
                let options = SqliteOptions { prefix: self.prefix, ..SqliteOptions::default() };
                Ok(Named::Sqlite { url, options })
            }
            _ => bail!(
                "a database URL begins with `postgres://`, `mysql://`, `mariadb://` or `sqlite:`"
            ),
        }
    }
}

/// Connects to an outbox that is there.
pub(crate) async fn connect(url: &str, options: PostgresOptions) -> anyhow::Result<PostgresStore> {
    let store = PostgresStore::connect_with(url, options).await;
    let store = store.context("the database cannot be reached")?;
    store.check_installed().await?;
    Ok(store)
}

/// Connects to an outbox that is there.
pub(crate) async fn connect_mysql(url: &str, options: MysqlOptions) -> anyhow::Result<MysqlStore> {
    let store = MysqlStore::connect_with(url, options).await;
    let store = store.context("the database cannot be reached")?;
    store.check_installed().await?;
    Ok(store)
}

/// Opens the file of an outbox that is there.
pub(crate) async fn open(url: &str, options: SqliteOptions) -> anyhow::Result<SqliteStore> {
    SqliteStore::open_existing_url(url, options).await.context("the file cannot be opened")
}
