//! The server crashes right after something left.

mod outbox;
