//! Waking a poller when another process has written: by looking whether the file has changed.
//!
//! A look is a number that SQLite keeps in memory; only where it changed, or where a row has become due
//! since, is anything read. It may miss something, and the poll interval covers that (I7).

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::Connection;
use sendoff_core::{PauseScope, Timestamp};
use sendoff_engine::store::frame::{SIGHT_ROWS, Sight};
use sendoff_engine::store::{PAUSES_READ, StoreError, WakeStore};

use crate::sql::Sql;
use crate::store::SqliteStore;

#[async_trait]
impl WakeStore for SqliteStore {
    async fn arm(&self) -> Result<bool, StoreError> {
        self.check_open()?;
        Ok(true)
    }

    async fn rung(&self) {
        self.keep_lookout();
        self.lookout().rung().await;
    }
}

/// How often.
pub(crate) const LOOK: Duration = Duration::from_millis(200);

/// What the last look saw, and for how long that is all there is to see.
#[derive(Debug, Default)]
pub(crate) struct LastLook(Mutex<Option<Last>>);

#[derive(Debug)]
struct Last {
    sight: Sight,
    /// The file as it was: changes with every commit of another connection.
    version: i64,
    /// When the next row becomes visible by itself, or the next key is due.
    next_due: Option<Timestamp>,
}

impl Last {
    fn is_all_at(&self, version: i64, now: Timestamp) -> bool {
        self.version == version && self.next_due.is_none_or(|due| due > now)
    }
}

impl SqliteStore {
    async fn look_out(&self) -> Result<Sight, StoreError> {
        let last = Arc::clone(self.last_look());
        self.read(move |conn, sql, now| {
            let mut last = last.lock();
            let version = conn.pragma_query_value(None, "data_version", |row| row.get(0))?;
            match &*last {
                Some(last) if last.is_all_at(version, now) => Ok(last.sight.clone()),
                _ => Ok(last.insert(whole(conn, sql, version, now)?).sight.clone()),
            }
        })
        .await
    }

    /// Looks from now on, if nobody does yet.
    pub(crate) fn keep_lookout(&self) {
        // Not the store itself: its thread ends with its last user.
        let store = self.weak();
        self.lookout().keep(move || {
            let store = store();
            async move { Some(store?.look_out().await) }
        });
    }
}

impl LastLook {
    /// The next look reads everything: what the store's own connection changes is no change of another one.
    /// Called on its thread, as looks are made there.
    pub(crate) fn forget(&self) {
        *self.lock() = None;
    }

    fn lock(&self) -> MutexGuard<'_, Option<Last>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn whole(conn: &Connection, sql: &Sql, version: i64, now: Timestamp) -> rusqlite::Result<Last> {
    let now = now.as_micros();
    let mut look = conn.prepare_cached(&sql.look)?;
    let visible = look.query_map((now, SIGHT_ROWS as i64), |row| row.get(0))?;
    let visible = visible.collect::<rusqlite::Result<BTreeSet<i64>>>()?;
    let mut next_due = conn.prepare_cached(&sql.next_due)?;
    let next_due: Option<i64> = next_due.query_row([now], |row| row.get(0))?;
    let mut pauses = conn.prepare_cached(&sql.pauses)?;
    let scope = |row: &rusqlite::Row<'_>| {
        let (scope, name): (i64, String) = (row.get(0)?, row.get(1)?);
        Ok(PauseScope::of_stored(scope, &name).ok())
    };
    let scopes = pauses.query_map([PAUSES_READ as i64], scope)?;
    let scopes = scopes.collect::<rusqlite::Result<Vec<_>>>()?;
    let paused = scopes.into_iter().flatten().collect();
    let next_due = next_due.map(Timestamp::from_micros);
    Ok(Last { sight: Sight { visible, paused }, version, next_due })
}
