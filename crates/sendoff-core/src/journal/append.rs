//! Facts and their condition, checked before any SQL.

use std::collections::BTreeSet;

use super::fact::Fact;
use super::invalid::{Invalid, at_most};
use super::lock::Locks;
use super::query::Condition;
use crate::limits;

/// Facts to be appended together, all or none, and what they rely on. Checked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Append {
    facts: Vec<Fact>,
    condition: Option<Condition>,
}

impl Append {
    /// Holds facts and condition to their limits.
    pub fn new(facts: Vec<Fact>, condition: Option<Condition>) -> Result<Self, Invalid> {
        if facts.is_empty() {
            return Err(Invalid::NoFacts);
        }
        at_most("facts of one append", facts.len(), limits::APPEND_FACTS)?;
        let bytes = facts.iter().map(|fact| fact.event().payload().len()).sum();
        if bytes > limits::APPEND_BYTES {
            return Err(Invalid::TooLarge { bytes, limit: limits::APPEND_BYTES });
        }
        let ids: BTreeSet<_> = facts.iter().map(Fact::id).collect();
        if ids.len() < facts.len() {
            return Err(Invalid::SameId);
        }
        if let Some(condition) = &condition {
            condition.query.check()?;
        }
        Ok(Self { facts, condition })
    }

    /// The facts, in order.
    pub fn facts(&self) -> &[Fact] {
        &self.facts
    }

    /// What they rely on.
    pub fn condition(&self) -> Option<&Condition> {
        self.condition.as_ref()
    }

    /// What must be locked before anything is looked at or written.
    pub fn locks(&self) -> Locks {
        Locks::of_append(&self.facts, self.condition.as_ref().map(|condition| &condition.query))
    }
}
