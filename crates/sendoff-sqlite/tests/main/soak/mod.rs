//! Tests with a form of minutes: `cargo xtask soak NAME`.

mod dead_letters;
mod wake_up;
