//! Settlements on SQLite, one by one in the store's transaction.

use std::collections::BTreeMap;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row};
use sendoff_core::{EventId, Holding, Timestamp, Token, WaitsFor, limits};
use sendoff_engine::store::{
    Extended, Held, Outcome, SettleStore, Settled, Settlement, StoreError,
};

use crate::claim::row_token;
use crate::keys;
use crate::options::Retention;
use crate::rows::{readable, verbatim};
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
    let mut ended = Ended::default();
    for Settlement { held, outcome } in batch {
        let Some(Over { event_type, key }) = settle(conn, sql, now, retention, *held, outcome)?
        else {
            continue;
        };
        settled.push(held.id);
        ended.add(event_type, outcome);
        if let Some(key) = key {
            keys::row_ended(conn, sql, now, &key, held.id, outcome)?;
        }
    }
    ended.count(conn, sql, now)?;
    Ok(settled)
}

/// How many events ended, by type and status.
#[derive(Default)]
pub(crate) struct Ended(BTreeMap<(Vec<u8>, i16), i64>);

impl Ended {
    pub(crate) fn add(&mut self, event_type: Vec<u8>, outcome: &Outcome) {
        if let Some(status) = outcome.end() {
            *self.0.entry((event_type, status.code())).or_default() += 1;
        }
    }

    /// Adds them to the counters.
    pub(crate) fn count(
        self,
        conn: &Connection,
        sql: &Sql,
        now: Timestamp,
    ) -> rusqlite::Result<()> {
        let mut tally = conn.prepare_cached(&sql.tally)?;
        for ((event_type, status), count) in self.0 {
            tally.execute((verbatim(&event_type), status, count, now.as_micros()))?;
        }
        Ok(())
    }
}

/// A row that was settled.
pub(crate) struct Over {
    /// Verbatim: SQLite stores any bytes as text.
    pub(crate) event_type: Vec<u8>,
    /// Its key, if it has one that can be read.
    pub(crate) key: Option<String>,
}

/// Carries out one settlement; `None` if it was fenced. A hold on its key was proved before.
pub(crate) fn settle(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    retention: Retention,
    Held { id, by }: Held,
    outcome: &Outcome,
) -> rusqlite::Result<Option<Over>> {
    // Nobody else can have changed what this transaction has locked, whatever its due time is.
    let (token, proof) = match by {
        Holding::Row(token) => (Some(token.due_at()), 0),
        Holding::Lock => (None, 1),
        Holding::Key(_) => (None, 2),
    };
    let (id, was_due) = (id.as_bytes(), token.map(Timestamp::as_micros));
    let at = now.as_micros();
    let over = |row: &Row<'_>| {
        let event_type = row.get_ref(0)?.as_bytes()?.to_vec();
        Ok(Over { event_type, key: readable(row.get_ref(1)?) })
    };
    match outcome {
        Outcome::Done => match retention {
            Retention::DeleteWhenDone => {
                conn.prepare_cached(&sql.settle_delete)?.query_row((id, was_due, proof), over)
            }
            Retention::Keep(_) => {
                conn.prepare_cached(&sql.settle_done)?.query_row((id, was_due, proof, at), over)
            }
        },
        Outcome::Retry { delay, attempts, error } => {
            let due_at = due(now, *delay, token).as_micros();
            conn.prepare_cached(&sql.settle_retry)?
                .query_row((id, was_due, proof, due_at, attempts, kept(error)), over)
        }
        Outcome::Wait { delay, waits_for, attempts, error } => {
            let due_at = due(now, *delay, token).as_micros();
            let for_handler = *waits_for == WaitsFor::Handler;
            let values = (id, was_due, proof, due_at, attempts, kept(error), at, for_handler);
            conn.prepare_cached(&sql.settle_wait)?.query_row(values, over)
        }
        Outcome::Dead { attempts, error, .. } => conn
            .prepare_cached(&sql.settle_dead)?
            .query_row((id, was_due, proof, at, attempts, kept(error)), over),
        Outcome::Released => {
            conn.prepare_cached(&sql.settle_release)?.query_row((id, was_due, proof, at), over)
        }
        Outcome::Restored { due_at } => conn
            .prepare_cached(&sql.settle_restore)?
            .query_row((id, was_due, proof, due_at.as_micros()), over),
    }
    .optional()
}

/// The part of an error's text that is stored.
fn kept(error: &str) -> &str {
    limits::truncate(error, limits::ERROR_CHARS)
}
