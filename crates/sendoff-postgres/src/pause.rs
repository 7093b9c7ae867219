//! What is paused, on PostgreSQL.

use async_trait::async_trait;
use sendoff_core::{AuditNote, Pause, PauseScope, limits};
use sendoff_engine::store::{PAUSE_LOOK, PAUSES_READ, PauseStore, StoreError, read_pauses};
use tokio::time::sleep;

use crate::link::Params;
use crate::options::Doorbell;
use crate::rows::{get, time};
use crate::sql::Statement;
use crate::store::PostgresStore;

#[async_trait]
impl PauseStore for PostgresStore {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.check_open()?;
        let rows = self.links().upkeep.query(&self.sql().pauses, &[&(PAUSES_READ as i64)]).await?;
        read_pauses(&rows, |row| {
            let (scope, name): (i16, String) = (get(row, 0)?, get(row, 1)?);
            Ok((scope.into(), name, time(row, 2)?, get(row, 3)?, get(row, 4)?))
        })
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.change(&self.sql().pause, scope, note, &[&(limits::PAUSES as i64)]).await
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.change(&self.sql().resume, scope, note, &[]).await
    }

    async fn pauses_changed(&self) {
        match self.doorbell() {
            Doorbell::On => self.bell().repaused(self.connector()).await,
            // Nothing can be listened to: a pooler chooses the session of each statement.
            Doorbell::Off => sleep(PAUSE_LOOK).await,
        }
    }
}

impl PostgresStore {
    async fn change(
        &self,
        statement: &Statement,
        scope: &PauseScope,
        note: &AuditNote,
        also: Params<'_>,
    ) -> Result<bool, StoreError> {
        self.check_open()?;
        let (subject, (scope, name)) = (scope.to_string(), scope.stored());
        let (scope, actor, reason) = (i16::from(scope), note.actor(), note.reason());
        let own: Params<'_> = &[&scope, &name, &actor, &reason, &subject];
        let params = [own, also].concat();
        let rows = self.links().upkeep.query(statement, &params).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        match get(row, 1)? {
            true => Err(StoreError::TooManyPauses { limit: limits::PAUSES }),
            false => get(row, 0),
        }
    }
}
