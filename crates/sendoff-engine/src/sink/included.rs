//! Sinks that are always there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sendoff_core::journal::Position;
use sendoff_core::{Delivery, Sink, Stopped, Verdict};
use tracing::info;

use crate::lock::lock;

/// Types that are counted one by one; further ones are counted together. Types are written by
/// applications, and a mistake there must not fill the memory here.
const TYPES: usize = 1_000;
/// What further ones are counted as.
const OTHER_TYPES: &str = "(other)";

/// Writes each event to the log, without its payload.
#[derive(Debug, Clone)]
pub struct LogSink {
    name: String,
}

impl LogSink {
    /// A sink of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl Default for LogSink {
    fn default() -> Self {
        Self::new("log")
    }
}

#[async_trait]
impl Sink for LogSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        for delivery in deliveries {
            let fact = delivery.fact();
            info!(
                sink = self.name,
                position = fact.map(|fact| fact.position.get()),
                event_id = %delivery.id(),
                event_type = delivery.event_type(),
                tags = ?fact.map(|fact| fact.tags()),
                "event"
            );
        }
        Stopped::verdicts(Ok(()), deliveries.len())
    }
}

/// What a [`StatisticsSink`] has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Events.
    pub events: u64,
    /// Batches.
    pub batches: u64,
    /// The highest position, where they are facts of a journal.
    pub last: Position,
    /// Events by their type.
    pub by_type: BTreeMap<String, u64>,
}

/// Counts what it is given. Cheap to clone; clones count together.
#[derive(Debug, Clone)]
pub struct StatisticsSink {
    name: String,
    seen: Arc<Mutex<Seen>>,
}

impl StatisticsSink {
    /// A sink of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), seen: Arc::default() }
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Default for StatisticsSink {
    fn default() -> Self {
        Self::new("statistics")
    }
}

impl Seen {
    /// A batch of events: their types, and their positions in a journal.
    pub(crate) fn count<'e>(&mut self, events: impl IntoIterator<Item = (&'e str, Position)>) {
        self.batches += 1;
        for (event_type, position) in events {
            self.events += 1;
            self.last = self.last.max(position);
            let known = self.by_type.contains_key(event_type) || self.by_type.len() < TYPES;
            let name = if known { event_type } else { OTHER_TYPES };
            match self.by_type.get_mut(name) {
                Some(count) => *count += 1,
                None => drop(self.by_type.insert(name.to_owned(), 1)),
            }
        }
    }
}

#[async_trait]
impl Sink for StatisticsSink {
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let position = |delivery: &Delivery| delivery.position().unwrap_or(Position::START);
        let events = deliveries.iter().map(|delivery| (delivery.event_type(), position(delivery)));
        lock(&self.seen).count(events);
        Stopped::verdicts(Ok(()), deliveries.len())
    }
}
