//! What the engine asks of a store to write an event without a transaction of the caller's.

use super::{Born, NewRow};
use crate::capture::SendError;

/// Writing events in a transaction of the store's own.
pub trait SendStore: Send + Sync + 'static {
    /// Inserts `rows` and commits, in a transaction of its own on a connection of the store's own, and
    /// answers what the database made of each, in order. `Ok` is proof that it committed, durably (I13),
    /// also where the store's other statements do not wait for the disk.
    ///
    /// All or none, also where the future is dropped on its way: then nothing was begun, or all of it is
    /// carried out, or undone.
    fn send(&self, rows: &[NewRow]) -> impl Future<Output = Result<Vec<Born>, SendError>> + Send;
}
