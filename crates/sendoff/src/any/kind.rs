//! Which kind of database a URL names.

use std::fmt;

use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::Unsupported;

/// A kind of database that there is a store for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DatabaseKind {
    /// PostgreSQL.
    Postgres,
    /// MySQL or MariaDB.
    Mysql,
    /// SQLite.
    Sqlite,
}

impl DatabaseKind {
    /// The one whose scheme a URL begins with: `postgres`, `postgresql`, `mysql`, `mariadb` or `sqlite`.
    /// Nothing is connected to. A scheme is enough: `mysql:` names a kind and no server.
    pub fn of(url: &str) -> Result<Self, OpenError> {
        let (scheme, _) = url.split_once(':').ok_or(OpenError::NoDatabase)?;
        match scheme.to_ascii_lowercase().as_str() {
            "postgres" | "postgresql" => Ok(Self::Postgres),
            "mysql" | "mariadb" => Ok(Self::Mysql),
            "sqlite" => Ok(Self::Sqlite),
            other => {
                Err(Unsupported::by_scheme(other)
                    .map_or(OpenError::NoDatabase, OpenError::Unsupported))
            }
        }
    }

    /// The feature of this crate that switches its store on.
    pub const fn feature(self) -> &'static str {
        match self {
            Self::Postgres => "postgres",
            Self::Mysql => "mysql",
            Self::Sqlite => "sqlite",
        }
    }
}

impl fmt::Display for DatabaseKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Postgres => "PostgreSQL",
            Self::Mysql => "MySQL or MariaDB",
            Self::Sqlite => "SQLite",
        })
    }
}

/// Why a store was not opened. No message shows the URL, which may hold a password.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL names a database that there is no store for.
    #[error(transparent)]
    Unsupported(Unsupported),
    /// The URL names no database that is known.
    #[error("a database URL begins with `postgres://`, `mysql://`, `mariadb://` or `sqlite:`")]
    NoDatabase,
    /// The URL names a database whose store is not in this build.
    #[error("this build has no store for {kind}: switch on the feature `{}` of sendoff", kind.feature())]
    FeatureOff {
        /// Which.
        kind: DatabaseKind,
    },
    /// The options ask for what this kind of database has not.
    #[error("{what}, not for {kind}")]
    Unfit {
        /// Which the URL names.
        kind: DatabaseKind,
        /// What was asked for, and which kinds have it.
        what: &'static str,
    },
    /// The store was refused, or could not be reached.
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds S8.
    #[test]
    fn the_kind_is_chosen_by_the_scheme() {
        for (url, kind) in [
            ("postgres://app@db/shop", DatabaseKind::Postgres),
            ("postgresql://app@db/shop", DatabaseKind::Postgres),
            ("MySQL://app@db/shop", DatabaseKind::Mysql),
            ("mariadb://app@db/shop", DatabaseKind::Mysql),
            ("mysql:", DatabaseKind::Mysql),
            ("sqlite:shop.db", DatabaseKind::Sqlite),
        ] {
            assert_eq!(DatabaseKind::of(url).unwrap(), kind, "{url}");
        }
    }

    /// Holds S8: by its name, with the reason, and without the password.
    #[test]
    fn a_database_that_is_not_supported_is_refused_by_its_name() {
        for (url, said) in [
            ("tidb://app:tiger@db/shop", "TiDB is not supported: it has no SKIP LOCKED"),
            ("cockroachdb://app:tiger@db/shop", "CockroachDB is not supported: its advisory locks"),
            (
                "oracle://scott:tiger@db",
                "Oracle Database is not supported: there is no store for it",
            ),
            ("shop.db", "a database URL begins with"),
            ("C:/tiger/shop.db", "a database URL begins with"),
        ] {
            let error = DatabaseKind::of(url).unwrap_err().to_string();
            assert!(error.starts_with(said) && !error.contains("tiger"), "{url}: {error}");
        }
    }
}
