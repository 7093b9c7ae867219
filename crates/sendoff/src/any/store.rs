//! The outbox's store, whichever it is.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::doctor::ForgetfulSetting;
use sendoff_core::{AuditNote, EventId, Letter, LetterFate, Pause, PauseScope, Timestamp};
use sendoff_engine::Outbox;
use sendoff_engine::capture::SendError;
use sendoff_engine::store::frame::Migrated;
use sendoff_engine::store::{
    AuditEntry, AuditPage, Born, ChangeLetters, Claim, ClaimStore, Claims, Counts, EventKind,
    EventRecord, Extended, Held, InspectStore, Lateness, LetterPage, LetterStore, Lock, LockStore,
    LockedRows, NewRow, PartitionSession, PartitionStore, PauseStore, PayloadWanted, Purge, Purged,
    RegisterStore, Registered, RetainStore, Row, SendStore, SettleStore, Settled, Settlement,
    StoreError, TopicCounts, WakeStore,
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

#[async_trait]
impl ClaimStore for AnyStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        whichever!(AnyStore, self, store => store.claim(claim).await)
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        whichever!(AnyStore, self, store => store.confirm(holds).await)
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        whichever!(AnyStore, self, store => store.rescue(longest).await)
    }

    fn epoch(&self) -> u64 {
        whichever!(AnyStore, self, store => store.epoch())
    }
}

#[async_trait]
impl SettleStore for AnyStore {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        whichever!(AnyStore, self, store => store.settle(batch).await)
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        whichever!(AnyStore, self, store => store.extend(holds, hold).await)
    }
}

#[async_trait]
impl WakeStore for AnyStore {
    async fn arm(&self) -> Result<bool, StoreError> {
        whichever!(AnyStore, self, store => store.arm().await)
    }

    async fn disarm(&self) -> Result<(), StoreError> {
        whichever!(AnyStore, self, store => store.disarm().await)
    }

    async fn rung(&self) {
        whichever!(AnyStore, self, store => store.rung().await)
    }
}

#[async_trait]
impl InspectStore for AnyStore {
    async fn check_ready(&self) -> Result<(), StoreError> {
        whichever!(AnyStore, self, store => store.check_ready().await)
    }

    async fn find(&self, id: EventId) -> Result<Option<Row>, StoreError> {
        whichever!(AnyStore, self, store => store.find(id).await)
    }

    async fn peek(&self, limit: usize) -> Result<Vec<Row>, StoreError> {
        whichever!(AnyStore, self, store => store.peek(limit).await)
    }

    async fn counts(&self) -> Result<Counts, StoreError> {
        whichever!(AnyStore, self, store => store.counts().await)
    }

    async fn topics(&self) -> Result<Vec<TopicCounts>, StoreError> {
        whichever!(AnyStore, self, store => store.topics().await)
    }

    async fn lateness(&self) -> Result<Lateness, StoreError> {
        whichever!(AnyStore, self, store => store.lateness().await)
    }

    async fn forgetful(&self) -> Result<Vec<ForgetfulSetting>, StoreError> {
        whichever!(AnyStore, self, store => store.forgetful().await)
    }

    async fn first_due(&self) -> Result<Timestamp, StoreError> {
        whichever!(AnyStore, self, store => store.first_due().await)
    }
}

#[async_trait]
impl RetainStore for AnyStore {
    fn keeps(&self) -> Option<Duration> {
        whichever!(AnyStore, self, store => store.keeps())
    }

    async fn purge(&self, purge: &Purge) -> Result<Purged, StoreError> {
        whichever!(AnyStore, self, store => store.purge(purge).await)
    }

    async fn fold(&self) -> Result<u64, StoreError> {
        whichever!(AnyStore, self, store => store.fold().await)
    }

    async fn purgeable(&self, purge: &Purge) -> Result<Purged, StoreError> {
        whichever!(AnyStore, self, store => store.purgeable(purge).await)
    }
}

#[async_trait]
impl LetterStore for AnyStore {
    async fn clock(&self) -> Result<Timestamp, StoreError> {
        whichever!(AnyStore, self, store => store.clock().await)
    }

    async fn letters(&self, page: &LetterPage<'_>) -> Result<Vec<Letter>, StoreError> {
        whichever!(AnyStore, self, store => store.letters(page).await)
    }

    async fn count_letters(&self, page: &LetterPage<'_>) -> Result<u64, StoreError> {
        whichever!(AnyStore, self, store => store.count_letters(page).await)
    }

    async fn record(
        &self,
        id: EventId,
        payload: PayloadWanted,
    ) -> Result<Option<EventRecord>, StoreError> {
        whichever!(AnyStore, self, store => store.record(id, payload).await)
    }

    async fn change_letters(
        &self,
        change: &ChangeLetters<'_>,
    ) -> Result<Vec<LetterFate>, StoreError> {
        whichever!(AnyStore, self, store => store.change_letters(change).await)
    }

    async fn audit(&self, page: &AuditPage) -> Result<Vec<AuditEntry>, StoreError> {
        whichever!(AnyStore, self, store => store.audit(page).await)
    }
}

#[async_trait]
impl PauseStore for AnyStore {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        whichever!(AnyStore, self, store => store.pauses().await)
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        whichever!(AnyStore, self, store => store.pause(scope, note).await)
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        whichever!(AnyStore, self, store => store.resume(scope, note).await)
    }

    async fn pauses_changed(&self) {
        whichever!(AnyStore, self, store => store.pauses_changed().await)
    }
}

#[async_trait]
impl RegisterStore for AnyStore {
    async fn register(&self, kinds: &[EventKind<'_>], lately: Duration) -> Registered {
        whichever!(AnyStore, self, store => store.register(kinds, lately).await)
    }
}

#[async_trait]
impl LockStore for AnyStore {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        whichever!(AnyStore, self, store => store.lock(lock).await)
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
