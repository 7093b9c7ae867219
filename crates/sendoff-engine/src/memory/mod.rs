//! A store in memory, for tests.
//!
//! Promise: it keeps the contract of the [store](crate::store) and [capture](crate::capture) traits
//! to the letter, and it is deterministic: the same calls at the same times give the same answers.
//!
//! Not here: durability. What it holds is gone with the process, and nothing outside it shares its
//! transactions, so in production it would promise what it cannot keep.

mod audit;
mod capture;
mod end;
mod entry;
mod fair;
mod joined;
mod keys;
mod letters;
mod locked;
mod park;
mod pause;
mod register;
mod replay;
mod roles;
mod savepoint;
mod store;
mod table;
#[cfg(test)]
mod tests;
mod tx;

pub use locked::RowLock;
pub use savepoint::MemorySavepoint;
pub use store::MemoryStore;
pub use tx::MemoryTx;
