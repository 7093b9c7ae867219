//! By hand on tokio-postgres.

pub(super) mod drain;
pub(super) mod hot;
mod locked;
mod statements;
pub(super) mod write;

pub(super) use write::{INSERT, INSERT_BUSINESS};
