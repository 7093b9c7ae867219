//! The one place that knows which databases have a journal.

use std::sync::Arc;

use anyhow::{Context, bail};
use sendoff::journal::publish::{PublishStore, Publishers};
use sendoff::journal::retain::RetainJournalStore;
use sendoff::journal::{Journal, JournalStore};
use sendoff::mysql::{MysqlJournal, MysqlOptions};
use sendoff::postgres::{JournalLayout, JournalOptions, PostgresJournal, PostgresOptions};
use sendoff::sqlite::SqliteJournal;

use crate::database::{Database, Named};

/// A journal that is there, whatever it lives in.
pub(crate) struct Opened {
    pub(crate) journal: Journal<Arc<dyn JournalStore>>,
    pub(crate) publishers: Publishers<Arc<dyn PublishStore>>,
}

impl Opened {
    pub(crate) async fn of(database: Database) -> anyhow::Result<Self> {
        match database.named()? {
            Named::Postgres { url, options } => {
                let store = connect(&url, options, JournalLayout::Flat).await?;
                store.check_installed().await.context(MIGRATE)?;
                Ok(Self::publishing(store))
            }
            Named::Mysql { url, options } => {
                let store = connect_mysql(&url, options).await?;
                store.check_installed().await.context(MIGRATE)?;
                Ok(Self::publishing(store))
            }
            Named::Sqlite { url, options } => {
                let store = SqliteJournal::open_existing_url(&url, options).await;
                Ok(Self::publishing(store.context(MIGRATE)?))
            }
        }
    }

    fn publishing(store: impl PublishStore) -> Self {
        let store = Arc::new(store);
        let publishers = Journal::new(Arc::clone(&store) as Arc<dyn PublishStore>).publishers();
        Self { journal: Journal::new(store), publishers }
    }
}

/// A journal that is there, from which facts can go.
pub(super) async fn retaining(database: Database) -> anyhow::Result<Arc<dyn RetainJournalStore>> {
    Ok(match database.named()? {
        Named::Postgres { url, options } => {
            let store = connect(&url, options, JournalLayout::Flat).await?;
            store.check_installed().await.context(MIGRATE)?;
            Arc::new(store)
        }
        Named::Mysql { url, options } => {
            let store = connect_mysql(&url, options).await?;
            store.check_installed().await.context(MIGRATE)?;
            Arc::new(store)
        }
        Named::Sqlite { url, options } => {
            let store = SqliteJournal::open_existing_url(&url, options).await;
            Arc::new(store.context(MIGRATE)?)
        }
    })
}

/// Makes the tables, or brings them up to date. Answers their name, with what could not be made.
pub(super) async fn migrate(
    database: Database,
    layout: JournalLayout,
) -> anyhow::Result<(String, Option<&'static str>)> {
    const WHAT: &str = "the tables could not be brought up to date";
    match database.named()? {
        Named::Postgres { url, options } => {
            let store = connect(&url, options, layout).await?;
            store.migrate().await.context(WHAT)?;
            store.close().await;
            Ok((store.table(), None))
        }
        Named::Mysql { .. } if layout != JournalLayout::Flat => {
            bail!("--partitioned is for PostgreSQL: on MySQL and MariaDB a journal is one table")
        }
        Named::Mysql { url, options } => {
            let store = connect_mysql(&url, options).await?;
            let migrated = store.migrate().await.context(WHAT)?;
            store.close().await;
            Ok((store.table(), migrated.without))
        }
        Named::Sqlite { .. } if layout != JournalLayout::Flat => {
            bail!("--partitioned is not for SQLite, which has no partitions")
        }
        Named::Sqlite { url, options } => {
            let store = SqliteJournal::open_url_with(&url, options).await.context(WHAT)?;
            store.close().await;
            Ok((store.table().to_owned(), None))
        }
    }
}

const MIGRATE: &str = "there is no journal to work on; `sendoff journal migrate` makes one";

async fn connect(
    url: &str,
    server: PostgresOptions,
    layout: JournalLayout,
) -> anyhow::Result<PostgresJournal> {
    let options = JournalOptions { server, layout, connections: 2, ..JournalOptions::default() };
    let store = PostgresJournal::connect_with(url, options).await;
    store.context("the database cannot be reached")
}

async fn connect_mysql(url: &str, server: MysqlOptions) -> anyhow::Result<MysqlJournal> {
    use sendoff::mysql::JournalOptions;

    let options = JournalOptions { server, connections: 2, ..JournalOptions::default() };
    let store = MysqlJournal::connect_with(url, options).await;
    store.context("the database cannot be reached")
}
