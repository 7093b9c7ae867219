//! Selecting facts by type and tags, and conditions on what must not have been appended.

use std::collections::BTreeSet;

use super::fact::{Fact, Recorded};
use super::invalid::{Invalid, at_most};
use super::position::Position;
use super::run::Run;
use super::tag::{Tag, Tags};
use crate::event::TypedEvent;
use crate::limits;
use crate::name::{self, EventType};

/// Facts of one of these types with all of these tags. No type means any; no tag means any.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Item {
    types: BTreeSet<String>,
    tags: BTreeSet<Tag>,
}

impl Item {
    /// Facts of whatever type, with whatever tags.
    pub fn any() -> Self {
        Self::default()
    }

    /// Adds a type that may be meant.
    #[must_use]
    pub fn of_type(mut self, event_type: impl EventType) -> Self {
        self.types.insert(event_type.name().to_owned());
        self
    }

    /// Adds the type of a struct with `#[derive(Event)]`.
    #[must_use]
    pub fn of_event<T: TypedEvent>(self) -> Self {
        self.of_type(T::EVENT_TYPE)
    }

    /// Adds a tag that must be there.
    #[must_use]
    pub fn tagged(mut self, tag: Tag) -> Self {
        self.tags.insert(tag);
        self
    }

    /// The types, of which a fact has one; none where any will do.
    pub fn types(&self) -> impl ExactSizeIterator<Item = &str> {
        self.types.iter().map(String::as_str)
    }

    /// The tags, all of which a fact has.
    pub fn tags(&self) -> impl ExactSizeIterator<Item = &Tag> {
        self.tags.iter()
    }

    /// Whether a fact of this type with these tags is meant.
    pub fn matches(&self, event_type: &str, tags: &Tags) -> bool {
        (self.types.is_empty() || self.types.contains(event_type))
            && self.tags.iter().all(|tag| tags.contains(tag))
    }

    fn check(&self) -> Result<(), Invalid> {
        at_most("types of a query's item", self.types.len(), limits::QUERY_TYPES)?;
        at_most("tags of a query's item", self.tags.len(), limits::TAGS)?;
        for event_type in &self.types {
            name::check("event_type", event_type, limits::EVENT_TYPE_CHARS)?;
        }
        Ok(())
    }
}

/// Which facts: those that one item or another means. Without an item, all.
///
/// ```
/// use sendoff_core::journal::{Item, Query, Tag};
///
/// let wallet = Tag::new("wallet_id", "w1")?;
/// let balance = Query::of(Item::any().of_type("deposited").of_type("withdrawn").tagged(wallet));
/// let either = balance.or(Query::of(Item::any().of_type("bank.closed")));
/// assert_eq!(either.items().len(), 2);
/// # Ok::<(), sendoff_core::journal::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Query {
    items: Vec<Item>,
}

impl Query {
    /// Every fact.
    pub const fn all() -> Self {
        Self { items: Vec::new() }
    }

    /// What this item means.
    pub fn of(item: Item) -> Self {
        Self { items: vec![item] }
    }

    /// Facts with this tag.
    pub fn tagged(tag: Tag) -> Self {
        Self::of(Item::any().tagged(tag))
    }

    /// Facts of this type.
    pub fn of_type(event_type: impl EventType) -> Self {
        Self::of(Item::any().of_type(event_type))
    }

    /// What either of them means.
    #[must_use]
    pub fn or(mut self, other: Self) -> Self {
        if self.items.is_empty() || other.items.is_empty() {
            return Self::all();
        }
        for item in other.items {
            if !self.items.contains(&item) {
                self.items.push(item);
            }
        }
        self
    }

    /// Its items; none where every fact is meant.
    pub fn items(&self) -> &[Item] {
        &self.items
    }

    /// Whether a fact is meant.
    pub fn matches(&self, fact: &Fact) -> bool {
        self.items.is_empty()
            || self.items.iter().any(|item| item.matches(fact.event().event_type(), fact.tags()))
    }

    /// Whether a recorded fact is meant.
    pub fn selects(&self, recorded: &Recorded) -> bool {
        self.matches(&recorded.fact)
    }

    /// Holds it to its limits, before a store is asked.
    pub fn check(&self) -> Result<(), Invalid> {
        at_most("items of a query", self.items.len(), limits::QUERY_ITEMS)?;
        self.items.iter().try_for_each(Item::check)
    }

    /// The condition that nothing it means was recorded after a position.
    pub fn none_after(self, after: Position) -> Condition {
        Condition { query: self, after, run: None }
    }
}

/// What an append relies on: nothing that `query` means has a position above `after`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Condition {
    /// What must not have been recorded.
    pub query: Query,
    /// Since when. [`Position::START`] means ever.
    pub after: Position,
    /// The run of the server in which what was decided by was read, where that is known: in another run
    /// it may be gone, and the condition does not hold.
    pub run: Option<Run>,
}

impl Condition {
    /// The same, decided by what was read in this run of the server.
    #[must_use]
    pub fn read_in(self, run: Option<Run>) -> Self {
        Self { run, ..self }
    }
}
