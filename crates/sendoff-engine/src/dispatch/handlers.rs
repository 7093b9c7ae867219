//! The register of handlers, by aggregate type and event type.

use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::{
    AggregateType, Delivery, Event, EventType, Failure, GLOBAL_AGGREGATE, Paused, Sink, TypedEvent,
    Verdict,
};
use serde::de::DeserializeOwned;

use super::unknown::Kind;
use crate::sink::{EventHandler, Handler, HandlerSink, Typed, shielded};
use crate::source::Demand;
use crate::store::EventKind;

/// Which handler receives what: one for each pair of aggregate type and event type.
#[derive(Default)]
pub struct Handlers {
    registered: Vec<Registered>,
    /// Places among these by aggregate type, then by event type. Two keys, not one joined text: a
    /// separator inside a name cannot make two pairs collide.
    by_aggregate: HashMap<String, HashMap<String, usize>>,
    nobody: Nobody,
}

struct Registered {
    aggregate_type: String,
    event_type: String,
    /// The sink's name, asked for once: it is code of others.
    name: String,
    sink: Arc<dyn Sink>,
}

impl Registered {
    fn kind(&self) -> EventKind<'_> {
        EventKind { aggregate_type: &self.aggregate_type, event_type: &self.event_type }
    }
}

/// Who handles an event: one of the handlers, or nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Route(usize);

impl Route {
    /// Nobody.
    pub(crate) const NOBODY: Self = Self(0);

    /// From 0 (nobody) to the number of handlers.
    pub(crate) fn number(self) -> usize {
        self.0
    }

    pub(crate) fn of_number(number: usize) -> Self {
        Self(number)
    }
}

impl Handlers {
    /// No handler yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a handler for events of this type without an aggregate.
    pub fn on(
        &mut self,
        event_type: impl EventType,
        handler: impl Handler,
    ) -> Result<&mut Self, DuplicateHandler> {
        self.on_aggregate(GLOBAL_AGGREGATE, event_type, handler)
    }

    /// Registers a handler for a struct with `#[derive(Event)]`, whatever aggregate it names: an async
    /// function of the struct and its [`Delivery`]. What cannot be read as one is dead at once.
    pub fn on_event<E>(
        &mut self,
        handler: impl EventHandler<E>,
    ) -> Result<&mut Self, DuplicateHandler>
    where
        E: TypedEvent + DeserializeOwned + Send + 'static,
    {
        self.on_raw::<E>(Typed::new(handler))
    }

    /// Like [`on_event`](Self::on_event), for a handler that reads the payload itself.
    pub fn on_raw<E: TypedEvent>(
        &mut self,
        handler: impl Handler,
    ) -> Result<&mut Self, DuplicateHandler> {
        self.on_aggregate(E::AGGREGATE_TYPE, E::EVENT_TYPE, handler)
    }

    /// Registers a handler for events of this type about this kind of aggregate.
    pub fn on_aggregate(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        handler: impl Handler,
    ) -> Result<&mut Self, DuplicateHandler> {
        let sink = HandlerSink::new(event_type.name(), handler);
        self.on_aggregate_sink(aggregate_type, event_type, sink)
    }

    /// Registers a sink for events of this type without an aggregate. It gets what waits for it, as much
    /// as it takes at once.
    pub fn on_sink(
        &mut self,
        event_type: impl EventType,
        sink: impl Sink,
    ) -> Result<&mut Self, DuplicateHandler> {
        self.on_aggregate_sink(GLOBAL_AGGREGATE, event_type, sink)
    }

    /// Registers a sink for events of this type about this kind of aggregate.
    pub fn on_aggregate_sink(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        sink: impl Sink,
    ) -> Result<&mut Self, DuplicateHandler> {
        let aggregate_type = aggregate_type.name().to_owned();
        let event_type = event_type.name().to_owned();
        let places = self.by_aggregate.entry(aggregate_type.clone()).or_default();
        if places.contains_key(&event_type) {
            return Err(DuplicateHandler { aggregate_type, event_type });
        }
        places.insert(event_type.clone(), self.registered.len());
        let known = self.nobody.known.entry(event_type.clone());
        known.or_insert_with(|| aggregate_type.clone());
        let (name, sink) = (name_of(&sink), Arc::new(sink));
        self.registered.push(Registered { aggregate_type, event_type, name, sink });
        Ok(self)
    }

    /// The handler for this pair.
    pub fn find(&self, aggregate_type: &str, event_type: &str) -> Option<&Arc<dyn Sink>> {
        let place = *self.by_aggregate.get(aggregate_type)?.get(event_type)?;
        self.registered.get(place).map(|registered| &registered.sink)
    }

    pub(crate) fn route(&self, event: &Event) -> Route {
        self.route_of(EventKind::of(event))
    }

    pub(crate) fn route_of(&self, kind: EventKind<'_>) -> Route {
        let place = || self.by_aggregate.get(kind.aggregate_type)?.get(kind.event_type);
        place().map_or(Route::NOBODY, |place| Route(place + 1))
    }

    fn at(&self, route: Route) -> Option<&Registered> {
        self.registered.get(route.0.checked_sub(1)?)
    }

    /// The handler, or what takes its place for events that have none.
    pub(crate) fn sink(&self, route: Route) -> &dyn Sink {
        self.at(route).map_or(&self.nobody, |registered| &*registered.sink)
    }

    /// What all of them handle.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let kind = |one: &Registered| (one.aggregate_type.clone(), one.event_type.clone());
        self.registered.iter().map(kind).collect()
    }

    /// What these handlers handle.
    pub(crate) fn kinds_of(&self, routes: &[Route]) -> Vec<EventKind<'_>> {
        routes.iter().filter_map(|route| self.at(*route)).map(Registered::kind).collect()
    }

    /// Whether an operator paused a handler, by its name or by what it handles.
    pub(crate) fn is_paused(&self, route: Route, paused: &Paused) -> bool {
        let is_paused = |registered: &Registered| {
            paused.has_type(&registered.event_type) || paused.has_handler(&registered.name)
        };
        self.at(route).map_or(paused.is_all(), is_paused)
    }

    /// The handlers that operators paused.
    pub(crate) fn paused(&self, paused: &Paused) -> Vec<Route> {
        let all = (1..=self.registered.len()).map(Route);
        all.filter(|route| !paused.is_empty() && self.is_paused(*route, paused)).collect()
    }

    /// What each of them asks for, in the order of their routes.
    pub(crate) fn demands(&self) -> Vec<Demand> {
        self.sinks().map(demand).collect()
    }

    /// Each of them, in the order of their routes.
    pub(crate) fn sinks(&self) -> impl ExactSizeIterator<Item = &dyn Sink> {
        self.registered.iter().map(|registered| &*registered.sink)
    }
}

/// The name of a sink; none where its own code fails.
pub(crate) fn name_of(sink: &dyn Sink) -> String {
    shielded(|| sink.name().to_owned()).unwrap_or_default()
}

/// What a sink asks for, once: it is code of others.
pub(crate) fn demand(sink: &dyn Sink) -> Demand {
    let runs = shielded(|| sink.runs_at_most()).unwrap_or_default();
    let batch = shielded(|| sink.batch_size()).unwrap_or(1);
    Demand { runs: runs.map(NonZeroUsize::get), batch }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let pairs = self.by_aggregate.iter();
        f.debug_map().entries(pairs.map(|(aggregate, of)| (aggregate, of.keys()))).finish()
    }
}

/// Where events go that have no handler: so they pass interceptors and are followed up as all others.
#[derive(Default)]
struct Nobody {
    /// The types that have a handler, and what the first of them is about.
    known: HashMap<String, String>,
}

#[async_trait]
impl Sink for Nobody {
    fn name(&self) -> &str {
        "nobody"
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let missing = |delivery: &Delivery| NoHandler {
            aggregate_type: delivery.aggregate_type().to_owned(),
            event_type: delivery.event_type().to_owned(),
            registered_for: self.known.get(delivery.event_type()).cloned(),
        };
        deliveries.iter().take(1).map(|delivery| Err(Failure::dead(missing(delivery)))).collect()
    }
}

/// That pair has a handler already.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a handler for ({aggregate_type}, {event_type}) is registered already")]
pub struct DuplicateHandler {
    /// The aggregate type.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
}

/// That pair has no handler.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NoHandler {
    /// The aggregate type.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
    /// An aggregate type for which this event type has a handler, if there is one.
    pub registered_for: Option<String>,
}

impl std::error::Error for NoHandler {}

impl fmt::Display for NoHandler {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { aggregate_type, event_type, registered_for } = self;
        write!(f, "no handler for ({aggregate_type}, {event_type})")?;
        match registered_for.as_deref() {
            None => Ok(()),
            Some(GLOBAL_AGGREGATE) => write!(
                f,
                ": the one for {event_type} takes events without an aggregate; register it with \
                 on_aggregate(\"{aggregate_type}\", \"{event_type}\", …)"
            ),
            Some(other) => write!(
                f,
                ": the one for {event_type} takes events about {other}; register one for \
                 {aggregate_type} as well"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::{Lane, Origin, Timestamp};

    use super::*;
    use crate::sink::HandlerResult;

    async fn nothing(_: Delivery) -> HandlerResult {
        Ok(())
    }

    /// Holds D5.
    #[test]
    fn a_second_handler_for_the_same_pair_is_refused() {
        let mut handlers = Handlers::new();
        handlers.on("Created", nothing).unwrap().on("Deleted", nothing).unwrap();
        handlers.on_aggregate("User", "Created", nothing).unwrap();
        let error = handlers.on_aggregate("User", "Created", nothing).unwrap_err();
        assert_eq!(error.to_string(), "a handler for (User, Created) is registered already");
        assert!(handlers.on_aggregate(GLOBAL_AGGREGATE, "Created", nothing).is_err());
    }

    /// Holds D5.
    #[test]
    fn separators_in_names_do_not_collide() {
        let mut handlers = Handlers::new();
        handlers.on_aggregate("a:b", "c", nothing).unwrap();
        assert!(handlers.find("a:b", "c").is_some());
        assert!(handlers.find("a", "b:c").is_none());
        handlers.on_aggregate("a", "b:c", nothing).unwrap();
    }

    #[tokio::test]
    async fn a_handler_that_misses_because_of_the_aggregate_is_told_of() {
        let mut handlers = Handlers::new();
        handlers.on("Created", nothing).unwrap();
        handlers.on_aggregate("User", "Deleted", nothing).unwrap();
        let missing = async |event_type: &'static str| {
            let event = Event::builder(event_type).aggregate("Order", "1").json(&1).build();
            let (created_at, origin) = (Timestamp::now(), Origin::Row(Lane::Cold));
            let delivery = Delivery { event: event.unwrap(), created_at, attempt: 1, origin };
            let verdict = handlers.sink(Route::NOBODY).deliver(&[delivery]).await.remove(0);
            verdict.unwrap_err().report()
        };
        let created = missing("Created").await;
        assert!(created.contains("without an aggregate"), "{created}");
        assert!(created.contains(r#"on_aggregate("Order", "Created", …)"#), "{created}");
        let deleted = missing("Deleted").await;
        assert!(deleted.contains("about User"), "{deleted}");
        assert_eq!(missing("Other").await, "no handler for (Order, Other)");
    }

    #[test]
    fn a_route_leads_to_one_pair_and_back() {
        let mut handlers = Handlers::new();
        handlers.on("Created", nothing).unwrap();
        handlers.on_aggregate("User", "Created", nothing).unwrap();
        let event = |aggregate: &str, event_type: &'static str| {
            Event::builder(event_type).aggregate(aggregate, "1").json(&1).build().unwrap()
        };
        let of_users = handlers.route(&event("User", "Created"));
        assert_eq!(of_users.number(), 2);
        assert_eq!(handlers.route(&event("User", "Deleted")), Route::NOBODY);
        let kind = EventKind { aggregate_type: "User", event_type: "Created" };
        assert_eq!(handlers.kinds_of(&[Route::NOBODY, of_users]), [kind]);
        assert_eq!(handlers.sink(Route::NOBODY).name(), "nobody");
        assert_eq!(handlers.sink(of_users).name(), "Created");
    }
}
