//! The routes over real sockets. Every answer is held against the document that describes it.

mod access;
mod client;
mod document;
mod operating;
mod parked;
mod postgres;
mod problems;
mod served;
