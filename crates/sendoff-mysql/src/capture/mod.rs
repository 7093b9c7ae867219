//! Events enter through the application's own driver.
//!
//! The store's own driver, `mysql_async`, is always captured; those of others, each behind a feature,
//! insert with the same statement.
//!
//! A deadlock makes the server roll back the whole transaction while the session goes on, outside of
//! any; an application that swallows that error would write its event, and commit it, without the
//! changes it is about. So every insert stands after a statement that fails where no transaction is
//! open, and a guard's after one that fails where it is not the transaction that the guard began.

mod draft;
mod insert;
mod join;
mod mysql_async;
#[cfg(feature = "sea-orm")]
mod sea_orm;
#[cfg(feature = "sqlx-08")]
pub(crate) mod sqlx_08;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx_09;
#[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
mod unfinished;

#[cfg(feature = "sea-orm")]
pub(crate) use sea_orm::number as sea_orm_number;

pub use mysql_async::{MysqlConnSavepoint, MysqlConnTransaction, MysqlSavepoint, MysqlTransaction};
#[cfg(feature = "sea-orm")]
pub use sendoff_engine::capture::SeaOrmTransaction;
