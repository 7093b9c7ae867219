//! The outbox's store, whichever it is.

use async_trait::async_trait;
use sendoff_engine::Outbox;
use sendoff_engine::capture::SendError;
use sendoff_engine::store::frame::Migrated;
use sendoff_engine::store::{
    Born, ClaimStore, Delegates, EndStore, InspectStore, KeyStore, LetterStore, LockStore, NewRow,
    ParkStore, PartitionSession, PartitionStore, PauseStore, RegisterStore, ReplayStore,
    RetainStore, SendStore, SettleStore, StoreError, WakeStore,
};

use super::{AnyOptions, DatabaseKind, OpenError};

/// Any of the stores that are switched on. Cheap to clone.
#[derive(Debug, Clone)]
#[non_exhaustive]
pub enum AnyStore {
    /// In PostgreSQL.
    #[cfg(feature = "postgres")]
    Postgres(sendoff_postgres::PostgresStore),
    /// In MySQL or MariaDB.
    #[cfg(feature = "mysql")]
    Mysql(sendoff_mysql::MysqlStore),
    /// In an SQLite file.
    #[cfg(feature = "sqlite")]
    Sqlite(sendoff_sqlite::SqliteStore),
}

impl AnyStore {
    /// Connects to the database that a URL names: `postgres://…`, `mysql://…`, `mariadb://…` or
    /// `sqlite:…`. An SQLite file is made, with its tables, where there is none; elsewhere that is for
    /// [`migrate`](Self::migrate).
    ///
    /// # Errors
    ///
    /// [`OpenError`] names a database that is not supported, also by what its server says of itself, and the
    /// feature that a URL needs.
    pub async fn connect(url: &str) -> Result<Self, OpenError> {
        Self::connect_with(url, &AnyOptions::default()).await
    }

    /// The same with options.
    pub async fn connect_with(url: &str, options: &AnyOptions) -> Result<Self, OpenError> {
        let kind = DatabaseKind::of(url)?;
        options.check(kind)?;
        match kind {
            #[cfg(feature = "postgres")]
            DatabaseKind::Postgres => {
                let store = sendoff_postgres::PostgresStore::connect_with(url, options.postgres());
                Ok(Self::Postgres(store.await?))
            }
            #[cfg(feature = "mysql")]
            DatabaseKind::Mysql => {
                let store = sendoff_mysql::MysqlStore::connect_with(url, options.mysql());
                Ok(Self::Mysql(store.await?))
            }
            #[cfg(feature = "sqlite")]
            DatabaseKind::Sqlite => {
                let store = sendoff_sqlite::SqliteStore::open_url_with(url, options.sqlite());
                Ok(Self::Sqlite(store.await?))
            }
            #[allow(unreachable_patterns, reason = "where every store is switched on")]
            kind => Err(OpenError::FeatureOff { kind }),
        }
    }

    /// The same for tools that look after an outbox which is there, and make nothing themselves.
    ///
    /// # Errors
    ///
    /// Besides what [`connect`](Self::connect) refuses: that there is no outbox, or one of an older version,
    /// with what to do.
    pub async fn connect_existing(url: &str, options: &AnyOptions) -> Result<Self, OpenError> {
        #[cfg(feature = "sqlite")]
        if DatabaseKind::of(url)? == DatabaseKind::Sqlite {
            options.check(DatabaseKind::Sqlite)?;
            let store = sendoff_sqlite::SqliteStore::open_existing_url(url, options.sqlite());
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

    /// Which kind of database it is in.
    pub fn kind(&self) -> DatabaseKind {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(_) => DatabaseKind::Postgres,
            #[cfg(feature = "mysql")]
            Self::Mysql(_) => DatabaseKind::Mysql,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => DatabaseKind::Sqlite,
        }
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

    /// The name of the table, ready to be put into SQL.
    pub fn table(&self) -> String {
        whichever!(AnyStore, self, store => store.table())
    }

    /// Ends its connections.
    pub async fn close(&self) {
        whichever!(AnyStore, self, store => store.close().await);
    }

    /// The same outbox, to write with a driver of PostgreSQL; `None` where it is in another database.
    #[cfg(feature = "postgres")]
    pub fn through_postgres(
        outbox: &Outbox<Self>,
    ) -> Option<Outbox<sendoff_postgres::PostgresStore>> {
        outbox.through(|store| match store {
            Self::Postgres(store) => Some(store.clone()),
            #[allow(unreachable_patterns, reason = "where it is the only one")]
            _ => None,
        })
    }

    /// The same outbox, to write with a driver of MySQL; `None` where it is in another database.
    #[cfg(feature = "mysql")]
    pub fn through_mysql(outbox: &Outbox<Self>) -> Option<Outbox<sendoff_mysql::MysqlStore>> {
        outbox.through(|store| match store {
            Self::Mysql(store) => Some(store.clone()),
            #[allow(unreachable_patterns, reason = "where it is the only one")]
            _ => None,
        })
    }

    /// The same outbox, to write with a driver of SQLite; `None` where it is in another database.
    #[cfg(feature = "sqlite")]
    pub fn through_sqlite(outbox: &Outbox<Self>) -> Option<Outbox<sendoff_sqlite::SqliteStore>> {
        outbox.through(|store| match store {
            Self::Sqlite(store) => Some(store.clone()),
            #[allow(unreachable_patterns, reason = "where it is the only one")]
            _ => None,
        })
    }
}

impl Delegates<dyn ClaimStore> for AnyStore {
    fn delegate(&self) -> &dyn ClaimStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn SettleStore> for AnyStore {
    fn delegate(&self) -> &dyn SettleStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn KeyStore> for AnyStore {
    fn delegate(&self) -> &dyn KeyStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn WakeStore> for AnyStore {
    fn delegate(&self) -> &dyn WakeStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn InspectStore> for AnyStore {
    fn delegate(&self) -> &dyn InspectStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn RetainStore> for AnyStore {
    fn delegate(&self) -> &dyn RetainStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn LetterStore> for AnyStore {
    fn delegate(&self) -> &dyn LetterStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn ParkStore> for AnyStore {
    fn delegate(&self) -> &dyn ParkStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn PauseStore> for AnyStore {
    fn delegate(&self) -> &dyn PauseStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn EndStore> for AnyStore {
    fn delegate(&self) -> &dyn EndStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn ReplayStore> for AnyStore {
    fn delegate(&self) -> &dyn ReplayStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn RegisterStore> for AnyStore {
    fn delegate(&self) -> &dyn RegisterStore {
        whichever!(AnyStore, self, store => store)
    }
}

impl Delegates<dyn LockStore> for AnyStore {
    fn delegate(&self) -> &dyn LockStore {
        whichever!(AnyStore, self, store => store)
    }
}

#[async_trait]
impl PartitionStore for AnyStore {
    async fn maintain(&self) -> Result<Option<Box<dyn PartitionSession>>, StoreError> {
        match self {
            #[cfg(feature = "postgres")]
            Self::Postgres(store) => store.maintain().await,
            #[cfg(feature = "mysql")]
            Self::Mysql(store) => store.maintain().await,
            #[cfg(feature = "sqlite")]
            Self::Sqlite(_) => Err(StoreError::Misconfigured {
                reason: "SQLite has no partitions; cleanup deletes what is over".into(),
            }),
        }
    }
}

impl SendStore for AnyStore {
    async fn send(&self, rows: &[NewRow]) -> Result<Vec<Born>, SendError> {
        whichever!(AnyStore, self, store => store.send(rows).await)
    }
}
