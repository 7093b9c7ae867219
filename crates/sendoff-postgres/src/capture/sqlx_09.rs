//! sqlx 0.9.
//!
//! ```no_run
//! # async fn example(
//! #     outbox: sendoff_engine::Outbox<sendoff_postgres::PostgresStore>,
//! #     pool: sqlx::PgPool,
//! # ) -> Result<(), Box<dyn std::error::Error>> {
//! let mut tx = outbox.begin(&pool).await?;
//! sqlx::query("insert into orders values (4711)").execute(&mut **tx).await?;
//! tx.emit(("order.placed", r#"{"order":4711}"#))?;
//! tx.commit().await?;
//! # Ok(())
//! # }
//! ```

pub(crate) use ::sqlx as driver;
use sendoff_engine::capture::sqlx_09 as shared;

/// A text of our own files, which this version asks to be told is safe.
pub(crate) fn ours<T>(text: T) -> driver::AssertSqlSafe<T> {
    driver::AssertSqlSafe(text)
}

#[path = "sqlx.rs"]
pub(crate) mod adapter;
