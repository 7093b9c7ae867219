//! The checker and the suite, put to the test.

mod history;
mod memory;
