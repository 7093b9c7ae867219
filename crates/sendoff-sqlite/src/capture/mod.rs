//! Events enter here, inside a transaction of the application's.
//!
//! The drivers' modules live beside their store and not in a crate of adapters: a trait of the
//! engine's can only be implemented for a driver's type where one of the two, or the store, is local.

mod rusqlite;
#[cfg(feature = "sqlx")]
pub(crate) mod sqlx;

/// Rows in one statement: 896 variables, fewer than any build of SQLite allows.
const ROWS_PER_STATEMENT: usize = 64;

/// Around an insert that needs more than one statement: all of its rows or none.
const SAVEPOINT: &str = "savepoint sendoff_insert";
const RELEASE: &str = "release sendoff_insert";
const ROLL_BACK: &str = "rollback to sendoff_insert; release sendoff_insert";
