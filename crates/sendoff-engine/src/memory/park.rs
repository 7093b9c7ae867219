//! Keys that stand still, in memory.

use std::ops::Bound;

use async_trait::async_trait;
use sendoff_core::order::{
    EntrySeen, FirstSeen, KeyFate, KeySeen, KeyStanding, ParkingLetter, key_subject,
};
use sendoff_core::{AuditAction, EventId, Status, Timestamp, limits};

use super::entry::Entry;
use super::store::MemoryStore;
use super::table::Table;
use crate::store::{AuditEntry, KeyPage, ParkStore, ResumeKey, StoreError};

#[async_trait]
impl ParkStore for MemoryStore {
    async fn parked_keys(&self, page: &KeyPage<'_>) -> Result<Vec<KeyStanding>, StoreError> {
        Ok(self.with(|table, now| {
            let after = page.after.map_or(Bound::Unbounded, Bound::Excluded);
            let keys = table.keys.range::<str, _>((after, Bound::Unbounded));
            let parked = keys.filter(|(_, row)| row.parked_by.is_some()).take(page.limit);
            parked.map(|(key, _)| table.key_standing(key, now)).collect()
        })?)
    }

    async fn count_parked(&self, most: usize) -> Result<u64, StoreError> {
        Ok(self.with(|table, _| {
            let parked = table.keys.values().filter(|row| row.parked_by.is_some());
            parked.take(most).count() as u64
        })?)
    }

    async fn key_standing(&self, key: &str) -> Result<KeyStanding, StoreError> {
        Ok(self.with(|table, now| table.key_standing(key, now))?)
    }

    async fn resume_key(&self, resume: &ResumeKey<'_>) -> Result<KeyFate, StoreError> {
        Ok(self.with(|table, now| table.resume_key(resume, now))?)
    }
}

impl Table {
    fn key_standing(&self, key: &str, now: Timestamp) -> KeyStanding {
        let entry = self.keys.get(key).map(|row| EntrySeen {
            due_at: row.due_at,
            since: row.since,
            locked_by: row.locked_by.clone(),
            parked_by: row.parked_by,
        });
        let parked_by = entry.as_ref().and_then(|entry| entry.parked_by);
        let letter = parked_by.and_then(|id| self.dead(id)).map(|Entry { row, .. }| {
            let letter = ParkingLetter {
                event_type: row.event.event_type().to_owned(),
                attempts: row.attempts,
                last_error: row.last_error.clone(),
            };
            (letter, row.done_at.unwrap_or(now))
        });
        let first = self.live(key).next().map(|Entry { row, .. }| FirstSeen {
            id: row.event.id(),
            event_type: row.event.event_type().to_owned(),
            created_at: row.created_at,
            due_at: row.due_at,
            locked_by: row.locked_by.clone(),
            attempts: row.attempts,
            last_error: row.last_error.clone(),
        });
        let events = self.live(key).take(limits::KEY_EVENTS + 1).count() as u64;
        KeyStanding::of(KeySeen { key: key.to_owned(), entry, letter, events, first }, now)
    }

    fn dead(&self, id: EventId) -> Option<&Entry> {
        self.get(id).filter(|entry| entry.row.status == Status::Dead)
    }

    fn resume_key(&mut self, resume: &ResumeKey<'_>, now: Timestamp) -> KeyFate {
        let ResumeKey { key, event, note } = *resume;
        let Some(parked_by) = self.keys.get(key).and_then(|row| row.parked_by) else {
            return KeyFate::NotParked;
        };
        if event.is_some_and(|event| event != parked_by) {
            return KeyFate::ParkedBy { event: parked_by };
        }
        let letter = self.dead(parked_by).map(|entry| entry.row.clone());
        self.note(|seq| AuditEntry {
            seq,
            at: now,
            action: AuditAction::Resume,
            actor: note.actor().to_owned(),
            reason: note.reason().to_owned(),
            event: Some(parked_by),
            event_type: letter.as_ref().map(|row| row.event.event_type().to_owned()),
            attempts: letter.as_ref().map(|row| row.attempts),
            last_error: letter.and_then(|row| row.last_error),
            subject: Some(key_subject(key)),
        });
        self.unpark(parked_by, Some(key), now);
        KeyFate::Resumed { event: parked_by }
    }
}
