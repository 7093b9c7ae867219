//! The `locked` claim mode: one immediate transaction that stays open for a batch.
//!
//! SQLite locks the whole file, not rows: while a batch is open nobody else writes anything to it,
//! the application included. So one batch is open at a time, and handlers must be shorter still than
//! elsewhere; the `held` mode has no such price.

use std::sync::Arc;

use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_core::{EventId, Holding, Timestamp, limits};
use sendoff_engine::store::{
    Claimed, Held, Lock, LockStore, LockedRows, Outcome, Settlement, StoreError,
};
use tokio::sync::{OnceCell, OwnedSemaphorePermit, Semaphore};

use crate::claim::except_of;
use crate::connect::{Missing, connect};
use crate::error::failed;
use crate::options::Synchronous;
use crate::rows::{self, Visible};
use crate::settle::settle_all;
use crate::sql::Sql;
use crate::store::SqliteStore;
use crate::writer::Writer;

/// The connection for locked batches, opened when it is first needed.
#[derive(Debug)]
pub(crate) struct LockConnection {
    writer: OnceCell<Arc<Writer>>,
    /// One transaction at a time: a connection has no more.
    single: Arc<Semaphore>,
}

impl LockConnection {
    pub(crate) fn new() -> Self {
        Self { writer: OnceCell::new(), single: Arc::new(Semaphore::new(1)) }
    }

    async fn writer(&self, store: &SqliteStore) -> Result<&Arc<Writer>, StoreError> {
        let open = || async {
            let (path, busy_timeout) = (store.path().to_owned(), store.busy_timeout());
            let open = move || connect(&path, Missing::Refuse, busy_timeout, Synchronous::Normal);
            Writer::start(Arc::clone(store.file()), busy_timeout, open).await.map(Arc::new)
        };
        self.writer.get_or_try_init(open).await
    }

    /// Refuses everything from now on, and returns when the connection is closed.
    pub(crate) async fn close(&self) {
        self.single.close();
        if let Some(writer) = self.writer.get() {
            writer.close().await;
        }
    }
}

/// An open transaction; dropped, it is rolled back before anything else is done on its connection.
struct Open {
    writer: Arc<Writer>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Open {
    fn drop(&mut self) {
        // Finds no transaction after an end that was answered. Where the thread is gone, so is the
        // connection, and with it the transaction.
        self.writer.post(|conn| {
            if !conn.is_autocommit() {
                let _ = conn.execute_batch("rollback");
            }
        });
    }
}

#[async_trait]
impl LockStore for SqliteStore {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.check_open()?;
        // A batch that is open has locked every row there is.
        let Ok(permit) = self.locks().single.clone().try_acquire_owned() else { return Ok(None) };
        let writer = Arc::clone(self.locks().writer(self).await?);
        let Lock { limit, bytes, window, from, skip_recent, except } = *lock;
        let except = except_of(&except);
        let store = self.clone();
        // In the answer: whoever is no longer there to take it leaves nothing open.
        let open = Open { writer: Arc::clone(&writer), _permit: permit };
        let answer = writer
            .call(move |conn| {
                // Without what is borrowed; what is left out goes beside it, as the statement takes it.
                let wanted = Lock { bytes, window, from, skip_recent, ..Lock::new(limit) };
                let rows = begin(conn, &store, &wanted, except.as_ref()).map_err(failed)?;
                Ok((rows, open))
            })
            .await?;
        let (rows, open) = answer;
        if rows.is_empty() {
            return Ok(None);
        }
        let holds = rows.iter().map(Claimed::held).collect();
        Ok(Some(Box::new(SqliteLocked { store: self.clone(), open, rows, holds })))
    }
}

fn begin(
    conn: &mut Connection,
    store: &SqliteStore,
    wanted: &Lock<'_>,
    except: Option<&(String, String)>,
) -> rusqlite::Result<Vec<Claimed>> {
    let sql: &Sql = store.sql();
    // An idle look takes no lock: it must not wait for, or delay, the application's writes.
    let due_at = crate::claim::oldest_due(conn, sql)?;
    if wanted.limit == 0 || due_at.is_none_or(|due_at| due_at > store.now()) {
        return Ok(Vec::new());
    }
    conn.execute_batch("begin immediate")?;
    let now = store.now();
    let limit = wanted.limit.min(limits::BATCH_ROWS) as i64;
    let (until, created_from) = rows::created_within(now, wanted.skip_recent, wanted.window);
    let statement = if except.is_some() { &sql.lock_except } else { &sql.lock };
    let mut statement = conn.prepare_cached(statement)?;
    let (now_micros, due_from) = (now.as_micros(), rows::due_from(wanted.from));
    let found = match except {
        None => statement.query((now_micros, until, due_from, created_from, limit))?,
        Some((kinds, types)) => {
            statement.query((now_micros, until, due_from, created_from, limit, kinds, types))?
        }
    };
    let found = rows::visible_within(found, wanted.bytes)?;
    drop(statement);
    if found.is_empty() {
        conn.execute_batch("rollback")?;
    }
    Ok(found.into_iter().map(|row| locked(row, now)).collect())
}

fn locked(row: Visible, now: Timestamp) -> Claimed {
    let lost = row.locked_by.is_some();
    let attempts = row.attempts.saturating_add(u32::from(lost));
    Claimed { attempts, ..row.claimed(Holding::Lock, lost, now) }
}

struct SqliteLocked {
    store: SqliteStore,
    open: Open,
    rows: Vec<Claimed>,
    /// Every row of the batch, by the lock that this transaction has on it.
    holds: Vec<Held>,
}

impl SqliteLocked {
    async fn end(&self, how: &'static str) -> Result<(), StoreError> {
        self.open.writer.call(move |conn| conn.execute_batch(how).map_err(failed)).await
    }
}

#[async_trait]
impl LockedRows for SqliteLocked {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.rows)
    }

    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        let hold = |id| self.holds.iter().find(|held| held.id == id).copied();
        let settlement = |(id, outcome): &(EventId, Outcome)| {
            hold(*id).map(|held| Settlement { held, outcome: outcome.clone() })
        };
        let batch: Vec<Settlement> = outcomes.iter().filter_map(settlement).collect();
        let store = self.store.clone();
        let settle = move |conn: &mut Connection| {
            let (sql, now) = (store.sql(), store.now());
            settle_all(conn, sql, now, store.retention(), &batch)
                .and_then(|_| conn.execute_batch("commit"))
                .map_err(failed)
        };
        self.open.writer.call(settle).await
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        self.end("rollback").await
    }
}
