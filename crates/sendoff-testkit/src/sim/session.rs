//! Transactions of nodes as the simulated server sees them, with its time limits.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Holding, Timestamp};
use sendoff_engine::store::{
    Claimed, Held, InspectStore, Lock, LockStore, LockedRows, Outcome, Settlement, StoreError,
};
use tokio::sync::OwnedMutexGuard;
use tokio::time::{Instant, sleep, sleep_until};

use super::bug::{Bug, skipped};
use super::gate::Kept;
use super::weather::Fate;
use super::wire::{Wire, broken};
use crate::history::FaultKind;

/// How long the server lets a transaction of ours be idle.
const IDLE_LIMIT: Duration = Duration::from_secs(15);

/// A transaction of ours as the server sees it: rows it has locked, and when it last heard of us.
#[derive(Clone)]
struct Session(Arc<Mutex<Open>>);

struct Open {
    rows: Option<Box<dyn LockedRows>>,
    heard: Instant,
}

impl Session {
    /// Ends by itself when nothing is heard for `limit`.
    fn open(rows: Box<dyn LockedRows>, limit: Option<Duration>) -> Self {
        let session = Self(Arc::new(Mutex::new(Open { rows: Some(rows), heard: Instant::now() })));
        if let Some(limit) = limit {
            let watched = session.clone();
            tokio::spawn(async move {
                while let Some(heard) = watched.with(|open| open.rows.as_ref().map(|_| open.heard))
                {
                    if heard.elapsed() >= limit {
                        return watched.end();
                    }
                    sleep_until(heard + limit).await;
                }
            });
        }
        session
    }

    /// A statement arrived. Answers whether there still is a transaction.
    fn hears(&self) -> bool {
        self.with(|open| {
            open.heard = Instant::now();
            open.rows.is_some()
        })
    }

    fn is_open(&self) -> bool {
        self.with(|open| open.rows.is_some())
    }

    fn take(&self) -> Option<Box<dyn LockedRows>> {
        self.with(|open| open.rows.take())
    }

    fn end(&self) {
        drop(self.take());
    }

    fn with<T>(&self, read: impl FnOnce(&mut Open) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Ends its session when it is dropped.
struct Link(Session);

impl Drop for Link {
    fn drop(&mut self) {
        self.0.end();
    }
}

/// A locked batch, over a wire.
struct WireRows {
    wire: Wire,
    rows: Vec<Claimed>,
    was_due: BTreeMap<EventId, Timestamp>,
    session: Session,
    limit: Option<Duration>,
    _link: Kept<Link>,
}

#[async_trait]
impl LockStore for Wire {
    async fn lock(&self, lock: &Lock<'_>) -> Result<Option<Box<dyn LockedRows>>, StoreError> {
        let fate = self.weather.fate();
        let _jam = self.goes_there().await;
        if matches!(fate, Fate::RequestLost | Fate::Late(_)) {
            return broken();
        }
        let Some(mut locked) = self.table.lock(lock).await? else {
            self.comes_back().await;
            return Ok(None);
        };
        let rows = locked.take();
        let limit = (!self.bug.is_some_and(Bug::has_no_idle_limit)).then_some(IDLE_LIMIT);
        let session = Session::open(locked, limit);
        let batch = WireRows {
            wire: self.clone(),
            was_due: rows.iter().map(|row| (row.id, row.was_due)).collect(),
            rows,
            _link: Kept::new(&self.gate, Link(session.clone())),
            session,
            limit,
        };
        // A bug elsewhere is to be met there.
        if limit.is_some() {
            self.inside_transaction();
        }
        self.comes_back().await;
        if fate == Fate::ReplyLost { broken() } else { Ok(Some(Box::new(batch))) }
    }
}

impl WireRows {
    fn ids(&self) -> Vec<EventId> {
        self.was_due.keys().copied().collect()
    }

    /// Sends something on the transaction's link. A link that breaks takes the transaction with it.
    async fn send(&self, fate: Fate) -> Result<(), StoreError> {
        let ids = self.ids();
        match fate {
            Fate::RequestLost | Fate::Late(_) => {
                self.wire.misfortune(FaultKind::Partition, &ids);
                self.session.end();
                broken()
            }
            Fate::ReplyLost => {
                self.wire.misfortune(FaultKind::LostReply, &ids);
                Ok(())
            }
            Fate::Fine | Fate::Twice if self.session.hears() => Ok(()),
            Fate::Fine | Fate::Twice => broken(),
        }
    }

    /// Settles, and looks at the table to log what that did.
    async fn settle(&self, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        let Some(rows) = self.session.take() else { return broken() };
        for (id, outcome) in outcomes {
            let Some(&was_due) = self.was_due.get(id) else { continue };
            let row = self.wire.table.find(*id).await?;
            let current = row.is_some_and(|row| row.due_at == was_due);
            let held = Held { id: *id, by: Holding::Lock };
            let settlement = Settlement { held, outcome: outcome.clone() };
            self.wire.history.settled(&self.wire.node, &settlement, true, current);
        }
        if self.wire.bug == Some(Bug::ForgetPark) {
            let skipped: Vec<_> = outcomes.iter().map(|(id, sent)| (*id, skipped(sent))).collect();
            return rows.commit(&skipped).await;
        }
        rows.commit(outcomes).await
    }

    /// What a settlement keeps locked until the next round trip, where a bug wants it so.
    async fn counters(&self) -> Option<Kept<OwnedMutexGuard<()>>> {
        if self.wire.bug != Some(Bug::CommitsInTwoSteps) {
            return None;
        }
        let counters = self.wire.counters.clone().lock_owned().await;
        let counters = Kept::new(&self.wire.gate, counters);
        self.wire.inside_transaction();
        self.wire.comes_back().await;
        let _jam = self.wire.goes_there().await;
        Some(counters)
    }
}

#[async_trait]
impl LockedRows for WireRows {
    fn take(&mut self) -> Vec<Claimed> {
        std::mem::take(&mut self.rows)
    }

    fn is_open(&self) -> bool {
        self.session.is_open()
    }

    fn idle_limit(&self) -> Option<Duration> {
        self.limit
    }

    async fn keep_awake(&mut self) -> Result<(), StoreError> {
        let fate = self.wire.weather.fate();
        let _jam = self.wire.goes_there().await;
        let sent = self.send(fate).await;
        self.wire.comes_back().await;
        if fate == Fate::ReplyLost { broken() } else { sent }
    }

    async fn commit(self: Box<Self>, outcomes: &[(EventId, Outcome)]) -> Result<(), StoreError> {
        let fate = self.wire.weather.fate();
        let unanswered = self.wire.unanswered(self.ids());
        let _jam = self.wire.goes_there().await;
        let counters = self.counters().await;
        let mut answer = self.send(fate).await;
        if answer.is_ok() {
            answer = self.settle(outcomes).await;
        }
        drop(counters);
        self.wire.comes_back().await;
        unanswered.answered();
        if fate == Fate::ReplyLost { broken() } else { answer }
    }

    async fn rollback(self: Box<Self>) -> Result<(), StoreError> {
        let _jam = self.wire.goes_there().await;
        self.session.end();
        sleep(Duration::ZERO).await;
        Ok(())
    }
}
