use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Transaction;
use sendoff_core::{EventId, Timestamp, Token, limits};
use sendoff_engine::store::{Held, Outcome, SettleStore, Settlement, StoreError};

use crate::options::Retention;
use crate::sql::Sql;
use crate::store::{SqliteStore, due};

#[async_trait]
impl SettleStore for SqliteStore {
    async fn settle(&self, batch: &[Settlement]) -> Result<Vec<EventId>, StoreError> {
        if batch.is_empty() {
            return self.check_open().map(|()| Vec::new());
        }
        let (batch, retention) = (batch.to_vec(), self.retention());
        self.write(move |tx, sql, now| {
            let mut settled = Vec::with_capacity(batch.len());
            for settlement in &batch {
                if settle(tx, sql, now, retention, settlement)? {
                    settled.push(settlement.held.id);
                }
            }
            Ok(settled)
        })
        .await
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Vec<Held>, StoreError> {
        if holds.is_empty() {
            return self.check_open().map(|()| Vec::new());
        }
        let holds = holds.to_vec();
        self.write(move |tx, sql, now| {
            let mut extend = tx.prepare_cached(&sql.extend)?;
            let mut extended = Vec::with_capacity(holds.len());
            for Held { id, by } in holds {
                let token = by.token();
                let until = due(now, hold, token.due_at());
                let changed = extend.execute((
                    id.as_bytes(),
                    token.due_at().as_micros(),
                    until.as_micros(),
                ))?;
                if changed > 0 {
                    extended.push(Held::row(id, Token::new(until)));
                }
            }
            Ok(extended)
        })
        .await
    }
}

/// Carries out one settlement; `false` if it was fenced.
fn settle(
    tx: &Transaction<'_>,
    sql: &Sql,
    now: Timestamp,
    retention: Retention,
    settlement: &Settlement,
) -> rusqlite::Result<bool> {
    let Settlement { held: Held { id, by }, outcome } = settlement;
    let token = by.token();
    let (id, token) = (id.as_bytes(), token.due_at());
    let fence = token.as_micros();
    let changed = match outcome {
        Outcome::Done => match retention {
            Retention::DeleteWhenDone => {
                tx.prepare_cached(&sql.settle_delete)?.execute((id, fence))?
            }
            Retention::Keep(_) => {
                tx.prepare_cached(&sql.settle_done)?.execute((id, fence, now.as_micros()))?
            }
        },
        Outcome::Retry { delay, attempts, error } => {
            let due_at = due(now, *delay, token).as_micros();
            tx.prepare_cached(&sql.settle_retry)?.execute((
                id,
                fence,
                due_at,
                attempts,
                kept(error),
            ))?
        }
        Outcome::Dead { attempts, error } => {
            tx.prepare_cached(&sql.settle_dead)?.execute((id, fence, attempts, kept(error)))?
        }
        Outcome::Released => {
            tx.prepare_cached(&sql.settle_release)?.execute((id, fence, now.as_micros()))?
        }
    };
    Ok(changed > 0)
}

/// The part of an error's text that is stored.
fn kept(error: &str) -> &str {
    limits::truncate(error, limits::ERROR_CHARS)
}
