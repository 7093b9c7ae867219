use std::collections::HashMap;

use sendoff_core::{AggregateType, EventType, GLOBAL_AGGREGATE};

use super::{AnyHandler, Handler};

/// Who listens to what: one handler for each pair of aggregate type and event type.
#[derive(Debug, Default)]
pub struct Listeners {
    handlers: Vec<Registered>,
    /// Places among the handlers, by aggregate type, then by event type. Two keys, not one joined text:
    /// a separator inside a name cannot make two pairs collide.
    by_aggregate: HashMap<String, HashMap<String, usize>>,
}

#[derive(Debug)]
struct Registered {
    event_type: String,
    handler: AnyHandler,
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

impl Listeners {
    /// Nobody listens yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Registers a handler for events of this type without an aggregate.
    pub fn on(
        &mut self,
        event_type: impl EventType,
        handler: impl Handler,
    ) -> Result<&mut Self, DuplicateListener> {
        self.on_aggregate(GLOBAL_AGGREGATE, event_type, handler)
    }

    /// Registers a handler for events of this type about this kind of aggregate.
    pub fn on_aggregate(
        &mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        handler: impl Handler,
    ) -> Result<&mut Self, DuplicateListener> {
        let (aggregate_type, event_type) = (aggregate_type.name(), event_type.name().to_owned());
        let listeners = self.by_aggregate.entry(aggregate_type.to_owned()).or_default();
        if listeners.contains_key(&event_type) {
            return Err(DuplicateListener {
                aggregate_type: aggregate_type.to_owned(),
                event_type,
            });
        }
        listeners.insert(event_type.clone(), self.handlers.len());
        self.handlers.push(Registered { event_type, handler: AnyHandler::new(handler) });
        Ok(self)
    }

    /// The listener for this pair.
    pub fn find(&self, aggregate_type: &str, event_type: &str) -> Option<&AnyHandler> {
        self.handler(self.route(aggregate_type, event_type))
    }

    pub(crate) fn route(&self, aggregate_type: &str, event_type: &str) -> Route {
        let place = || self.by_aggregate.get(aggregate_type)?.get(event_type);
        place().map_or(Route::NOBODY, |place| Route(place + 1))
    }

    pub(crate) fn handler(&self, route: Route) -> Option<&AnyHandler> {
        Some(&self.handlers.get(route.0.checked_sub(1)?)?.handler)
    }

    /// How many runs each handler allows at once, where it says so.
    pub(crate) fn limits(&self) -> Vec<Option<usize>> {
        self.handlers.iter().map(|registered| registered.handler.limit()).collect()
    }

    /// The event types that none but these handle.
    pub(crate) fn types_of(&self, routes: &[Route]) -> Vec<&str> {
        let mut types = Vec::new();
        for (place, registered) in self.handlers.iter().enumerate() {
            let event_type = &*registered.event_type;
            if routes.contains(&Route(place + 1)) && !types.contains(&event_type) {
                types.push(event_type);
            }
        }
        for (place, registered) in self.handlers.iter().enumerate() {
            if !routes.contains(&Route(place + 1)) {
                types.retain(|event_type| *event_type != registered.event_type);
            }
        }
        types
    }
}

/// Somebody listens to that pair already.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("a listener for ({aggregate_type}, {event_type}) is registered already")]
pub struct DuplicateListener {
    /// The aggregate type.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
}

/// Nobody listens to that pair.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("no listener for ({aggregate_type}, {event_type})")]
pub struct NoListener {
    /// The aggregate type.
    pub aggregate_type: String,
    /// The event type.
    pub event_type: String,
}

#[cfg(test)]
mod tests {
    use sendoff_core::Delivery;

    use super::*;
    use crate::dispatch::HandlerResult;

    async fn nothing(_: Delivery) -> HandlerResult {
        Ok(())
    }

    /// Holds D5.
    #[test]
    fn a_second_listener_for_the_same_pair_is_refused() {
        let mut listeners = Listeners::new();
        listeners.on("Created", nothing).unwrap().on("Deleted", nothing).unwrap();
        listeners.on_aggregate("User", "Created", nothing).unwrap();
        let error = listeners.on_aggregate("User", "Created", nothing).unwrap_err();
        assert_eq!(error.to_string(), "a listener for (User, Created) is registered already");
        assert!(listeners.on_aggregate(GLOBAL_AGGREGATE, "Created", nothing).is_err());
    }

    /// Holds D5.
    #[test]
    fn separators_in_names_do_not_collide() {
        let mut listeners = Listeners::new();
        listeners.on_aggregate("a:b", "c", nothing).unwrap();
        assert!(listeners.find("a:b", "c").is_some());
        assert!(listeners.find("a", "b:c").is_none());
        listeners.on_aggregate("a", "b:c", nothing).unwrap();
    }

    #[test]
    fn a_type_is_of_some_handlers_if_no_other_handles_it() {
        let mut listeners = Listeners::new();
        listeners.on("Created", nothing).unwrap().on("Deleted", nothing).unwrap();
        listeners.on_aggregate("User", "Created", nothing).unwrap();
        let [created, deleted, of_users] = [
            listeners.route(GLOBAL_AGGREGATE, "Created"),
            listeners.route(GLOBAL_AGGREGATE, "Deleted"),
            listeners.route("User", "Created"),
        ];
        assert_eq!(listeners.route("User", "Deleted"), Route::NOBODY);
        assert_eq!(listeners.types_of(&[created, deleted]), ["Deleted"]);
        assert_eq!(listeners.types_of(&[created, of_users]), ["Created"]);
        assert!(listeners.types_of(&[]).is_empty());
    }
}
