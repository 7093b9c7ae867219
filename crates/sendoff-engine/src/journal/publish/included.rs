//! Publishers that are always there.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use async_trait::async_trait;
use sendoff_core::journal::{Position, Recorded};
use tracing::info;

use super::publisher::{Publisher, Stopped};
use crate::lock::lock;

/// Types that are counted one by one; further ones are counted together. Types are written by
/// applications, and a mistake there must not fill the memory here.
const TYPES: usize = 1_000;
/// What further ones are counted as.
const OTHER_TYPES: &str = "(other)";

/// Writes each fact to the log, without its payload.
#[derive(Debug, Clone)]
pub struct LogPublisher {
    name: String,
}

impl LogPublisher {
    /// A publisher of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into() }
    }
}

impl Default for LogPublisher {
    fn default() -> Self {
        Self::new("log")
    }
}

#[async_trait]
impl Publisher for LogPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped> {
        for fact in facts {
            info!(
                publisher = self.name,
                position = fact.position.get(),
                event_id = %fact.fact.id(),
                event_type = fact.event().event_type(),
                tags = ?fact.tags(),
                "fact"
            );
        }
        Ok(())
    }
}

/// What a statistics publisher has seen.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Seen {
    /// Facts.
    pub facts: u64,
    /// Batches.
    pub batches: u64,
    /// The highest position.
    pub last: Position,
    /// Facts by their type.
    pub by_type: BTreeMap<String, u64>,
}

/// Counts what it is given. Cheap to clone; clones count together.
#[derive(Debug, Clone)]
pub struct StatisticsPublisher {
    name: String,
    seen: Arc<Mutex<Seen>>,
}

impl StatisticsPublisher {
    /// A publisher of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), seen: Arc::default() }
    }

    /// What it has seen so far.
    pub fn seen(&self) -> Seen {
        lock(&self.seen).clone()
    }
}

impl Default for StatisticsPublisher {
    fn default() -> Self {
        Self::new("statistics")
    }
}

impl Seen {
    pub(super) fn count(&mut self, facts: &[Arc<Recorded>]) {
        self.batches += 1;
        for fact in facts {
            self.facts += 1;
            self.last = self.last.max(fact.position);
            let event_type = fact.event().event_type();
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
impl Publisher for StatisticsPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped> {
        lock(&self.seen).count(facts);
        Ok(())
    }
}
