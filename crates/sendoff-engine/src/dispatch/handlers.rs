//! The register of handlers: by aggregate type and event type, for everything else, and by name.

use std::borrow::Cow;
use std::collections::HashMap;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::Arc;

use sendoff_core::{AggregateType, Event, EventType, GLOBAL_AGGREGATE, Paused, Sink, TypedEvent};
use serde::de::DeserializeOwned;
use tracing::warn;

use super::missing::Nobody;
use super::registration::{DuplicateHandler, RegisterError, Registration};
use super::seen::Seen;
use super::unknown::Kind;
use crate::operate::Observer;
use crate::options::OptionsError;
use crate::sink::{EventHandler, Handler, HandlerSink, Typed, check_deadline, shielded};
use crate::source::Demand;
use crate::store::{ANY, EventKind};

/// A handler that was removed.
#[derive(Debug)]
pub(crate) struct Removed {
    name: Option<String>,
}

impl Removed {
    /// Whatever was known of its target, nothing waits for that any more.
    pub(crate) fn tell(self, observer: &Observer) {
        if let Some(name) = self.name {
            observer.tell(|metrics| metrics.target_unavailable(&name, false));
        }
    }
}

/// Which handler receives what: one for each pair of aggregate type and event type; one for everything
/// else, if there is one; and whichever a function decides for, by its name.
#[derive(Clone, Default)]
pub struct Handlers {
    /// Each in its place for good: one that is removed leaves it empty.
    places: Vec<Place>,
    /// Places by aggregate type, then by event type. Two keys, not one joined text: a separator inside a
    /// name cannot make two pairs collide.
    by_aggregate: HashMap<String, HashMap<String, usize>>,
    any: Option<usize>,
    router: Option<Router>,
    /// Events that came to a handler by another way than their kind.
    seen: Arc<Seen>,
    nobody: Nobody,
}

#[derive(Clone)]
struct Place {
    of: Registration,
    /// The sink's name, asked for once: it is code of others.
    name: String,
    /// None once it was removed.
    sink: Option<Arc<dyn Sink>>,
}

impl Place {
    fn kind(&self) -> Option<EventKind<'_>> {
        let Registration::Kind { aggregate_type, event_type } = &self.of else { return None };
        self.sink.is_some().then_some(EventKind { aggregate_type, event_type })
    }
}

/// Decides who handles an event, by name.
type Router = Arc<dyn Fn(&Event) -> Option<Cow<'static, str>> + Send + Sync>;

const SAME_NAME: &str = "is the name of two sinks with targets of their own, which would be paused and resumed together: \
     give each its own (`name` of its options), or register clones of one";

/// So many places there are at most: every kind that ever had a handler keeps one.
const PLACES: usize = 10_000;

/// Who handles an event: one of the handlers, or nobody.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) struct Route(usize);

impl Route {
    /// Nobody.
    pub(crate) const NOBODY: Self = Self(0);

    /// From 0 (nobody) to the number of places.
    pub(crate) fn number(self) -> usize {
        self.0
    }

    pub(crate) fn of_number(number: usize) -> Self {
        Self(number)
    }

    fn of_place(place: usize) -> Self {
        Self(place + 1)
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
    /// function of the struct and its [`Delivery`](sendoff_core::Delivery). What cannot be read as one is dead at once.
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
        let of = Registration::of_aggregate(aggregate_type, event_type);
        self.enter(of, Arc::new(sink))?;
        Ok(self)
    }

    /// Registers a handler for every event that no other takes. Other nodes are told that this one takes
    /// everything.
    pub fn on_any(&mut self, handler: impl Handler) -> Result<&mut Self, DuplicateHandler> {
        self.on_any_sink(HandlerSink::new("any", handler))
    }

    /// Registers a sink for every event that no other takes.
    pub fn on_any_sink(&mut self, sink: impl Sink) -> Result<&mut Self, DuplicateHandler> {
        self.enter(Registration::Else, Arc::new(sink))?;
        Ok(self)
    }

    /// Registers a handler under a name alone: it gets what [`route`](Self::route) decides that it gets.
    pub fn on_named(
        &mut self,
        name: impl Into<String>,
        handler: impl Handler,
    ) -> Result<&mut Self, DuplicateHandler> {
        let name = name.into();
        self.enter(Registration::Named(name.clone()), Arc::new(HandlerSink::new(name, handler)))?;
        Ok(self)
    }

    /// Decides in code who handles an event: `decide` answers with the name of a handler, which is the one
    /// it was [registered under](Self::on_named), its sink's, or its event type; of several with the same
    /// name it is the first. Where it answers nothing, the event goes as it would without this. A name
    /// that nobody has is as an event without a handler. A second call takes the place of the first.
    ///
    /// It is asked for every event, on the way in: keep it quick, and let it always answer the same for
    /// the same event. The database cannot look into what it decides: while the handler of some events
    /// has no room, those of the same aggregate and event type that other handlers would get wait in the
    /// table, too.
    pub fn route<N: Into<Cow<'static, str>>>(
        &mut self,
        decide: impl Fn(&Event) -> Option<N> + Send + Sync + 'static,
    ) -> &mut Self {
        self.router = Some(Arc::new(move |event| decide(event).map(Into::into)));
        self
    }

    /// Registers a sink, in the place that one before it had.
    fn enter(&mut self, of: Registration, sink: Arc<dyn Sink>) -> Result<(), DuplicateHandler> {
        if self.place_of(&of).is_some() {
            return Err(DuplicateHandler(of));
        }
        let name = match &of {
            Registration::Named(name) => name.clone(),
            _ => name_of(&*sink),
        };
        let vacant = self.places.iter().position(|place| place.of == of);
        let place = vacant.unwrap_or(self.places.len());
        match &of {
            Registration::Kind { aggregate_type, event_type } => {
                let places = self.by_aggregate.entry(aggregate_type.clone()).or_default();
                places.insert(event_type.clone(), place);
                self.nobody.knows(aggregate_type, event_type);
            }
            Registration::Else => self.any = Some(place),
            Registration::Named(_) => {}
        }
        let entered = Place { of, name, sink: Some(sink) };
        match self.places.get_mut(place) {
            Some(place) => *place = entered,
            None => self.places.push(entered),
        }
        Ok(())
    }

    /// Adds all of these, or none.
    pub(crate) fn add(&mut self, more: Self) -> Result<(), RegisterError> {
        let mut together = self.clone();
        for Place { of, sink, .. } in more.places {
            if let Some(sink) = sink {
                together.enter(of, sink)?;
            }
        }
        if together.places.len() > PLACES {
            return Err(RegisterError::TooMany { limit: PLACES });
        }
        together.check()?;
        together.router = more.router.or(together.router);
        *self = together;
        Ok(())
    }

    /// Whether what they say of themselves can be kept, and who is paused by a name is one sink.
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        let there =
            self.places.iter().filter_map(|place| Some((&place.name, place.sink.as_ref()?)));
        let mut known = HashMap::new();
        for (name, sink) in there {
            check_sink(name, &**sink)?;
            let Some(own) = shielded(|| sink.identity()).unwrap_or_default() else { continue };
            if *known.entry(name).or_insert(own) != own {
                let path = format!("handler {name:?}");
                return Err(OptionsError::Conflict { path, reason: SAME_NAME });
            }
        }
        Ok(())
    }

    /// Removes a handler; says whether there was one.
    pub(crate) fn remove(&mut self, of: &Registration) -> Option<Removed> {
        let place = self.place_of(of)?;
        let removed = Removed { name: self.name_of_only(place) };
        match of {
            Registration::Kind { aggregate_type, event_type } => {
                if let Some(places) = self.by_aggregate.get_mut(aggregate_type) {
                    places.remove(event_type);
                }
                self.nobody.forgets(event_type);
            }
            Registration::Else => self.any = None,
            Registration::Named(_) => {}
        }
        self.places[place].sink = None;
        self.seen.forget(Route::of_place(place));
        Some(removed)
    }

    /// The name of a handler, unless others have it too.
    fn name_of_only(&self, place: usize) -> Option<String> {
        let names = self.places.iter().map(|place| {
            let sink = place.sink.as_ref()?;
            shielded(|| sink.name().to_owned()).ok()
        });
        let names: Vec<_> = names.collect();
        let own = names[place].clone()?;
        (names.iter().flatten().filter(|name| **name == own).count() == 1).then_some(own)
    }

    fn place_of(&self, of: &Registration) -> Option<usize> {
        match of {
            Registration::Kind { aggregate_type, event_type } => {
                self.by_aggregate.get(aggregate_type)?.get(event_type).copied()
            }
            Registration::Else => self.any,
            Registration::Named(_) => {
                let is_it = |place: &Place| place.of == *of && place.sink.is_some();
                self.places.iter().position(is_it)
            }
        }
    }

    /// The handler for this pair.
    pub fn find(&self, aggregate_type: &str, event_type: &str) -> Option<&Arc<dyn Sink>> {
        let place = *self.by_aggregate.get(aggregate_type)?.get(event_type)?;
        self.places.get(place)?.sink.as_ref()
    }

    pub(crate) fn route_of(&self, event: &Event) -> Route {
        self.route_as(event, EventKind::of(event))
    }

    /// The same as if the event were of this kind.
    pub(crate) fn route_as(&self, event: &Event, kind: EventKind<'_>) -> Route {
        if let Some(name) = self.router.as_ref().and_then(|router| decided(router, event)) {
            let is_it = |place: &Place| place.sink.is_some() && place.name == name;
            let place = self.places.iter().position(is_it);
            return place.map_or(Route::NOBODY, |place| self.seen_by(event, place));
        }
        let place = || self.by_aggregate.get(kind.aggregate_type)?.get(kind.event_type);
        match (place(), self.any) {
            (Some(place), _) => Route::of_place(*place),
            (None, Some(any)) => self.seen_by(event, any),
            (None, None) => Route::NOBODY,
        }
    }

    fn seen_by(&self, event: &Event, place: usize) -> Route {
        let route = Route::of_place(place);
        self.seen.note(EventKind::of(event), route);
        route
    }

    fn at(&self, route: Route) -> Option<&Place> {
        self.places.get(route.0.checked_sub(1)?)
    }

    /// The handler, or what takes its place for events that have none; nothing if it was removed.
    pub(crate) fn sink(&self, route: Route) -> Option<&dyn Sink> {
        match self.at(route) {
            Some(place) => place.sink.as_deref(),
            None => Some(&self.nobody),
        }
    }

    /// What all of them handle, as far as that is known.
    pub(crate) fn kinds(&self) -> Vec<Kind> {
        let owned =
            |kind: EventKind<'_>| (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
        let own = self.places.iter().filter_map(Place::kind).map(owned);
        let any = self.any.map(|_| (ANY.to_owned(), ANY.to_owned()));
        let there: Vec<_> = self.routes().filter(|route| self.sink(*route).is_some()).collect();
        own.chain(any).chain(self.seen.of(&there)).collect()
    }

    /// What these handlers handle by kind.
    pub(crate) fn kinds_of(&self, routes: &[Route]) -> Vec<EventKind<'_>> {
        routes.iter().filter_map(|route| self.at(*route)?.kind()).collect()
    }

    /// What else came to these handlers.
    pub(crate) fn seen_of(&self, routes: &[Route]) -> Vec<Kind> {
        self.seen.of(routes)
    }

    /// Whether one of these gets events of more kinds than can be left out of a claim.
    pub(crate) fn is_beyond_claims(&self, routes: &[Route]) -> bool {
        self.seen.has_too_many(routes)
    }

    /// Whether an operator paused a handler, by its name or by what it handles.
    pub(crate) fn is_paused(&self, route: Route, paused: &Paused) -> bool {
        let is_paused = |place: &Place| {
            place.kind().is_some_and(|kind| paused.has_type(kind.event_type))
                || paused.has_handler(&place.name)
        };
        self.at(route).map_or(paused.is_all(), is_paused)
    }

    /// The handlers that operators paused.
    pub(crate) fn paused(&self, paused: &Paused) -> Vec<Route> {
        let all = self.routes();
        all.filter(|route| !paused.is_empty() && self.is_paused(*route, paused)).collect()
    }

    /// What each of them asks for, in the order of their routes; nothing where one was removed.
    pub(crate) fn demands(&self) -> Vec<Option<Demand>> {
        self.places.iter().map(|place| place.sink.as_deref().map(demand)).collect()
    }

    /// Every route that ever led to a handler.
    pub(crate) fn routes(&self) -> impl Iterator<Item = Route> + use<> {
        (0..self.places.len()).map(Route::of_place)
    }

    /// How many handlers there are.
    pub(crate) fn count(&self) -> usize {
        self.places.iter().filter(|place| place.sink.is_some()).count()
    }
}

/// What a function of the application's decides; one that panics decides nothing.
fn decided(router: &Router, event: &Event) -> Option<Cow<'static, str>> {
    shielded(|| router(event)).unwrap_or_else(|panic| {
        warn!(error = panic.report(), "the function that routes events failed");
        None
    })
}

/// The name of a sink; none where its own code fails.
pub(crate) fn name_of(sink: &dyn Sink) -> String {
    shielded(|| sink.name().to_owned()).unwrap_or_default()
}

/// Whether what a sink of this name says of itself can be kept.
pub(crate) fn check_sink(name: &str, sink: &dyn Sink) -> Result<(), OptionsError> {
    check_deadline(sink).map_err(|error| error.within(&format!("handler {name:?}")))
}

/// What a sink asks for, once: it is code of others.
pub(crate) fn demand(sink: &dyn Sink) -> Demand {
    let runs = shielded(|| sink.runs_at_most()).unwrap_or_default();
    let batch = shielded(|| sink.batch_size()).unwrap_or(1);
    Demand { runs: runs.map(NonZeroUsize::get), batch }
}

impl fmt::Debug for Handlers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let there = self.places.iter().filter(|place| place.sink.is_some());
        f.debug_list().entries(there.map(|place| &place.of)).finish()
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::{Delivery, Lane, Origin, Timestamp};

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
            let verdict =
                handlers.sink(Route::NOBODY).unwrap().deliver(&[delivery]).await.remove(0);
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
        let of_users = handlers.route_of(&event("User", "Created"));
        assert_eq!(of_users.number(), 2);
        assert_eq!(handlers.route_of(&event("User", "Deleted")), Route::NOBODY);
        let kind = EventKind { aggregate_type: "User", event_type: "Created" };
        assert_eq!(handlers.kinds_of(&[Route::NOBODY, of_users]), [kind]);
        assert_eq!(handlers.sink(Route::NOBODY).unwrap().name(), "nobody");
        assert_eq!(handlers.sink(of_users).unwrap().name(), "Created");
    }

    fn event(event_type: &'static str) -> Event {
        Event::builder(event_type).header("region", "eu").json(&1).build().unwrap()
    }

    /// Holds D15.
    #[test]
    fn what_no_other_takes_is_for_the_handler_of_everything_else() {
        let mut handlers = Handlers::new();
        handlers.on("Created", nothing).unwrap().on_any(nothing).unwrap();
        let error = handlers.on_any(nothing).unwrap_err();
        assert_eq!(error.to_string(), "a handler for everything else is registered already");
        let (created, other) =
            (handlers.route_of(&event("Created")), handlers.route_of(&event("Other")));
        assert_eq!((created.number(), other.number()), (1, 2));
        assert_eq!(handlers.sink(other).unwrap().name(), "any");
        let global = |of: &str| (GLOBAL_AGGREGATE.to_owned(), of.to_owned());
        assert_eq!(handlers.seen_of(&[other]), [global("Other")], "which claims can leave out");
        assert!(handlers.kinds().contains(&(ANY.to_owned(), ANY.to_owned())), "others are told");
    }

    /// Holds D15.
    #[test]
    fn a_function_routes_by_name_and_leaves_to_the_register_what_it_does_not_decide() {
        let mut handlers = Handlers::new();
        handlers.on("Created", nothing).unwrap().on_named("europe", nothing).unwrap();
        handlers.on_any(nothing).unwrap().route(|event: &Event| match event.event_type() {
            "Moved" if event.headers().get("region") == Some("eu") => Some("europe"),
            "Lost" => Some("nobody has this name"),
            "Odd" => std::panic::panic_any("told to"),
            _ => None,
        });
        let route = |of| handlers.route_of(&event(of)).number();
        assert_eq!((route("Moved"), route("Created"), route("Other")), (2, 1, 3));
        assert_eq!((route("Lost"), route("Odd")), (0, 3));
        let again = handlers.on_named("europe", nothing).unwrap_err();
        assert_eq!(again.to_string(), "a handler under the name \"europe\" is registered already");
    }

    /// Holds D15.
    #[test]
    fn one_that_is_removed_leaves_its_place_to_the_next_of_its_kind() {
        let mut handlers = Handlers::new();
        handlers.on("Created", nothing).unwrap().on("Deleted", nothing).unwrap();
        let created = Registration::of("Created");
        assert!(handlers.remove(&created).is_some() && handlers.remove(&created).is_none());
        assert_eq!(handlers.route_of(&event("Created")), Route::NOBODY);
        assert!(handlers.sink(Route(1)).is_none() && handlers.kinds_of(&[Route(1)]).is_empty());
        assert_eq!((handlers.count(), handlers.demands()[0]), (1, None));
        let mut more = Handlers::new();
        more.on("Renamed", nothing).unwrap().on("Created", nothing).unwrap();
        handlers.add(more).unwrap();
        let route = |of| handlers.route_of(&event(of)).number();
        assert_eq!((route("Created"), route("Deleted"), route("Renamed")), (1, 2, 3));
        let mut twice = Handlers::new();
        twice.on("New", nothing).unwrap().on("Created", nothing).unwrap();
        assert!(matches!(handlers.add(twice), Err(RegisterError::Duplicate(_))));
        assert_eq!(handlers.route_of(&event("New")), Route::NOBODY, "all or none");
    }
}
