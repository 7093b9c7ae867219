//! Events enter through the application's own driver.
//!
//! The store's own drivers, `tokio-postgres` and `deadpool`, are always captured; those of others,
//! each behind a feature, insert with the same statement.

mod commit;
mod deadpool;
#[cfg(feature = "diesel-async")]
pub(crate) mod diesel_async;
mod draft;
mod insert;
mod join;
pub(crate) mod literal;
mod params;
mod pooled;
mod prepared;
#[cfg(feature = "sea-orm")]
pub(crate) mod sea_orm;
#[cfg(feature = "sqlx-08")]
pub(crate) mod sqlx_08;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx_09;
mod tokio_postgres;

#[cfg(feature = "diesel-async")]
pub use diesel_async::DieselTransaction;
pub use pooled::{PooledSavepoint, PooledTransaction};
pub use prepared::{PreparedClient, PreparedTransaction};
#[cfg(feature = "sea-orm")]
pub use sendoff_engine::capture::SeaOrmTransaction;
