//! The journal's store, whichever it is.

use std::sync::Arc;

use sendoff_engine::journal::JournalStore;
use sendoff_engine::journal::publish::PublishStore;
use sendoff_engine::journal::retain::RetainJournalStore;
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::Migrated;

use super::{AnyJournalOptions, DatabaseKind, OpenError};

/// A journal's store that is any of those which are switched on. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AnyJournal {
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(sendoff_postgres::PostgresJournal),
    /// In MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    Mysql(sendoff_mysql::MysqlJournal),
    /// In an SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(sendoff_sqlite::SqliteJournal),
}

impl AnyJournal {
    /// Connects to the database that a URL names, as [`AnyStore::connect`](super::AnyStore::connect) does.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::connect_with(url, &AnyJournalOptions::default()).await
    }

    /// The same with options.
    pub async fn connect_with(url: &str, options: &AnyJournalOptions) -> Result<Self, OpenError> {
        let kind = DatabaseKind::of(url)?;
        options.check(kind)?;
        match kind {
            #[cfg(feature = "postgres")]
            DatabaseKind::Postgres => {
                let store =
                    sendoff_postgres::PostgresJournal::connect_with(url, options.postgres());
                Ok(Self::Postgres(store.await?))
            }
            #[cfg(feature = "mysql")]
            DatabaseKind::Mysql => {
                let store = sendoff_mysql::MysqlJournal::connect_with(url, options.mysql());
                Ok(Self::Mysql(store.await?))
            }
            #[cfg(feature = "sqlite")]
            DatabaseKind::Sqlite => {
                let store = sendoff_sqlite::SqliteJournal::open_url_with(url, options.sqlite());
                Ok(Self::Sqlite(store.await?))
            }
            #[allow(unreachable_patterns, reason = "where every store is switched on")]
            kind => Err(OpenError::FeatureOff { kind }),
        }
    }

    /// The same for tools that look after a journal which is there, and make nothing themselves.
    pub async fn connect_existing(
        url: &str,
        options: &AnyJournalOptions,
    ) -> Result<Self, OpenError> {
        #[cfg(feature = "sqlite")]
        if DatabaseKind::of(url)? == DatabaseKind::Sqlite {
            options.check(DatabaseKind::Sqlite)?;
            let store = sendoff_sqlite::SqliteJournal::open_existing_url(url, options.sqlite());
            return Ok(Self::Sqlite(store.await?));
        }
        let store = Self::connect_with(url, options).await?;
        match &store {
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.check_installed().await?,
            #[cfg(feature = "mysql")]
            Self::Mysql(store) => store.check_installed().await?,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => {}
        }
        Ok(store)
    }

    /// Installs the tables, or brings them up to date. Those of an SQLite file are, since it was opened.
    pub async fn migrate(&self) -> Result<Migrated, StoreError> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.migrate().await,
            #[cfg(feature = "mysql")]
            Self::Mysql(store) => store.migrate().await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(store) => Ok(store.migrated()),
        }
    }

    /// The name of the log's table, ready to be put into SQL.
    pub fn table(&self) -> String {
        whichever!(AnyJournal, self, store => store.table())
    }

    /// Ends its connections.
    pub async fn close(&self) {
        whichever!(AnyJournal, self, store => store.close().await);
    }

    /// To append to and to read: `Journal::new(any.reading())`.
    pub fn reading(&self) -> Arc<dyn JournalStore> {
        whichever!(AnyJournal, self, store => Arc::new(store.clone()))
    }

    /// To publish from, and to operate publishers.
    pub fn publishing(&self) -> Arc<dyn PublishStore> {
        whichever!(AnyJournal, self, store => Arc::new(store.clone()))
    }

    /// To let facts go from.
    pub fn retaining(&self) -> Arc<dyn RetainJournalStore> {
        whichever!(AnyJournal, self, store => Arc::new(store.clone()))
    }
}
