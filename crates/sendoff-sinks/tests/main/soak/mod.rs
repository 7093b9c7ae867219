//! Tests with a form of minutes (`cargo xtask soak NAME`).

mod exactly_once;
