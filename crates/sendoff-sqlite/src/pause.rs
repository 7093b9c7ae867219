//! What is paused, on SQLite.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Transaction;
use sendoff_core::{AuditAction, AuditNote, Pause, PauseScope, Timestamp, limits};
use sendoff_engine::store::{PAUSES_READ, PauseStore, StoreError, read_pauses};

use crate::durable::durably;
use crate::options::Synchronous;
use crate::sql::Sql;
use crate::store::{SqliteStore, in_transaction};

#[async_trait]
impl PauseStore for SqliteStore {
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError> {
        let rows = self.read(|conn, sql, _| {
            let mut pauses = conn.prepare_cached(&sql.pauses)?;
            let rows = pauses.query_map([PAUSES_READ as i64], |row| {
                let since = Timestamp::from_micros(row.get(2)?);
                Ok((row.get(0)?, row.get(1)?, since, row.get(3)?, row.get(4)?))
            })?;
            rows.collect::<rusqlite::Result<Vec<_>>>()
        });
        read_pauses(&rows.await?, |row| Ok(row.clone()))
    }

    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        let (scope, note) = (scope.clone(), note.clone());
        let paused = self.order(move |tx, sql, now| {
            let (kind, name) = scope.stored();
            let (actor, reason) = (note.actor(), note.reason());
            let most = limits::PAUSES as i64;
            let values = (kind, name, now.as_micros(), actor, reason, most);
            if tx.prepare_cached(&sql.pause)?.execute(values)? > 0 {
                audit(tx, sql, now, AuditAction::Pause, &scope, &note)?;
                return Ok(Some(true));
            }
            let known =
                tx.prepare_cached(&sql.paused)?.query_row((kind, name), |row| row.get(0))?;
            Ok(if known { Some(false) } else { None })
        });
        paused.await?.ok_or(StoreError::TooManyPauses { limit: limits::PAUSES })
    }

    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError> {
        let (scope, note) = (scope.clone(), note.clone());
        self.order(move |tx, sql, now| {
            let resumed = tx.prepare_cached(&sql.resume)?.execute(scope.stored())? > 0;
            if resumed {
                audit(tx, sql, now, AuditAction::Resume, &scope, &note)?;
            }
            Ok(resumed)
        })
        .await
    }

    async fn pauses_changed(&self) {
        self.keep_lookout();
        self.lookout().repaused().await;
    }
}

fn audit(
    tx: &Transaction<'_>,
    sql: &Sql,
    now: Timestamp,
    action: AuditAction,
    scope: &PauseScope,
    note: &AuditNote,
) -> rusqlite::Result<()> {
    let subject = scope.to_string();
    let values = (now.as_micros(), action.name(), note.actor(), note.reason(), subject);
    tx.prepare_cached(&sql.audit_pause)?.execute(values).map(drop)
}

impl SqliteStore {
    /// Carries out what an operator orders: in a transaction that waits for the disk, which those of this
    /// thread do not otherwise.
    pub(crate) async fn order<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Transaction<'_>, &Sql, Timestamp) -> rusqlite::Result<T> + Send + 'static,
    ) -> Result<T, StoreError> {
        let last_look = Arc::clone(self.last_look());
        self.on_thread(move |conn, sql, clock| {
            last_look.forget();
            durably(conn, Synchronous::Full, |conn| in_transaction(conn, sql, clock, work))?
        })
        .await
    }
}
