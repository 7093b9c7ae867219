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
#[cfg(feature = "sea-orm")]
pub(crate) mod literal;
mod params;
mod prepared;
#[cfg(feature = "sea-orm")]
pub(crate) mod sea_orm;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx;
mod tokio_postgres;

pub use prepared::{PreparedClient, PreparedTransaction};
#[cfg(feature = "sea-orm")]
pub use sea_orm::SeaOrmTransaction;
