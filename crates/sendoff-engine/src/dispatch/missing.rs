//! Where events go that have no handler.

use std::collections::HashMap;
use std::fmt;

use async_trait::async_trait;
use sendoff_core::{Delivery, Failure, GLOBAL_AGGREGATE, Sink, Verdict};

/// Where events go that have no handler: so they pass interceptors and are followed up as all others.
#[derive(Clone, Default)]
pub(super) struct Nobody {
    /// The types that have a handler, and what the first of them is about.
    known: HashMap<String, String>,
}

impl Nobody {
    /// There is a handler for this.
    pub(super) fn knows(&mut self, aggregate_type: &str, event_type: &str) {
        let known = self.known.entry(event_type.to_owned());
        known.or_insert_with(|| aggregate_type.to_owned());
    }

    /// There is none any more.
    pub(super) fn forgets(&mut self, event_type: &str) {
        self.known.remove(event_type);
    }
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
