//! The `locked` claim mode: rows kept by a transaction on a connection of its own.

use std::collections::{HashMap, HashSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use mysql_async::{Conn, Row};
use sendoff_core::{EventId, limits};
use sendoff_engine::store::{
    Claimed, Lock, LockStore, LockedRows, Outcome, Sifted, StoreError, Take, sift,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use crate::claim::ROUNDS;
use crate::connect::Connector;
use crate::durable;
use crate::error::{failed, number, spoils_session};
use crate::link::{last_rows, results};
use crate::rows;
use crate::settle::{Noted, end_of, longest_error};
use crate::store::MysqlStore;
use crate::wire::{EndRows, Literal, LockedRow};

/// Connections for locked batches: as many as batches are open, and never more than the limit.
pub(crate) struct LockSessions {
    connector: Arc<Connector>,
    permits: Arc<Semaphore>,
    idle: Mutex<Vec<Conn>>,
}

impl LockSessions {
    pub(crate) fn new(connector: Arc<Connector>, most: usize) -> Self {
        Self { connector, permits: Arc::new(Semaphore::new(most)), idle: Mutex::default() }
    }

    /// Begins a transaction with the first text of it; waits until there may be one more.
    async fn begin(self: &Arc<Self>, text: &str) -> Result<(Transaction, Begun), StoreError> {
        let permit = self.permits.clone().acquire_owned().await.map_err(|_| StoreError::Closed)?;
        // The server may have ended those that lay idle; nothing was done on them yet.
        while let Some(mut conn) = self.next_idle() {
            match results(&mut conn, text).await {
                Ok(all) => return Ok((self.transaction(conn, permit), Begun::of(all)?)),
                Err(error) if number(&error).is_some_and(|number| !spoils_session(number)) => {
                    return Err(failed(error));
                }
                Err(_) => {}
            }
        }
        let mut conn = self.connector.open().await?;
        let all = results(&mut conn, text).await.map_err(failed)?;
        Ok((self.transaction(conn, permit), Begun::of(all)?))
    }

    fn transaction(self: &Arc<Self>, conn: Conn, permit: OwnedSemaphorePermit) -> Transaction {
        Transaction { conn: Some(conn), sessions: Arc::clone(self), _permit: permit }
    }

    fn next_idle(&self) -> Option<Conn> {
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop()
    }

    fn put_back(&self, conn: Conn) {
        if !self.permits.is_closed() {
            self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(conn);
        }
    }

    /// Refuses everything from now on; batches that are open end as they like.
    pub(crate) fn close(&self) {
        self.permits.close();
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

/// What a transaction began with.
struct Begun {
    /// The rows that were noted for it.
    seen: Vec<EventId>,
    /// Those that it locked.
    rows: Vec<Row>,
}

impl Begun {
    fn of(mut all: Vec<Vec<Row>>) -> Result<Self, StoreError> {
        let rows = all.pop().unwrap_or_default();
        let seen = all.pop().unwrap_or_default();
        let seen = seen.iter().map(|row| rows::id(row, 0)).collect::<Result<_, _>>()?;
        Ok(Self { seen, rows })
    }
}

/// A transaction and its connection. Unless it is ended, the connection goes with it, and the server
/// rolls back: nothing is ever reused half-way.
struct Transaction {
    conn: Option<Conn>,
    sessions: Arc<LockSessions>,
    _permit: OwnedSemaphorePermit,
}

impl Transaction {
    /// Takes the connection for as long as the text is not answered: a dropped future drops it, and so
    /// does an error, after which nothing of the transaction may be left.
    async fn run(&mut self, text: &str) -> Result<(), StoreError> {
        let mut conn = self.conn.take().ok_or(StoreError::Closed)?;
        match last_rows(&mut conn, text).await {
            Ok(_) => {
                self.conn = Some(conn);
                Ok(())
            }
            Err(error) => {
                // A statement was refused, and those after it did not run. The rows are free before
                // anybody hears of it.
                if number(&error).is_some_and(|number| !spoils_session(number))
                    && last_rows(&mut conn, "rollback").await.is_ok()
                {
                    self.sessions.put_back(conn);
                }
                Err(failed(error))
            }
        }
    }

    /// Ends the transaction, and keeps the connection for the next one.
    async fn end(mut self, how: &str) -> Result<(), StoreError> {
        self.run(how).await?;
        if let Some(conn) = self.conn.take() {
            self.sessions.put_back(conn);
        }
        Ok(())
    }
}

#[async_trait]
impl LockStore for MysqlStore {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        self.check_open()?;
        let limit = lock.limit.min(limits::BATCH_ROWS);
        if limit == 0 {
            return Ok(None);
        }
        let Some(Sifted { mut taken, cut }) =
            sift(self, &lock.into(), &Locking(lock), limit).await?
        else {
            return Ok(None);
        };
        // In another session, so that what is locked stays so. That the transaction is there after it
        // says that the server has not crashed meanwhile.
        self.links().proofs.query(&durable::outbox(self.sql())).await?;
        taken.transaction.run("do 0").await?;
        Ok(Some(Box::new(MysqlLocked { cut: cut || taken.cut, ..taken })))
    }
}

/// Opens a transaction that has rows locked.
struct Locking<'l>(&'l Lock<'l>);

impl Take<MysqlStore> for Locking<'_> {
    type Taken = MysqlLocked;

    async fn take(
        &self,
        store: &MysqlStore,
        limit: usize,
        passed: &[EventId],
    ) -> Result<Option<MysqlLocked>, StoreError> {
        let mut passed = passed.to_vec();
        let mut rounds = 0;
        let (transaction, found, cut) = loop {
            let text = self.text(store, limit, &passed);
            let (transaction, Begun { seen, rows }) = store.locks().begin(&text).await?;
            if !rows.is_empty() {
                let cut = !self.0.except.is_empty() && rows.len() < seen.len();
                break (transaction, rows, cut);
            }
            transaction.end("rollback").await?;
            rounds += 1;
            if seen.is_empty() || rounds == ROUNDS {
                return Ok(None);
            }
            // Others have all that was seen, or were quicker with it. They must hide no others.
            passed.extend(seen);
        };
        let keys = found
            .iter()
            .map(|row| {
                let (seq, event_type) = (rows::seq(row)?, rows::event_type(row).to_vec());
                let key = rows::ordering_key(row).map(<[u8]>::to_vec);
                Ok((rows::id(row, 0)?, LockedRow { seq, event_type, key }))
            })
            .collect::<Result<Keys, StoreError>>()?;
        let rows = rows::locked(found)?;
        let store = store.clone();
        Ok(Some(MysqlLocked { store, transaction, rows, keys, cut }))
    }
}

impl Locking<'_> {
    fn text(&self, store: &MysqlStore, limit: usize, passed: &[EventId]) -> String {
        let Lock { bytes, window, from, skip_recent, except, .. } = *self.0;
        let look = match except.is_empty() {
            true => &store.sql().lock_visible,
            false => &store.sql().lock_visible_except,
        };
        let look = look.with(&[
            ("limit", &Literal::count(limit)),
            ("bytes", &Literal::count(bytes)),
            ("skip_recent", &Literal::span(skip_recent)),
            ("since", &Literal::since(window)),
            ("from", &Literal::from(from)),
            ("passed", &Literal::other_ids(passed)),
            ("kinds", &Literal::other_kinds(except.kinds)),
            ("types", &Literal::other_types(except.types)),
        ]);
        format!("{look};\n{}", store.sql().locked.text())
    }
}

/// What is known of each row beside its id.
type Keys = HashMap<EventId, LockedRow>;

pub(crate) struct MysqlLocked {
    store: MysqlStore,
    transaction: Transaction,
    rows: Vec<Claimed>,
    keys: Keys,
    cut: bool,
}

#[async_trait]
impl LockedRows for MysqlLocked {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.rows)
    }

    fn is_cut(&self) -> bool {
        self.cut
    }

    fn is_open(&self) -> bool {
        self.transaction.conn.is_some()
    }

    fn idle_limit(&self) -> Option<Duration> {
        Some(self.store.options().idle_in_transaction_timeout)
    }

    async fn keep_awake(&mut self) -> Result<(), StoreError> {
        self.transaction.run("do 0").await
    }

    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        let mut seen = HashSet::new();
        let ours: Vec<_> = outcomes
            .iter()
            .filter_map(|(id, outcome)| Some((*id, self.keys.get(id)?, outcome)))
            .filter(|(id, ..)| seen.insert(*id))
            .collect();
        if ours.is_empty() {
            return self.transaction.end("rollback").await;
        }
        let cut = longest_error(ours.iter().map(|(.., outcome)| *outcome));
        let mut rows = EndRows::default();
        for (id, row, outcome) in &ours {
            rows.locked(*id, row, &end_of(outcome, cut));
        }
        let keyed = ours.iter().any(|(_, row, _)| row.key.is_some());
        let noted = if keyed { Noted::Locked } else { Noted::Unordered };
        let note = self.store.sql().note.with(&[("rows", &rows.literal())]);
        let ends = self.store.ends_text(ours.iter().map(|(.., outcome)| *outcome), noted);
        // One text: the server stops at the first statement that fails.
        self.transaction.end(&format!("{note};\n{ends}commit")).await
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        // Where the connection is gone, so is what it had locked.
        if self.transaction.conn.is_none() {
            return Ok(());
        }
        self.transaction.end("rollback").await
    }
}
