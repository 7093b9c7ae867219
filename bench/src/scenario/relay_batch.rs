//! How fast the batch relay delivers, in either claim mode.

use anyhow::Result;
use clap::Args;
use sendoff_engine::relay::ClaimMode;

use super::drain::{Backlog, batch, compare};
use crate::Store;
use crate::report::Finding;
use crate::server::Server;
use crate::work::{By, End};

/// What is to be relayed, and with what.
#[derive(Debug, Clone, Copy, Args)]
pub(crate) struct Work {
    /// Rows that are due.
    #[arg(long, default_value_t = 50_000)]
    rows: u64,
    /// Rows in one batch.
    #[arg(long, default_value_t = 50, value_parser = batch)]
    batch: usize,
    /// Workers, with a connection each.
    #[arg(long, default_value_t = 2)]
    workers: usize,
}

pub(crate) async fn run(server: &Server, rounds: usize, work: Work) -> Result<Vec<Finding>> {
    let Work { rows, batch, workers } = work;
    let backlog = Backlog { rows, batch, connections: workers };
    let held = ("held".to_owned(), End::Keep, By::Relay(ClaimMode::Held));
    let locked = ("locked".to_owned(), End::Keep, By::Relay(ClaimMode::Locked));
    // SQLite locks a file, not rows: there is nothing to compare with.
    let locked = (server.store() != Store::Sqlite).then_some(locked);
    let variants = [held].into_iter().chain(locked);
    compare(server, rounds, "relay-batch", backlog, variants).await
}
