//! One type that is any of the stores which are switched on, chosen from the URL.
//!
//! ```
//! use sendoff::any::AnyStore;
//! use sendoff::store::InspectStore;
//! # #[cfg(feature = "sqlite")]
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let folder = tempfile::tempdir()?;
//! # let url = format!("sqlite:{}", folder.path().join("shop.db").display());
//! let store = AnyStore::connect(&url).await?;
//! store.migrate().await?;
//! assert_eq!(store.counts().await?.pending(), 0);
//! # Ok(())
//! # }
//! # #[cfg(not(feature = "sqlite"))]
//! # fn main() {}
//! ```
//!
//! Delivering, relaying and operating need no more. Who writes has a transaction of a certain driver, so
//! that the kind of database is known there: [`AnyStore::through_postgres`] and its like give the same
//! outbox for that driver.

/// Does the same with whichever store it is.
macro_rules! whichever {
    ($any:ident, $value:expr, $store:ident => $does:expr) => {
        match $value {
            #[cfg(feature = "postgres")]
            $any::Postgres($store) => $does,
            #[cfg(feature = "mysql")]
            $any::Mysql($store) => $does,
            #[cfg(feature = "sqlite")]
            $any::Sqlite($store) => $does,
        }
    };
}

mod journal;
mod kind;
mod options;
mod store;

pub use journal::AnyJournal;
pub use kind::{DatabaseKind, OpenError};
pub use options::{AnyJournalOptions, AnyOptions};
pub use sendoff_engine::store::frame::{Migrated, Unsupported};
pub use store::AnyStore;
