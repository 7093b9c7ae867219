//! The server crashes right after something left.

mod journal;
mod outbox;
