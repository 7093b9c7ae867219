//! Which database a command works on.

use anyhow::Context;
use clap::Args;
use sendoff::Ident;
use sendoff::any::{AnyJournalOptions, AnyOptions, AnyStore, DatabaseKind, OpenError};
use sendoff::event::InvalidIdent;
use sendoff::store::StoreError;

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

pub(crate) fn ident(name: &str) -> Result<Ident, InvalidIdent> {
    Ident::new(name)
}

impl Database {
    /// How the outbox in it works.
    pub(crate) fn options(&self) -> AnyOptions {
        let (schema, prefix) = (self.schema.clone(), self.prefix.clone());
        AnyOptions { schema, prefix, ..AnyOptions::default() }
    }

    /// How the journal in it works.
    pub(crate) fn journal_options(&self) -> AnyJournalOptions {
        let (schema, prefix) = (self.schema.clone(), self.prefix.clone());
        AnyJournalOptions { schema, prefix, connections: 2, ..AnyJournalOptions::default() }
    }

    /// The URL may hold a password: no message shows it.
    pub(crate) fn url(&self) -> anyhow::Result<String> {
        self.named().context(
            "which database? Set SENDOFF_DATABASE_URL or DATABASE_URL, or give --database-url",
        )
    }

    /// An application's own variable comes last: who operates several databases names ours.
    fn named(&self) -> Option<String> {
        let applications = || std::env::var("DATABASE_URL").ok().filter(|url| !url.is_empty());
        self.database_url.clone().or_else(applications)
    }

    /// For a script: the kind that the URL names, or PostgreSQL without one.
    pub(crate) fn kind(&self) -> Result<DatabaseKind, OpenError> {
        self.named().map_or(Ok(DatabaseKind::Postgres), |url| DatabaseKind::of(&url))
    }

    /// An outbox that is there, whatever it lives in.
    pub(crate) async fn outbox(&self) -> anyhow::Result<AnyStore> {
        let url = self.url()?;
        AnyStore::connect_existing(&url, &self.options()).await.map_err(|error| told(&url, error))
    }
}

/// What could not be done with a database, beside why.
pub(crate) fn told(url: &str, error: OpenError) -> anyhow::Error {
    let is_file = DatabaseKind::of(url).is_ok_and(|kind| kind == DatabaseKind::Sqlite);
    match &error {
        OpenError::Store(
            StoreError::NotInstalled { .. }
            | StoreError::Schema { .. }
            | StoreError::Misconfigured { .. },
        ) if !is_file => error.into(),
        OpenError::Store(_) if is_file => {
            anyhow::Error::new(error).context("the file cannot be opened")
        }
        OpenError::Store(_) => anyhow::Error::new(error).context("the database cannot be reached"),
        _ => error.into(),
    }
}
