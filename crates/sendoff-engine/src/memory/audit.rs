//! What operators did to a table in memory.

use super::table::Table;
use crate::store::{AuditEntry, AuditPage};

impl Table {
    /// Adds an entry, which is told its number.
    pub(super) fn note(&mut self, entry: impl FnOnce(i64) -> AuditEntry) {
        let seq = i64::try_from(self.audit.len() + 1).unwrap_or(i64::MAX);
        self.audit.push(entry(seq));
    }

    pub(super) fn audited(&self, page: &AuditPage) -> Vec<AuditEntry> {
        let meant = |entry: &&AuditEntry| {
            page.before.is_none_or(|before| entry.seq < before)
                && page.event.is_none_or(|event| entry.event == Some(event))
        };
        self.audit.iter().rev().filter(meant).take(page.limit).cloned().collect()
    }
}
