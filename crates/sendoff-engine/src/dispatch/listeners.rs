use std::collections::HashMap;

use sendoff_core::{AggregateType, EventType, GLOBAL_AGGREGATE};

use super::{AnyHandler, Handler};

/// Who listens to what: one handler for each pair of aggregate type and event type.
#[derive(Debug, Default)]
pub struct Listeners {
    /// By aggregate type, then by event type. Two keys, not one joined text: a separator inside a
    /// name cannot make two pairs collide.
    by_aggregate: HashMap<String, HashMap<String, AnyHandler>>,
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
        let (aggregate_type, event_type) = (aggregate_type.name(), event_type.name());
        let listeners = self.by_aggregate.entry(aggregate_type.to_owned()).or_default();
        if listeners.contains_key(event_type) {
            return Err(DuplicateListener {
                aggregate_type: aggregate_type.to_owned(),
                event_type: event_type.to_owned(),
            });
        }
        listeners.insert(event_type.to_owned(), AnyHandler::new(handler));
        Ok(self)
    }

    /// The listener for this pair.
    pub fn find(&self, aggregate_type: &str, event_type: &str) -> Option<&AnyHandler> {
        self.by_aggregate.get(aggregate_type)?.get(event_type)
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
}
