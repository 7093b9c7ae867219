//! Settlements on SQLite, one by one in the store's transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::types::{ToSqlOutput, ValueRef};
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::{EventId, Holding, Timestamp, Token, WaitsFor, limits};
use sendoff_engine::store::{
    Extended, Held, Outcome, SettleStore, Settled, Settlement, StoreError,
};

use crate::claim::row_token;
use crate::options::Retention;
use crate::sql::Sql;
use crate::store::{SqliteStore, due};

#[async_trait]
impl SettleStore for SqliteStore {
    async fn settle(&self, batch: &[Settlement]) -> Result<Settled, StoreError> {
        let provable = |one: &&Settlement| row_token(&one.held).is_some();
        let batch: Vec<_> = batch.iter().filter(provable).cloned().collect();
        if batch.is_empty() {
            return self.check_open().map(|()| Settled::default());
        }
        let retention = self.retention();
        // SQLite locks the file, never a row: nothing here is busy.
        let applied =
            self.write(move |tx, sql, now| settle_all(tx, sql, now, retention, &batch)).await?;
        Ok(Settled { applied, busy: Vec::new() })
    }

    async fn extend(&self, holds: &[Held], hold: Duration) -> Result<Extended, StoreError> {
        let holds: Vec<(EventId, Token)> =
            holds.iter().filter_map(|held| Some((held.id, row_token(held)?))).collect();
        if holds.is_empty() {
            return self.check_open().map(|()| Extended::default());
        }
        self.write(move |tx, sql, now| {
            let mut extend = tx.prepare_cached(&sql.extend)?;
            let mut extended = Vec::with_capacity(holds.len());
            for (id, token) in holds {
                let until = due(now, hold, Some(token.due_at()));
                let changed = extend.execute((
                    id.as_bytes(),
                    token.due_at().as_micros(),
                    until.as_micros(),
                ))?;
                if changed > 0 {
                    extended.push(Held::row(id, Token::new(until)));
                }
            }
            Ok(Extended { held: extended, busy: Vec::new() })
        })
        .await
    }
}

/// Carries out what is not fenced, and counts what ended by it. Answers which it did. What is held by a
/// lock is this very transaction's.
pub(crate) fn settle_all(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    retention: Retention,
    batch: &[Settlement],
) -> rusqlite::Result<Vec<EventId>> {
    let mut settled = Vec::with_capacity(batch.len());
    let mut ended: BTreeMap<(Vec<u8>, i16), i64> = BTreeMap::new();
    for settlement in batch {
        let Some(event_type) = settle(conn, sql, now, retention, settlement)? else {
            continue;
        };
        settled.push(settlement.held.id);
        if let Some(status) = settlement.outcome.end() {
            *ended.entry((event_type, status.code())).or_default() += 1;
        }
    }
    let mut tally = conn.prepare_cached(&sql.tally)?;
    for ((event_type, status), count) in ended {
        let event_type = ToSqlOutput::Borrowed(ValueRef::Text(&event_type));
        tally.execute((event_type, status, count, now.as_micros()))?;
    }
    Ok(settled)
}

/// Carries out one settlement, and answers the type of its event; `None` if it was fenced.
fn settle(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    retention: Retention,
    settlement: &Settlement,
) -> rusqlite::Result<Option<Vec<u8>>> {
    let Settlement { held: Held { id, by }, outcome } = settlement;
    // Nobody else can have changed what this transaction has locked, whatever its due time is.
    let (token, ours) = match by {
        Holding::Row(token) => (Some(token.due_at()), false),
        Holding::Lock => (None, true),
    };
    let (id, was_due) = (id.as_bytes(), token.map(Timestamp::as_micros));
    // Verbatim: SQLite stores any bytes as text.
    let event_type = |row: &Row<'_>| Ok(row.get_ref(0)?.as_bytes()?.to_vec());
    match outcome {
        Outcome::Done => match retention {
            Retention::DeleteWhenDone => {
                conn.prepare_cached(&sql.settle_delete)?.query_row((id, was_due, ours), event_type)
            }
            Retention::Keep(_) => conn
                .prepare_cached(&sql.settle_done)?
                .query_row((id, was_due, now.as_micros(), ours), event_type),
        },
        Outcome::Retry { delay, attempts, error } => {
            let due_at = due(now, *delay, token).as_micros();
            conn.prepare_cached(&sql.settle_retry)?
                .query_row((id, was_due, due_at, attempts, kept(error), ours), event_type)
        }
        Outcome::Wait { delay, waits_for, attempts, error } => {
            let due_at = due(now, *delay, token).as_micros();
            let for_handler = *waits_for == WaitsFor::Handler;
            let values =
                (id, was_due, due_at, attempts, kept(error), ours, now.as_micros(), for_handler);
            conn.prepare_cached(&sql.settle_wait)?.query_row(values, event_type)
        }
        Outcome::Dead { attempts, error } => conn
            .prepare_cached(&sql.settle_dead)?
            .query_row((id, was_due, attempts, kept(error), now.as_micros(), ours), event_type),
        Outcome::Released => conn
            .prepare_cached(&sql.settle_release)?
            .query_row((id, was_due, now.as_micros(), ours), event_type),
        Outcome::Restored { due_at } => conn
            .prepare_cached(&sql.settle_release)?
            .query_row((id, was_due, due_at.as_micros(), ours), event_type),
    }
    .optional()
}

/// The part of an error's text that is stored.
fn kept(error: &str) -> &str {
    limits::truncate(error, limits::ERROR_CHARS)
}
