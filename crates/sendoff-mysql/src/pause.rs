//! What is paused, on MySQL and MariaDB.

use async_trait::async_trait;
use sendoff_core::{AuditNote, Pause, PauseScope, limits};
use sendoff_engine::store::{PAUSES_READ, PauseStore, StoreError, read_pauses};

use crate::rows;
use crate::sql::Statement;
use crate::store::MysqlStore;
use crate::wire::Literal;

#[async_trait]
impl PauseStore for MysqlStore {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        self.check_open()?;
        let text = self.sql().pauses.with(&[("limit", &Literal::count(PAUSES_READ))]);
        let rows = self.links().upkeep.query(&text).await?;
        read_pauses(&rows, |row| {
            let (scope, name) = (rows::integer(row, 0)?, rows::name(row, 1)?);
            Ok((scope, name, rows::time(row, 2)?, rows::name(row, 3)?, rows::name(row, 4)?))
        })
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.change(&self.sql().pause, scope, note).await
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        self.change(&self.sql().resume, scope, note).await
    }

    async fn pauses_changed(&self) {
        self.keep_lookout();
        self.lookout().repaused().await;
    }
}

impl MysqlStore {
    async fn change(
        &self,
        statement: &Statement,
        scope: &PauseScope,
        note: &AuditNote,
    ) -> Result<bool, StoreError> {
        self.check_open()?;
        let (subject, (scope, name)) = (scope.to_string(), scope.stored());
        let text = statement.with(&[
            ("scope", &Literal::number(scope)),
            ("name", &Literal::text(name)),
            ("actor", &Literal::text(note.actor())),
            ("reason", &Literal::text(note.reason())),
            ("subject", &Literal::text(&subject)),
            ("most", &Literal::count(limits::PAUSES)),
        ]);
        let rows = self.links().upkeep.query(&text).await?;
        let Some(row) = rows.first() else { return Ok(false) };
        match rows::integer(row, 1)? {
            0 => Ok(rows::integer(row, 0)? > 0),
            _ => Err(StoreError::TooManyPauses { limit: limits::PAUSES }),
        }
    }
}
