//! Options about a node, which outbox, relay and publishing share.

use std::time::Duration;

use sendoff_core::limits;

use super::check::{LONGEST, OptionsError, SHORTEST, check_times};
use crate::owner::SUFFIX_CHARS;

/// What every node has: a name, patience with its database, and time to close.
#[derive(Debug, Clone, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct NodeOptions {
    /// The node's name: in `locked_by` of rows it holds, and of pairs it leads; `node` when not given.
    /// Each start adds its own suffix.
    pub name: Option<String>,
    /// How long a statement of ours may take before it counts as lost; at most half of the shortest hold
    /// or lease of this node, so that one lost statement lets none run out. That half by default, but not
    /// more than 5 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub store_timeout: Option<Duration>,
    /// How long closing waits for handlers to finish. 5 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub drain_timeout: Duration,
}

impl Default for NodeOptions {
    fn default() -> Self {
        Self { name: None, store_timeout: None, drain_timeout: Duration::from_secs(5) }
    }
}

/// Nobody should wait longer than this for one statement, however long holds are.
const LONGEST_STATEMENT: Duration = Duration::from_secs(5);

impl NodeOptions {
    /// `shortest` is the shortest hold or lease of the node.
    pub(crate) fn check(&self, shortest: Duration) -> Result<(), OptionsError> {
        let (chars, most) = (
            self.name.as_deref().unwrap_or_default().chars().count(),
            limits::OWNER_CHARS - SUFFIX_CHARS,
        );
        if chars > most {
            return Err(OptionsError::Length { path: "name".to_owned(), chars, most });
        }
        check_times(&[
            ("store_timeout", self.statement_limit(shortest), SHORTEST, shortest / 2),
            ("drain_timeout", self.drain_timeout, Duration::ZERO, LONGEST),
        ])
    }

    /// How long a statement may take: what was wished, or half of the shortest hold, so that there is
    /// time for a second one before anything that is held runs out.
    pub(crate) fn statement_limit(&self, shortest: Duration) -> Duration {
        self.store_timeout.unwrap_or_else(|| (shortest / 2).min(LONGEST_STATEMENT))
    }
}
