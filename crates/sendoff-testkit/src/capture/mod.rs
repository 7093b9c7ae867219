//! What every driver does with an application's transaction, whatever its store.
//!
//! A driver joins with a [`CaptureHarness`] and one line, `sendoff_testkit::capture_suite!(harness)`; every
//! promise becomes a test of its own, once for each of the two ways to write. `capture_suite!(own: harness)`
//! is for a driver that has no guard, `capture_suite!(guard: harness)` for what only a guard begins on. What a driver cannot promise stands in its harness, with the reason
//! ([`CaptureHarness::CANNOT`]). sqlx and sea-orm are one driver for several databases, and have their harness
//! here, behind the features of these names.
//!
//! The suite of [`acceptance`](crate::acceptance) takes the [`OutboxHarness`] beneath it: it asks what an
//! outbox does with what was written, this one what a driver does on the way there.
#![allow(
    async_fn_in_trait,
    reason = "cases await what they call, and a blocking driver is not Send"
)]

pub mod cases;
mod guarded;
mod harness;
mod own;
#[cfg(feature = "sea-orm")]
mod sea_orm;
mod shop;
#[cfg(feature = "sqlx-08")]
pub mod sqlx_08;
#[cfg(feature = "sqlx")]
pub mod sqlx_09;
mod suite;

pub use async_trait::async_trait;
pub use guarded::{Guarded, Guards, Nested, Nests, commit_rows};
pub use harness::{
    Begun, CaptureHarness, Database, Face, Hook, Inserted, Open, OutboxHarness, Speaks, StoreOf,
    TRANSACTIONS_ONLY, Transaction, Written,
};
pub use own::{Own, Owns, Within};
#[cfg(feature = "sea-orm")]
pub use sea_orm::{SeaOrm, SeaOrmDatabase, commit_beside_a_nested_transaction};
pub use suite::run;
