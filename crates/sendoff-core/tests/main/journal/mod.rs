//! What the journal refuses, what it matches, what it locks, and when it moves on.

mod facts;
mod locks;
mod matching;
mod retain;
mod tail;
mod world;

use sendoff_core::journal::{Fact, Position, Tag};

pub(crate) fn tag(text: &str) -> Tag {
    text.parse().unwrap()
}

/// A fact of this type with these tags.
pub(crate) fn fact(event_type: &str, tags: &[&str]) -> Fact {
    Fact::builder((event_type, "{}")).tags(tags.iter().map(|text| tag(text))).build().unwrap()
}

pub(crate) fn position(number: u64) -> Position {
    Position::new(number).unwrap()
}
