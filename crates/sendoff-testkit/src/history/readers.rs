//! Histories of a log, which many read: each reader gets everything that its topic selects, in the
//! order of positions, and has a history of its own. What is recorded and what breaks is in all of
//! them.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

use sendoff_core::Delivery;
use sendoff_core::journal::{Fact, Position, Recorded, Topic};
use sendoff_core::order::AfterDead;

use super::check::{Expectations, check};
use super::fault::Fault;
use super::log::History;
use super::verdict::Verdict;

/// What happened to the readers of a log. Clones are the same; any thread may write to it.
#[derive(Clone, Default)]
pub struct LogHistory(Arc<BTreeMap<String, (Topic, History)>>);

impl LogHistory {
    /// Of these readers, each with what it is to get.
    pub fn of<N: Into<String>>(readers: impl IntoIterator<Item = (N, Topic)>) -> Self {
        let readers = readers.into_iter();
        Self(Arc::new(
            readers.map(|(name, topic)| (name.into(), (topic, History::new()))).collect(),
        ))
    }

    /// A fact's transaction committed, and this is its place in the log.
    pub fn recorded(&self, fact: &Fact, position: Position) {
        for (topic, history) in self.0.values().filter(|(topic, _)| topic.selects(fact)) {
            history.committed_in(fact.event(), topic.name(), position.get());
        }
    }

    /// A fact's transaction was rolled back.
    pub fn rolled_back(&self, fact: &Fact) {
        self.0.values().for_each(|(_, history)| history.rolled_back(fact.event()));
    }

    /// Something broke. Log it before it takes effect.
    pub fn fault(&self, fault: &Fault) {
        self.0.values().for_each(|(_, history)| history.fault(fault.clone()));
    }

    /// A reader on `node` was given facts, one after the other, and took them or not.
    ///
    /// # Panics
    ///
    /// If there is no reader of that name.
    pub fn published(&self, reader: &str, node: &str, facts: &[Arc<Recorded>], ok: bool) {
        for fact in facts {
            self.delivered(reader, node, &Delivery::of_fact(fact, 1), ok);
        }
    }

    /// What a reader on `node` was given became durable in this moment, or was refused.
    ///
    /// # Panics
    ///
    /// If there is no reader of that name.
    pub fn delivered(&self, reader: &str, node: &str, delivery: &Delivery, ok: bool) {
        self.of_reader(reader).delivery_started(node, delivery).finished(ok);
    }

    /// A node sent a move of a reader's cursor. `applied` says whether it was made, and `current` whether
    /// it was the node's to make, as seen by whoever looks into the store.
    ///
    /// # Panics
    ///
    /// If there is no reader of that name.
    pub fn moved(&self, reader: &str, node: &str, to: Position, applied: bool, current: bool) {
        self.of_reader(reader).moved(node, to.get(), applied, current);
    }

    /// Each reader's history.
    pub fn histories(&self) -> impl Iterator<Item = (&str, &History)> {
        self.0.iter().map(|(name, (_, history))| (name.as_str(), history))
    }

    fn of_reader(&self, reader: &str) -> &History {
        let (_, history) = self.0.get(reader).expect("a reader of this history");
        history
    }

    /// Judges each reader's history: nothing lost, nothing that was not committed or not for it,
    /// nothing altered, first deliveries in the order of positions, and nothing twice without a fault.
    pub fn verdicts(&self) -> BTreeMap<&str, Verdict> {
        let expected = Expectations { ordered: Some(AfterDead::Park), ..Expectations::default() };
        let judged = |(_, history): &(Topic, History)| check(history, &expected);
        self.0.iter().map(|(name, reader)| (name.as_str(), judged(reader))).collect()
    }
}

impl fmt::Debug for LogHistory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.0.keys()).finish()
    }
}
