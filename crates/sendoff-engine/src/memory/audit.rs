//! What operators did to a table in memory.

use sendoff_core::Timestamp;

use super::table::Table;
use crate::store::{AuditEntry, AuditPage};

impl Table {
    /// Adds an entry, which is told its number.
    pub(super) fn note(&mut self, entry: impl FnOnce(i64) -> AuditEntry) {
        self.last_entry += 1;
        self.audit.push(entry(self.last_entry));
    }

    /// Forgets what was done before a moment, the oldest first and at most `limit` of it. Answers how many.
    pub(super) fn forget_audit(&mut self, before: Timestamp, limit: usize) -> u64 {
        let mut gone = 0;
        self.audit.retain(|entry| {
            let goes = gone < limit && entry.at < before;
            gone += usize::from(goes);
            !goes
        });
        gone as u64
    }

    pub(super) fn audited(&self, page: &AuditPage) -> Vec<AuditEntry> {
        let meant = |entry: &&AuditEntry| {
            page.before.is_none_or(|before| entry.seq < before)
                && page.event.is_none_or(|event| entry.event == Some(event))
        };
        self.audit.iter().rev().filter(meant).take(page.limit).cloned().collect()
    }
}
