//! Where the demo keeps its things: in a file, or in tables of its own on a server.

mod desk;
mod file;
mod mysql;
mod postgres;
mod text;

use sendoff::any::{AnyOptions, AnyStore, DatabaseKind};
use sendoff::{Ident, Outbox};

pub(crate) use self::desk::{Desk, Earlier, End, NewOrder};
use self::file::DemoFile;
pub(crate) use self::mysql::ServerRecord as MysqlRecord;
pub(crate) use self::postgres::ServerRecord as PostgresRecord;
use super::options::Options;
use super::record::Record;
use crate::database::told;

/// The database, its outbox, and the handler's record.
#[derive(Debug)]
pub(crate) enum Place {
    File(DemoFile),
    Postgres(postgres::Server),
    Mysql(mysql::Server),
}

impl Place {
    /// Makes what the demo needs, or finds what an earlier one left. Nothing that is there already is
    /// touched, unless a demo made it.
    pub(crate) async fn prepare(options: &Options) -> anyhow::Result<Self> {
        let Some(url) = options.server() else {
            return Ok(Self::File(DemoFile::prepare(options).await?));
        };
        let name = &options.name;
        let (mut schema, mut prefix) = (None, None);
        let kind = DatabaseKind::of(url).map_err(|error| told(url, error))?;
        match kind {
            DatabaseKind::Postgres => schema = Some(name.clone()),
            // Short enough to be a name with what comes after it.
            _ => prefix = Some(Ident::new(format!("{name}_"))?),
        }
        let tables = AnyOptions { schema, prefix, ..AnyOptions::default() };
        let store = AnyStore::connect_with(url, &tables).await.map_err(|error| told(url, error))?;
        match kind {
            DatabaseKind::Postgres => {
                Ok(Self::Postgres(postgres::Server::prepare(options, url, store).await?))
            }
            _ => Ok(Self::Mysql(mysql::Server::prepare(options, url, store).await?)),
        }
    }

    pub(crate) fn store(&self) -> &AnyStore {
        match self {
            Self::File(file) => &file.store,
            Self::Postgres(server) => &server.store,
            Self::Mysql(server) => &server.store,
        }
    }

    /// What it is, for people.
    pub(crate) fn described(&self) -> String {
        match self {
            Self::File(file) => file.described(),
            Self::Postgres(server) => server.described(),
            Self::Mysql(server) => server.described(),
        }
    }

    /// A connection that writes through this outbox.
    pub(crate) async fn desk(&self, outbox: &Outbox<AnyStore>) -> anyhow::Result<Box<dyn Desk>> {
        match self {
            Self::File(file) => file.desk(outbox),
            Self::Postgres(server) => server.desk(outbox).await,
            Self::Mysql(server) => server.desk(outbox).await,
        }
    }

    /// What the handler received.
    pub(crate) async fn record(&self) -> anyhow::Result<Record> {
        match self {
            Self::File(file) => Ok(Record::File(file.record()?)),
            Self::Postgres(server) => Ok(Record::Postgres(server.record().await?)),
            Self::Mysql(server) => Ok(Record::Mysql(server.record().await?)),
        }
    }

    /// What is there after the end: what is left is for `--resume`, or for whoever wants to look.
    pub(crate) fn what_is_left(&self) -> Option<String> {
        match self {
            Self::File(file) => file.what_is_left(),
            Self::Postgres(server) => Some(server.what_is_left()),
            Self::Mysql(server) => Some(server.what_is_left()),
        }
    }

    /// Removes what nobody named or asked to keep, and says so, or what is left.
    pub(crate) async fn remove(&self) -> anyhow::Result<Option<String>> {
        match self {
            // A temporary one goes by itself, and another is the user's.
            Self::File(file) => Ok(file.what_is_left()),
            Self::Postgres(server) => server.remove().await.map(Some),
            Self::Mysql(server) => server.remove().await.map(Some),
        }
    }
}
