//! Why a store could not do what it was asked.

use std::future::Future;
use std::time::Duration;

use sendoff_core::{BoxError, Undecodable};
use tokio::time::timeout;

/// Why a store could not do what it was asked.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StoreError {
    /// The store was closed.
    #[error("the store is closed")]
    Closed,
    /// The database cannot be reached or is busy; the same statement may succeed later.
    #[error("the database is unavailable")]
    Unavailable(#[source] BoxError),
    /// Somebody else has locked what the statement needs, and it did not wait. Nothing was changed;
    /// the same statement may succeed later.
    #[error("somebody else has locked what the statement needs")]
    Busy(#[source] BoxError),
    /// The database understood and refused; the same statement will be refused again.
    #[error("the database refused the statement")]
    Refused(#[source] BoxError),
    /// No answer came in time. The statement may or may not have been carried out.
    #[error("the database did not answer in time")]
    Timeout,
    /// The tables were made by a newer version.
    #[error(
        "the tables have schema version {found}; this version knows {known} at most: upgrade it"
    )]
    NewerSchema {
        /// The version found.
        found: i64,
        /// The newest version known.
        known: i64,
    },
    /// There are no tables: nothing was ever installed here.
    #[error("{missing}: {remedy}")]
    NotInstalled {
        /// The table that was looked for.
        missing: String,
        /// What to do about it.
        remedy: String,
    },
    /// The tables are older than this version, or were changed by hand.
    #[error("{missing}: {remedy}")]
    Schema {
        /// What is not as it should be.
        missing: String,
        /// What to do about it.
        remedy: String,
    },
    /// The database's user may not do what is needed.
    #[error("{missing}: {remedy}")]
    Rights {
        /// What it may not do.
        missing: String,
        /// What to do about it.
        remedy: String,
    },
    /// Too much is paused by name.
    #[error(
        "{limit} things are paused by name, which is the limit: resume some, or pause all delivery"
    )]
    TooManyPauses {
        /// How many may be.
        limit: usize,
    },
    /// The store was told something it cannot work with.
    #[error("{reason}")]
    Misconfigured {
        /// What, and what to do about it.
        reason: String,
    },
}

impl StoreError {
    /// Whether the same may succeed later, without anybody changing anything.
    pub(crate) fn may_pass(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Busy(_) | Self::Timeout)
    }
}

impl From<Undecodable> for StoreError {
    /// A row that must be read and cannot.
    fn from(undecodable: Undecodable) -> Self {
        Self::Refused(undecodable.into())
    }
}

/// What a store answers.
pub(crate) type Answer<T> = Result<T, StoreError>;

/// Waits so long for an answer of the database.
pub(crate) async fn within<T, E: From<StoreError>>(
    limit: Duration,
    asked: impl Future<Output = Result<T, E>>,
) -> Result<T, E> {
    timeout(limit, asked).await.unwrap_or_else(|_| Err(StoreError::Timeout.into()))
}
