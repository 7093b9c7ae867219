//! Runs simulated worlds, one runtime for each core, and prints the seeds that break a promise.

use std::collections::BTreeSet;
use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use clap::Parser;
use sendoff_testkit::sim::{Report, simulate};

/// Runs simulated worlds and judges their histories.
#[derive(Debug, Parser)]
#[command(after_help = "Examples:\n  cargo xtask sim --seeds 500\n  cargo xtask sim --seed 17")]
struct Options {
    /// How many worlds.
    #[arg(long, default_value_t = 500)]
    seeds: u64,
    /// The seed of the first.
    #[arg(long, default_value_t = 0)]
    from: u64,
    /// One world only, with its history printed if it breaks a promise.
    #[arg(long)]
    seed: Option<u64>,
}
