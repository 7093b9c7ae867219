//! What every kind of store can be told.

use sendoff_core::Ident;
use sendoff_core::journal::retain::Ranges;
use sendoff_engine::store::{Layout, Payloads, Retention};

use super::{DatabaseKind, OpenError};

/// How a store works, whichever it is. Each of them has options of its own besides, for who opens that one.
#[derive(Debug, Clone, Default)]
pub struct AnyOptions {
    /// The schema that everything lives in. PostgreSQL only.
    pub schema: Option<Ident>,
    /// Put before every name.
    pub prefix: Option<Ident>,
    /// How the table is laid out where it is made. Not for SQLite, which has no partitions.
    pub layout: Layout,
    /// What the table takes for a payload where it is made. Only MySQL and MariaDB can refuse what is no
    /// JSON.
    pub payloads: Payloads,
    /// What becomes of delivered rows.
    pub retention: Retention,
    /// Whether the index is made that claims need which are shared among tenants
    /// ([`fair`](sendoff_engine::OutboxOptions::fair)), where tables are made or brought up to date.
    pub tenant_index: bool,
}

impl AnyOptions {
    /// Refuses what this kind of database has not.
    pub(super) fn check(&self, kind: DatabaseKind) -> Result<(), OpenError> {
        check_schema(self.schema.as_ref(), kind)?;
        if kind == DatabaseKind::Sqlite && self.layout != Layout::Flat {
            return Err(unfit(kind, "partitions are for PostgreSQL, MySQL and MariaDB"));
        }
        if kind != DatabaseKind::Mysql && self.payloads != Payloads::Binary {
            return Err(unfit(kind, "payloads of JSON only are for MySQL and MariaDB"));
        }
        Ok(())
    }

    #[cfg(feature = "postgres")]
    pub(super) fn postgres(&self) -> sendoff_postgres::PostgresOptions {
        sendoff_postgres::PostgresOptions {
            schema: self.schema.clone(),
            prefix: self.prefix.clone(),
            layout: self.layout,
            retention: self.retention,
            tenant_index: self.tenant_index,
            ..Default::default()
        }
    }

    #[cfg(feature = "mysql")]
    pub(super) fn mysql(&self) -> sendoff_mysql::MysqlOptions {
        sendoff_mysql::MysqlOptions {
            prefix: self.prefix.clone(),
            layout: self.layout,
            payloads: self.payloads,
            retention: self.retention,
            tenant_index: self.tenant_index,
            ..Default::default()
        }
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite(&self) -> sendoff_sqlite::SqliteOptions {
        sendoff_sqlite::SqliteOptions {
            prefix: self.prefix.clone(),
            retention: self.retention,
            tenant_index: self.tenant_index,
            ..Default::default()
        }
    }

    /// Everything that makes the tables of an outbox in a database of this kind, or brings those of the
    /// version `from` up to date (the newest in `outbox_schema`; 0 for none), as a script. Nothing is
    /// connected to.
    pub fn upgrade_sql(&self, kind: DatabaseKind, from: usize) -> Result<String, OpenError> {
        self.check(kind)?;
        match kind {
            #[cfg(feature = "postgres")]
            DatabaseKind::Postgres => Ok(sendoff_postgres::upgrade_sql(&self.postgres(), from)?),
            #[cfg(feature = "mysql")]
            DatabaseKind::Mysql => Ok(sendoff_mysql::upgrade_sql(&self.mysql(), from)?),
            #[cfg(feature = "sqlite")]
            DatabaseKind::Sqlite => Ok(sendoff_sqlite::upgrade_sql(&self.sqlite(), from)?),
            #[allow(unreachable_patterns, reason = "where every store is switched on")]
            kind => Err(OpenError::FeatureOff { kind }),
        }
    }
}

/// How a journal works, whichever store it is in.
#[derive(Debug, Clone)]
pub struct AnyJournalOptions {
    /// The schema that everything lives in. PostgreSQL only.
    pub schema: Option<Ident>,
    /// Put before every name.
    pub prefix: Option<Ident>,
    /// Partitions of these ranges of positions, where the tables are made; `None` for one table.
    /// PostgreSQL only.
    pub partitions: Option<Ranges>,
    /// Connections that appends and reads share. SQLite has its own.
    pub connections: usize,
}

impl Default for AnyJournalOptions {
    /// No schema, no prefix, no partitions, 8 connections.
    fn default() -> Self {
        Self { schema: None, prefix: None, partitions: None, connections: 8 }
    }
}

impl AnyJournalOptions {
    /// Refuses what this kind of database has not.
    pub(super) fn check(&self, kind: DatabaseKind) -> Result<(), OpenError> {
        check_schema(self.schema.as_ref(), kind)?;
        if kind != DatabaseKind::Postgres && self.partitions.is_some() {
            return Err(unfit(kind, "a journal in partitions is for PostgreSQL"));
        }
        Ok(())
    }

    #[cfg(feature = "postgres")]
    pub(super) fn postgres(&self) -> sendoff_postgres::JournalOptions {
        use sendoff_postgres::{JournalLayout, JournalOptions, PostgresOptions};

        let (schema, prefix) = (self.schema.clone(), self.prefix.clone());
        JournalOptions {
            server: PostgresOptions { schema, prefix, ..Default::default() },
            layout: self.partitions.map_or(JournalLayout::Flat, JournalLayout::Partitioned),
            connections: self.connections,
            ..Default::default()
        }
    }

    #[cfg(feature = "mysql")]
    pub(super) fn mysql(&self) -> sendoff_mysql::JournalOptions {
        let server =
            sendoff_mysql::MysqlOptions { prefix: self.prefix.clone(), ..Default::default() };
        let connections = self.connections;
        sendoff_mysql::JournalOptions { server, connections, ..Default::default() }
    }

    #[cfg(feature = "sqlite")]
    pub(super) fn sqlite(&self) -> sendoff_sqlite::SqliteOptions {
        sendoff_sqlite::SqliteOptions { prefix: self.prefix.clone(), ..Default::default() }
    }

    /// The same as [`AnyOptions::upgrade_sql`], of a journal: its versions are in `journal_schema`.
    pub fn upgrade_sql(&self, kind: DatabaseKind, from: usize) -> Result<String, OpenError> {
        self.check(kind)?;
        match kind {
            #[cfg(feature = "postgres")]
            DatabaseKind::Postgres => {
                Ok(sendoff_postgres::journal_upgrade_sql(&self.postgres(), from)?)
            }
            #[cfg(feature = "mysql")]
            DatabaseKind::Mysql => Ok(sendoff_mysql::journal_upgrade_sql(&self.mysql(), from)?),
            #[cfg(feature = "sqlite")]
            DatabaseKind::Sqlite => Ok(sendoff_sqlite::journal_upgrade_sql(&self.sqlite(), from)?),
            #[allow(unreachable_patterns, reason = "where every store is switched on")]
            kind => Err(OpenError::FeatureOff { kind }),
        }
    }
}

fn check_schema(schema: Option<&Ident>, kind: DatabaseKind) -> Result<(), OpenError> {
    if schema.is_some() && kind != DatabaseKind::Postgres {
        return Err(unfit(kind, "a schema is for PostgreSQL"));
    }
    Ok(())
}

fn unfit(kind: DatabaseKind, what: &'static str) -> OpenError {
    OpenError::Unfit { kind, what }
}
