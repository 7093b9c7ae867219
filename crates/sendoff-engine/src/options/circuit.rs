//! When a target counts as unavailable.

use std::time::Duration;

use super::check::{LONGEST, MOST, OptionsError, SHORTEST, check_times};

/// When the target of a handler or sink counts as unavailable, and how it is tried again.
///
/// Events that fail because their target does are no dead letters: once so many different ones failed in
/// a row and none succeeded, the circuit opens. What waits then uses up no attempt and keeps no other
/// handler waiting; one event at a time probes the target, and when that succeeds all of them go on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
#[cfg_attr(feature = "serde", serde(default, deny_unknown_fields))]
pub struct CircuitOptions {
    /// How many different events fail in a row before it opens. 5. With 0 it never does: whatever fails
    /// uses up an attempt, unless its failure says that the target is unavailable.
    pub opens_after: usize,
    /// The pause before the first probe, and of an event whose target is unavailable. 1 s; twice as long
    /// after each probe that fails.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub first_pause: Duration,
    /// The longest pause between two probes. 15 s.
    #[cfg_attr(feature = "serde", serde(with = "sendoff_core::duration"))]
    pub longest_pause: Duration,
}

impl Default for CircuitOptions {
    fn default() -> Self {
        Self {
            // Fewer would take a few bad events for an outage, more would use up their attempts.
            opens_after: 5,
            first_pause: Duration::from_secs(1),
            // Whoever mends a target looks whether events flow; a minute would be long then.
            longest_pause: Duration::from_secs(15),
        }
    }
}

impl CircuitOptions {
    /// One that never opens: every failure is the event's own, unless it says otherwise.
    pub fn off() -> Self {
        Self { opens_after: 0, ..Self::default() }
    }

    pub(crate) fn check(&self) -> Result<(), OptionsError> {
        if self.opens_after > MOST {
            let (path, value) = ("opens_after".to_owned(), self.opens_after);
            return Err(OptionsError::Count { path, value, least: 0, most: MOST });
        }
        check_times(&[
            ("first_pause", self.first_pause, SHORTEST, LONGEST),
            ("longest_pause", self.longest_pause, self.first_pause, LONGEST),
        ])
    }
}
