//! Options about handlers, which outbox and relay share.

use std::time::Duration;

use sendoff_core::Unroutable;
use sendoff_core::order::AfterDead;

use super::check::{LONGEST, OptionsError, SHORTEST, SHORTEST_HOLD, check_times};
use super::circuit::CircuitOptions;

/// How long a handler may take, and how long an event waits for it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct HandlerOptions {
    /// How long a handler may run for one event, unless it has [a limit of its own](crate::deadline); a run that
    /// takes longer is a failed attempt. 5 minutes.
    /// None lets handlers run for ever: one that hangs has its worker until the process ends.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration::optional"))]
    pub timeout: Option<Duration>,
    /// How long an event may wait before it is released to others. 30 s.
    ///
    /// In an outbox it waits in its lane; once every run that a handler may have has gone on for as long
    /// as this, what waits for it is released at once, and nothing is claimed or taken from commits for
    /// it until one of them ends; so is everything once every worker is in such a run. In a relay it waits in its batch: held events are released while the handler before them
    /// still runs, locked ones when it ends.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub start_within: Duration,
    /// What to do with an event that no handler is registered for. Put off without counting, for 15
    /// minutes since a node first found none.
    pub unroutable: Unroutable,
    /// How long an event may wait for a target that is unavailable, since that began, before it is dead. 7
    /// days.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub unavailable_at_most: Duration,
    /// What follows for the [ordering key](sendoff_core::EventBuilder::ordering_key) of an event that is dead:
    /// its later events wait for somebody who requeues or discards it, or go on. They wait.
    pub after_dead: AfterDead,
    /// When a target counts as unavailable, for each handler by itself.
    pub circuit: CircuitOptions,
}

impl Default for HandlerOptions {
    fn default() -> Self {
        Self {
            // Where a row's lock simply times out, five minutes are the custom, so that a handler which
            // needs longer was never safe from being run twice; and a hang has to end some time, or each
            // costs a worker for good.
            timeout: Some(Duration::from_secs(5 * 60)),
            // About what it takes others to notice a node that died, so that one which merely hangs is
            // not worse.
            start_within: Duration::from_secs(30),
            unroutable: Unroutable::default(),
            // Longer than a weekend with holidays around it; and what waits for ever, nobody misses.
            unavailable_at_most: Duration::from_secs(7 * 24 * 60 * 60),
            after_dead: AfterDead::Park,
            circuit: CircuitOptions::default(),
        }
    }
}

impl HandlerOptions {
    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        check_times(&[
            ("timeout", self.timeout.unwrap_or(SHORTEST), SHORTEST, LONGEST),
            ("start_within", self.start_within, SHORTEST_HOLD, LONGEST),
            ("unavailable_at_most", self.unavailable_at_most, SHORTEST, LONGEST),
        ])?;
        if let Unroutable::Defer { delay, at_most } = self.unroutable {
            check_times(&[
                ("unroutable.defer.delay", delay, SHORTEST, LONGEST),
                ("unroutable.defer.at_most", at_most, delay, LONGEST),
            ])?;
        }
        self.circuit.check().map_err(|error| error.within("circuit"))
    }
}
