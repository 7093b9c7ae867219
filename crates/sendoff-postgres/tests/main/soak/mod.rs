//! Tests with a form of minutes: `cargo xtask soak NAME`.

mod crash;
mod journal_bytes;
mod journal_outages;
