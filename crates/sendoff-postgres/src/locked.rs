//! The `locked` claim mode: rows kept by a transaction on a connection of its own.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join;
use sendoff_core::{EventId, limits};
use sendoff_engine::store::{
    Claimed, Lock, LockStore, LockedRows, Outcome, Sifted, StoreError, Take, sift,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::connect::Connector;
use crate::error::failed;
use crate::leave::Leaving;
use crate::link::{Kept, Params, Session};
use crate::options::Retention;
use crate::rows;
use crate::scope::{Scope, VISIBLE};
use crate::settle::Columns;
use crate::sql::Statement;
use crate::store::PostgresStore;

/// Connections for locked batches: as many as batches are open, and never more than the limit.
pub(crate) struct LockSessions {
    connector: Arc<Connector>,
    statements: Kept,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Session>>,
    leaving: Leaving,
    /// Whether the last look found nothing: then the next one asks first whether it would find anything.
    found_nothing: AtomicBool,
}

impl LockSessions {
    pub(crate) fn new(connector: Arc<Connector>, statements: Kept, most: usize) -> Self {
        let permits = Arc::new(Semaphore::new(most));
        let (idle, leaving) = (Mutex::default(), Leaving::default());
        let found_nothing = AtomicBool::new(false);
        Self { connector, statements, permits, idle, leaving, found_nothing }
    }

    /// A connection outside any transaction; waits until there may be one more.
    async fn open(self: &Arc<Self>) -> Result<Transaction, StoreError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        let session = match self.next_idle() {
            Some(session) => session,
            None => {
                let ((), opened) = join(self.leaving.over(), self.connector.open(None)).await;
                Session::new(opened?, self.leaving.clone())
            }
        };
        Ok(Transaction { session: Some(session), sessions: Arc::clone(self), _permit: permit })
    }

    fn next_idle(&self) -> Option<Session> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        std::iter::from_fn(|| idle.pop()).find(Session::is_usable)
    }

    fn put_back(&self, session: Session) {
        if !self.permits.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(session);
        }
    }

    /// Refuses everything from now on; batches that are open end as they like.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// A transaction and its connection. Unless it is ended, the connection goes with it, and the server
/// rolls back: nothing is ever reused half-way.
struct Transaction {
    session: Option<Session>,
    sessions: Arc<LockSessions>,
    _permit: OwnedSemaphorePermit,
}

impl Transaction {
    fn session(&self) -> Result<&Session, StoreError> {
        self.session.as_ref().ok_or(StoreError::Closed)
    }

    async fn query(
        &self,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let kept = self.sessions.statements;
        self.session()?.query(statement, params, kept).await.map_err(failed)
    }

    /// Begins with the locks of its tables, and sends the first statement along: one round trip.
    async fn begin(
        &self,
        tables: &Statement,
        statement: &Statement,
        params: Params<'_>,
    ) -> Result<Vec<tokio_postgres::Row>, StoreError> {
        let begin = self.sessions.connector.bounds().begin();
        let begin = format!("{begin}; {}", tables.text);
        let begin = self.session()?.execute(&begin);
        let (begun, rows) = join(begin, self.query(statement, params)).await;
        begun.map_err(failed)?;
        rows
    }

    /// Ends the transaction, and keeps the connection for the next one.
    async fn end(mut self, how: &str) -> Result<(), StoreError> {
        self.session()?.execute(how).await.map_err(failed)?;
        self.put_back();
        Ok(())
    }

    /// Writes, commits, and keeps the connection for the next one: one round trip.
    async fn finish(mut self, statement: &Statement, params: Params<'_>) -> Result<(), StoreError> {
        let kept = self.sessions.statements;
        self.session()?.query_and_commit(statement, params, kept).await.map_err(failed)?;
        self.put_back();
        Ok(())
    }

    fn put_back(&mut self) {
        if let Some(session) = self.session.take() {
            self.sessions.put_back(session);
        }
    }
}

impl Drop for Transaction {
    fn drop(&mut self) {
        if let Some(session) = &self.session {
            session.spoil();
        }
    }
}

#[async_trait]
impl LockStore for PostgresStore {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.check_open()?;
        let limit = lock.limit.min(limits::BATCH_ROWS);
        if limit == 0 {
            return Ok(None);
        }
        let sifted = sift(self, &lock.into(), &Locking(lock), limit).await?;
        Ok(sifted.map(|Sifted { taken, cut }| Box::new(PostgresLocked { cut, ..taken }) as _))
    }
}

/// Opens a transaction that has rows locked.
struct Locking<'l>(&'l Lock<'l>);

impl Take<PostgresStore> for Locking<'_> {
    type Taken = PostgresLocked;

    async fn take(
        &self,
        store: &PostgresStore,
        limit: usize,
        passed: &[EventId],
    ) -> Result<Option<PostgresLocked>, StoreError> {
        let (scope, sql) = (Scope::of_lock(self.0, limit, passed), store.sql());
        let params = scope.params(&[]);
        let found_nothing = &store.locks().found_nothing;
        if found_nothing.load(Ordering::Relaxed)
            && store.links().claims.query(&sql.some_visible, &params[..VISIBLE]).await?.is_empty()
        {
            return Ok(None);
        }
        let statement = match self.0.except.is_empty() {
            true => &sql.lock,
            false => &sql.lock_except,
        };
        let transaction = store.locks().open().await?;
        let found = transaction.begin(&sql.lock_tables, statement, &params).await?;
        found_nothing.store(found.is_empty(), Ordering::Relaxed);
        if found.is_empty() {
            transaction.end("rollback").await?;
            return Ok(None);
        }
        let rows = found.iter().map(rows::locked).collect::<Result<_, _>>()?;
        let store = store.clone();
        Ok(Some(PostgresLocked { store, transaction, rows, cut: false }))
    }
}

pub(crate) struct PostgresLocked {
    store: PostgresStore,
    transaction: Transaction,
    rows: Vec<Claimed>,
    cut: bool,
}

#[async_trait]
impl LockedRows for PostgresLocked {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.rows)
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    fn is_open(&self) -> bool {
        self.transaction.session().is_ok_and(Session::is_usable)
    }

    fn idle_limit(&self) -> Option<Duration> {
        Some(self.transaction.sessions.connector.bounds().idle())
    }

    async fn keep_awake(&mut self) -> Result<(), StoreError> {
        let session = self.transaction.session()?;
        // Whatever went wrong, the transaction cannot be relied on any more.
        session.execute("select 1").await.inspect_err(|_| session.spoil()).map_err(failed)
    }

    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        if outcomes.is_empty() {
            return self.transaction.end("commit").await;
        }
        let sql = self.store.sql();
        let statement = match self.store.retention() {
            Retention::DeleteWhenDone => &sql.settle_locked_delete,
            Retention::Keep(_) => &sql.settle_locked_keep,
        };
        let columns = Columns::of(outcomes.iter().map(|(id, outcome)| (*id, outcome)));
        let Columns { ids, outcomes, after, attempts, errors, due } = &columns;
        let params: Params<'_> = &[ids, outcomes, after, attempts, errors, due];
        self.transaction.finish(statement, params).await?;
        self.store.fold_sometimes();
        Ok(())
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        self.transaction.end("rollback").await
    }
}
