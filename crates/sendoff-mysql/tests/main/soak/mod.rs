//! Tests with a form of minutes: `cargo xtask soak NAME`.

mod journal_bytes;
mod journal_outages;
