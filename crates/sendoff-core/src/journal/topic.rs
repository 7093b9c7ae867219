//! Topics: which facts a publisher gets.

use std::collections::BTreeSet;

use super::fact::Fact;
use super::invalid::{Invalid, at_most};
use super::tag::{Tag, Tags, check_key};
use crate::invalid::InvalidEvent;
use crate::limits;
use crate::name::{self, EventType};

/// What a publisher gets to see: facts of certain types, with certain tags.
///
/// Everything that is asked for must hold; a topic that asks for nothing selects every fact.
///
/// ```
/// use sendoff_core::journal::{Fact, Topic};
///
/// let payments = Topic::builder("payments").any_of_tags(["payment_id", "transfer_id"]).build()?;
/// let fact = Fact::builder(("moved", "{}")).tag("transfer_id", 7).build()?;
/// assert!(payments.selects(&fact));
/// # Ok::<(), sendoff_core::journal::Invalid>(())
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Topic {
    name: String,
    types: BTreeSet<String>,
    required: BTreeSet<String>,
    any_of: BTreeSet<String>,
    exact: Tags,
}

impl Topic {
    /// Starts a topic of this name.
    pub fn builder(name: impl Into<String>) -> TopicBuilder {
        TopicBuilder {
            name: name.into(),
            types: BTreeSet::new(),
            required: BTreeSet::new(),
            any_of: BTreeSet::new(),
            exact: Vec::new(),
        }
    }

    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether its publishers get to see this fact.
    pub fn selects(&self, fact: &Fact) -> bool {
        let tags = fact.tags();
        (self.types.is_empty() || self.types.contains(fact.event().event_type()))
            && self.required.iter().all(|key| tags.have_key(key))
            && (self.any_of.is_empty() || self.any_of.iter().any(|key| tags.have_key(key)))
            && tags.contain_all(&self.exact)
    }
}

/// Collects what a topic asks for; [`build`](Self::build) checks it.
#[derive(Debug, Clone)]
#[must_use = "a topic exists only after `build`"]
pub struct TopicBuilder {
    name: String,
    types: BTreeSet<String>,
    required: BTreeSet<String>,
    any_of: BTreeSet<String>,
    exact: Vec<Tag>,
}

impl TopicBuilder {
    /// The types that may be meant.
    pub fn types<T: EventType>(mut self, types: impl IntoIterator<Item = T>) -> Self {
        self.types.extend(types.into_iter().map(|event_type| event_type.name().to_owned()));
        self
    }

    /// Keys of tags that must all be there, with whatever value.
    pub fn required_tags<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.required.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Keys of tags of which one must be there, with whatever value.
    pub fn any_of_tags<K: Into<String>>(mut self, keys: impl IntoIterator<Item = K>) -> Self {
        self.any_of.extend(keys.into_iter().map(Into::into));
        self
    }

    /// Tags that must all be there, with exactly these values.
    pub fn exact_tags(mut self, tags: impl IntoIterator<Item = Tag>) -> Self {
        self.exact.extend(tags);
        self
    }

    /// Checks everything and makes the topic.
    pub fn build(self) -> Result<Topic, Invalid> {
        let Self { name, types, required, any_of, exact } = self;
        if name.is_empty() {
            return Err(InvalidEvent::Empty { field: "topic" }.into());
        }
        name::check("topic", &name, limits::TOPIC_CHARS)?;
        at_most("types of a topic", types.len(), limits::QUERY_TYPES)?;
        for event_type in &types {
            name::check("event_type", event_type, limits::EVENT_TYPE_CHARS)?;
        }
        for keys in [&required, &any_of] {
            at_most("tags of a topic", keys.len(), limits::TAGS)?;
            keys.iter().try_for_each(|key| check_key(key))?;
        }
        Ok(Topic { name, types, required, any_of, exact: Tags::new(exact)? })
    }
}
