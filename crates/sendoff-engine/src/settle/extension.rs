//! Extends holds in statements that the database can answer in time.

use std::collections::{BTreeSet, VecDeque};
use std::time::Duration;

use sendoff_core::{EventId, report};
use tracing::warn;

use super::fit::{Fit, halves};
use crate::source::Deadline;
use crate::store::{Extended, Held, SettleStore, StoreError, within};

/// Extends holds in statements of a size that the database answers in time.
#[derive(Debug, Default)]
pub(crate) struct Extender {
    fit: Fit,
    /// Where the last look ended early: the next one begins after it, so that one part that fails
    /// does not keep the others from being extended.
    after: Option<EventId>,
}

/// What became of the holds that were to be extended.
#[derive(Debug, Default)]
pub(crate) struct Extension {
    /// Parts that were decided.
    pub(crate) decided: Vec<Decided>,
    /// Rows that somebody has locked: their holds are as they were.
    pub(crate) busy: Vec<Held>,
    /// Why nothing further was tried.
    pub(crate) failed: Option<StoreError>,
}

/// Holds that are extended, or lost.
#[derive(Debug)]
pub(crate) struct Decided {
    pub(crate) asked: Vec<Held>,
    pub(crate) held: Vec<Held>,
    pub(crate) until: Deadline,
}

impl Extender {
    /// Extends all of `holds`, until the database does not answer.
    pub(crate) async fn extend(
        &mut self,
        store: &dyn SettleStore,
        mut holds: Vec<Held>,
        hold: Duration,
        limit: Duration,
    ) -> Extension {
        holds.sort_unstable_by_key(|held| held.id);
        if let Some(after) = self.after.take() {
            let first = holds.partition_point(|held| held.id <= after);
            holds.rotate_left(first);
        }
        let mut extension = Extension::default();
        let mut parts: VecDeque<Vec<Held>> =
            holds.chunks(self.fit.rows()).map(<[Held]>::to_vec).collect();
        while let Some(part) = parts.pop_front() {
            let until = Deadline::after(hold);
            match within(limit, store.extend(&part, hold)).await {
                Ok(answer) => {
                    self.fit.answered(part.len());
                    extension.take(part, answer, until);
                }
                // Nothing was changed: whose fault it is shows when it is alone.
                Err(StoreError::Refused(_) | StoreError::Busy(_)) if part.len() > 1 => {
                    halves(part).into_iter().rev().for_each(|half| parts.push_front(half));
                }
                Err(StoreError::Busy(_)) => extension.busy.extend(part),
                Err(error @ StoreError::Refused(_)) => {
                    for held in part {
                        warn!(event.id = %held.id, error = report(&error), "hold not extended");
                    }
                }
                Err(error) => {
                    if matches!(error, StoreError::Timeout) {
                        self.fit.too_long(part.len());
                    }
                    warn!(error = report(&error), holds = part.len(), "holds not extended");
                    self.after = part.last().map(|held| held.id);
                    extension.failed = Some(error);
                    break;
                }
            }
        }
        extension
    }
}

impl Extension {
    fn take(&mut self, mut asked: Vec<Held>, answer: Extended, until: Deadline) {
        let Extended { held, busy } = answer;
        let busy: BTreeSet<EventId> = busy.into_iter().collect();
        self.busy.extend(asked.extract_if(.., |held| busy.contains(&held.id)));
        let lost = asked.len().saturating_sub(held.len());
        if lost > 0 {
            warn!(lost, "holds lost to others");
        }
        self.decided.push(Decided { asked, held, until });
    }
}
