//! Facts: events with tags, before they are appended and as they are read back.

use std::fmt;

use serde::de::DeserializeOwned;

use super::invalid::Invalid;
use super::position::Position;
use super::tag::{Tag, Tags};
use crate::event::{Event, IntoEvent, TypedEvent, UnreadableJson, Validation};
use crate::id::EventId;
use crate::timestamp::Timestamp;
use crate::trace::TraceContext;

/// Something that happened, with the tags it can be found by.
///
/// The journal keeps of its event what a log needs: id, type, payload, content type, headers and the
/// time. Aggregate and tenant of the event become tags (`order=4711`, `tenant_id=acme`), and so do the
/// fields that a struct with `#[derive(Event)]` has marked: it is a fact as it is.
///
/// ```
/// use sendoff_core::journal::Fact;
///
/// let fact = Fact::builder(("wallet.opened", r#"{"owner":"ada"}"#))
///     .tag("wallet_id", "w1")
///     .build()?;
/// assert_eq!(fact.tags().value("wallet_id"), Some("w1"));
/// # Ok::<(), sendoff_core::journal::Invalid>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct Fact {
    event: Event,
    tags: Tags,
    correlation_id: Option<EventId>,
    causation_id: Option<EventId>,
}

impl Fact {
    /// Starts a fact of this event.
    pub fn builder(event: impl IntoEvent) -> FactBuilder {
        let tags = event.tags();
        let (event, refused) = match event.into_event() {
            Ok(event) => (Some(event), None),
            Err(invalid) => (None, Some(invalid.into())),
        };
        let (correlation_id, causation_id) = (None, None);
        let fact = FactBuilder { event, refused, tags: Vec::new(), correlation_id, causation_id };
        tags.into_iter().fold(fact, |fact, (key, value)| fact.add(Tag::new(key, value)))
    }

    /// The fact a store kept. Limits are not looked at again: they may have been others then.
    pub fn restore(
        event: Event,
        tags: Tags,
        correlation_id: Option<EventId>,
        causation_id: Option<EventId>,
    ) -> Self {
        Self { event, tags, correlation_id, causation_id }
    }

    /// Its identity, which is its event's.
    pub fn id(&self) -> EventId {
        self.event.id()
    }

    /// What happened.
    pub fn event(&self) -> &Event {
        &self.event
    }

    /// The same fact in this trace, as [`Event::traced`] says.
    #[must_use]
    pub fn traced(self, trace: &TraceContext) -> Self {
        Self { event: self.event.traced(trace), ..self }
    }

    /// What it is about.
    pub fn tags(&self) -> &Tags {
        &self.tags
    }

    /// The conversation it belongs to.
    pub fn correlation_id(&self) -> Option<EventId> {
        self.correlation_id
    }

    /// What it was caused by.
    pub fn causation_id(&self) -> Option<EventId> {
        self.causation_id
    }
}

impl fmt::Debug for Fact {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // The event says nothing of its payload.
        f.debug_struct("Fact").field("event", &self.event).field("tags", &self.tags).finish()
    }
}

/// Collects what a fact is made of; [`build`](Self::build) checks it.
#[derive(Debug)]
#[must_use = "a fact exists only after `build`"]
pub struct FactBuilder {
    event: Option<Event>,
    refused: Option<Invalid>,
    tags: Vec<Tag>,
    correlation_id: Option<EventId>,
    causation_id: Option<EventId>,
}

impl FactBuilder {
    /// Adds a tag.
    #[allow(clippy::needless_pass_by_value, reason = "a number is given as it is")]
    pub fn tag(self, key: impl Into<String>, value: impl ToString) -> Self {
        let tag = Tag::new(key, value.to_string());
        self.add(tag)
    }

    /// Adds tags that were made before.
    pub fn tags(mut self, tags: impl IntoIterator<Item = Tag>) -> Self {
        self.tags.extend(tags);
        self
    }

    /// Says which conversation it belongs to.
    pub fn correlation_id(mut self, id: EventId) -> Self {
        self.correlation_id = Some(id);
        self
    }

    /// Says what it was caused by.
    pub fn causation_id(mut self, id: EventId) -> Self {
        self.causation_id = Some(id);
        self
    }

    /// Says that `cause` caused it: it belongs to the same conversation, which `cause` began if it
    /// belongs to none.
    pub fn caused_by(self, cause: &Fact) -> Self {
        let conversation = cause.correlation_id.unwrap_or_else(|| cause.id());
        self.correlation_id(conversation).causation_id(cause.id())
    }

    fn add(mut self, tag: Result<Tag, Invalid>) -> Self {
        match tag {
            Ok(tag) => self.tags.push(tag),
            // The first refusal is the one to hear of.
            Err(invalid) => self.refused = Some(self.refused.unwrap_or(invalid)),
        }
        self
    }

    /// Checks everything and makes the fact.
    pub fn build(mut self) -> Result<Fact, Invalid> {
        if let Some(event) = self.event.clone() {
            if let Some(id) = event.aggregate_id() {
                self = self.add(Tag::new(event.aggregate_type(), id));
            }
            if let Some(tenant) = event.tenant_id() {
                self = self.add(Tag::new("tenant_id", tenant));
            }
        }
        let Self { event, refused, tags, correlation_id, causation_id } = self;
        let event = match (event, refused) {
            (Some(event), None) => event,
            (_, Some(invalid)) => return Err(invalid),
            // Either there is an event, or a reason why there is none.
            (None, None) => return Err(Invalid::NoFacts),
        };
        event.validate(Validation::default())?;
        if !event.delay().is_zero() {
            return Err(Invalid::Delayed);
        }
        Ok(Fact { event, tags: Tags::new(tags)?, correlation_id, causation_id })
    }
}

/// What can be appended: a fact, its builder, an event, or a struct with `#[derive(Event)]`.
pub trait IntoFact {
    /// The fact, checked.
    fn into_fact(self) -> Result<Fact, Invalid>;
}

impl IntoFact for Fact {
    fn into_fact(self) -> Result<Fact, Invalid> {
        Ok(self)
    }
}

impl IntoFact for FactBuilder {
    fn into_fact(self) -> Result<Fact, Invalid> {
        self.build()
    }
}

impl<E: IntoEvent> IntoFact for E {
    fn into_fact(self) -> Result<Fact, Invalid> {
        Fact::builder(self).build()
    }
}

/// A fact as the journal has it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Recorded {
    /// Where.
    pub position: Position,
    /// Since when, by the database's clock.
    pub recorded_at: Timestamp,
    /// What.
    pub fact: Fact,
}

impl Recorded {
    /// What happened.
    pub fn event(&self) -> &Event {
        &self.fact.event
    }

    /// What it is about.
    pub fn tags(&self) -> &Tags {
        &self.fact.tags
    }

    /// The struct it was made of, where it is of that type; `None` where it is of another.
    pub fn read<T: TypedEvent + DeserializeOwned>(&self) -> Option<Result<T, UnreadableJson>> {
        (self.event().event_type() == T::EVENT_TYPE).then(|| self.event().read_json())
    }
}
