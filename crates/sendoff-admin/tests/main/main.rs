//! The routes over real sockets. Every answer is held against the document that describes it.
#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

mod access;
mod client;
mod document;
mod keys;
mod letters;
mod mariadb;
mod operating;
mod parked;
mod pauses;
mod postgres;
mod problems;
mod served;
mod slow;
mod sqlite;
