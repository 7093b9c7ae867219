//! The rules of an event, as a user of the crate meets them.

mod defaults;
mod delay;
mod headers;
mod journal;
mod payload;
mod secrecy;
mod shorthands;
mod texts;
