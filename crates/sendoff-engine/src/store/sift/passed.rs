//! Rows that made a claim fail: passed over for a while, and hopeless at last.

use std::collections::HashMap;
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::EventId;
use tokio::time::Instant;

use crate::lock::lock;

/// A row that was refused is passed over for so long at first, then twice as long each time.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_secs(600);
/// Refusals after which a row is hopeless: five minutes, and a few seconds.
const HOPELESS: u32 = 6;
/// Rows that are remembered. They are named in every claim, so there must be an end.
const REMEMBERED: usize = 10_000;

/// Rows that a store passes over for a while, since they were refused. Forgotten at a restart.
#[derive(Debug, Default)]
pub struct PassedOver(Mutex<HashMap<EventId, Refusals>>);

#[derive(Debug)]
struct Refusals {
    /// Refusals between which others went through: those that the row is to blame for.
    count: u32,
    /// Whether others went through since the last one.
    others_passed: bool,
    /// Until when it is passed over.
    until: Instant,
}

impl PassedOver {
    /// What is passed over at this time.
    pub fn ids(&self, now: Instant) -> Vec<EventId> {
        let mut rows = lock(&self.0);
        // What was not refused again for long was claimed meanwhile, here or elsewhere.
        rows.retain(|_, row| now < row.until + LONGEST_PAUSE);
        rows.iter().filter(|(_, row)| now < row.until).map(|(id, _)| *id).collect()
    }

    /// A row was refused by itself.
    pub(super) fn refused(&self, id: EventId, now: Instant) {
        let mut rows = lock(&self.0);
        if rows.len() >= REMEMBERED && !rows.contains_key(&id) {
            return;
        }
        let row = rows.entry(id).or_insert(Refusals { count: 0, others_passed: true, until: now });
        // While everything is refused nobody is to blame, and nothing waits longer and longer.
        if std::mem::take(&mut row.others_passed) {
            row.count += 1;
        }
        let pause = FIRST_PAUSE.saturating_mul(1 << (row.count - 1).min(16));
        row.until = now + pause.min(LONGEST_PAUSE);
    }

    /// Others went through the statement that these were refused by.
    pub(super) fn others_pass(&self) {
        for row in lock(&self.0).values_mut() {
            row.others_passed = true;
        }
    }

    /// Whether a row was refused so often, over so long a time, that it had better end.
    pub(super) fn is_hopeless(&self, id: EventId) -> bool {
        lock(&self.0).get(&id).is_some_and(|row| row.count >= HOPELESS)
    }
}
