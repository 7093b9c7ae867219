//! Tests that can take minutes: one function, with a short form for every day and a long one.
//!
//! A soak is every test in a module `soak::NAME` of any crate, dashes written as underscores: the
//! tests of the soak `sigstop` lie in `tests/main/soak/sigstop.rs`. `cargo xtask test` runs them in
//! their short form; `cargo xtask soak NAME` runs them alone, one after the other, in their long one.
//! The names stand in `xtask/src/soak.rs`.
//!
//! ```
//! use std::time::Duration;
//! use sendoff_testkit::soak;
//!
//! let mut random = soak::random(7);                    // 7 every day, another one in each soak
//! for round in 0..soak::rounds(2) {                    // 2 every day, more in a soak
//!     let stopped = Duration::from_millis(random.u64(100..900));
//!     // …stop a process for so long, and look what became of it
//! }
//! let locked = soak::lasting(Duration::from_secs(4), Duration::from_secs(60));
//! # let _ = locked;
//! ```

use std::env;
use std::time::Duration;

use fastrand::Rng;

/// How many rounds of a soak; absent in tests of every day.
pub const ROUNDS: &str = "SENDOFF_SOAK_ROUNDS";
/// What the rounds of a soak are drawn from.
pub const SEED: &str = "SENDOFF_SOAK_SEED";

/// How many rounds to make: `short` unless this is a soak.
pub fn rounds(short: u32) -> u32 {
    number(ROUNDS).map_or(short, |rounds| u32::try_from(rounds).unwrap_or(u32::MAX))
}

/// Whether this is a soak.
pub fn is_one() -> bool {
    number(ROUNDS).is_some()
}

/// How long something lasts: `short`, and `long` in a soak.
pub fn lasting(short: Duration, long: Duration) -> Duration {
    if is_one() { long } else { short }
}

/// How much of something: `short`, and `long` in a soak.
pub fn amount(short: u64, long: u64) -> u64 {
    if is_one() { long } else { short }
}

/// What is drawn: the same every day, and something else in each soak, which prints its seed.
pub fn random(seed: u64) -> Rng {
    Rng::with_seed(number(SEED).unwrap_or(seed))
}

fn number(variable: &str) -> Option<u64> {
    env::var(variable).ok()?.parse().ok()
}
