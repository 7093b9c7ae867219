//! What is paused, in memory.

use async_trait::async_trait;
use sendoff_core::{AuditAction, AuditNote, Pause, PauseScope, Timestamp, limits};

use super::store::MemoryStore;
use super::table::Table;
use crate::store::{AuditEntry, PauseStore, StoreError};

#[async_trait]
impl PauseStore for MemoryStore {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        Ok(self.with(|table, _| table.pauses.values().cloned().collect())?)
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        let paused = self.with(|table, since| {
            if table.pauses.contains_key(scope) {
                return Ok(false);
            }
            if table.pauses.len() >= limits::PAUSES {
                return Err(StoreError::TooManyPauses { limit: limits::PAUSES });
            }
            let (actor, reason) = (note.actor().to_owned(), note.reason().to_owned());
            let pause = Pause { scope: scope.clone(), since, actor, reason };
            table.pauses.insert(scope.clone(), pause);
            table.note_pause(AuditAction::Pause, scope, note, since);
            Ok(true)
        })??;
        self.repaused(paused);
        Ok(paused)
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        let resumed = self.with(|table, now| {
            let resumed = table.pauses.remove(scope).is_some();
            if resumed {
                table.note_pause(AuditAction::Resume, scope, note, now);
            }
            resumed
        })?;
        self.repaused(resumed);
        Ok(resumed)
    }

    async fn pauses_changed(&self) {
        self.until_repaused().await;
    }
}

impl Table {
    fn note_pause(
        &mut self,
        action: AuditAction,
        scope: &PauseScope,
        note: &AuditNote,
        at: Timestamp,
    ) {
        self.note(|seq| AuditEntry {
            seq,
            at,
            action,
            actor: note.actor().to_owned(),
            reason: note.reason().to_owned(),
            event: None,
            event_type: None,
            attempts: None,
            last_error: None,
            subject: Some(scope.to_string()),
        });
    }
}
