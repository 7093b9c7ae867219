use std::collections::BTreeMap;
use std::fmt;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, Exponential, Lane, RetryPolicy, report};
use tokio::time::timeout;
use tracing::{error, warn};

use super::batch::{Batch, FollowUp, Record, Source};
use super::company::{Company, Place};
use super::config::{ClaimMode, RelayConfig};
use super::leases::Leases;
use super::locked::Locked;
use super::settling::Terms;
use crate::config::ConfigError;
use crate::handover::Deadline;
use crate::owner::owner;
use crate::settle::Refusals;
use crate::store::{
    Claim, Claimed, Held, Lock, LockStore, LockedRows, OutboxStore, Outcome, Settlement,
    StoreError, Suspects,
};

/// Everything a relay asks of a store.
pub trait RelayStore: OutboxStore + LockStore {}

impl<S: OutboxStore + LockStore> RelayStore for S {}

/// Takes due events in batches. Cheap to clone; clones are one consumer.
///
/// ```
/// use sendoff_engine::memory::MemoryStore;
/// use sendoff_engine::relay::{Consumer, RelayConfig};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let consumer = Consumer::new(MemoryStore::new(), RelayConfig::default())?;
/// while let Some(mut batch) = consumer.fetch().await? {
///     let ids: Vec<_> = batch.records().map(|record| record.id()).collect();
///     for id in ids {
///         batch.ack(id)?;
///     }
///     batch.commit().await?;
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Consumer(Arc<Inner>);

struct Inner {
    store: Arc<dyn RelayStore>,
    config: RelayConfig,
    owner: Arc<str>,
    follow_up: FollowUp,
    company: Company,
    /// Looks so far.
    looks: AtomicU32,
}

/// So often a look is without a window, and for suspects first: neither hides a row for good.
const WIDE_LOOK: u32 = 8;

impl Consumer {
    /// A consumer of this store, with the exponential back-off that `config` describes.
    pub fn new(store: impl RelayStore, config: RelayConfig) -> Result<Self, ConfigError> {
        let retry = Exponential { base: config.retry_base, max: config.retry_max };
        Self::with(Arc::new(store), config, Arc::new(retry))
    }

    /// Like [`new`](Self::new), with a retry policy of one's own.
    pub fn with_retry(
        store: impl RelayStore,
        config: RelayConfig,
        retry: impl RetryPolicy + 'static,
    ) -> Result<Self, ConfigError> {
        Self::with(Arc::new(store), config, Arc::new(retry))
    }

    pub(super) fn with(
        store: Arc<dyn RelayStore>,
        config: RelayConfig,
        retry: Arc<dyn RetryPolicy>,
    ) -> Result<Self, ConfigError> {
        config.validate()?;
        let mut random = fastrand::Rng::new();
        let owner = owner(config.owner.as_deref(), random.u64(..));
        let follow_up = FollowUp {
            retry,
            retry_max: config.retry_max,
            max_attempts: config.max_attempts,
            random: Arc::new(Mutex::new(random)),
        };
        let (company, looks) = (Company::default(), AtomicU32::new(0));
        Ok(Self(Arc::new(Inner { store, config, owner, follow_up, company, looks })))
    }

    /// The next due events; `None` if there are none. A batch is never empty.
    ///
    /// In mode [`Lease`](ClaimMode::Lease) an event that was lost with its holder twice comes alone,
    /// while no other batch of this consumer is open.
    ///
    /// Cancel-safe in mode [`Locked`](ClaimMode::Locked); in the other, rows of a fetch that nobody
    /// received are visible again when their hold ends.
    pub async fn fetch(&self) -> Result<Option<Batch>, StoreError> {
        loop {
            let look = self.0.looks.fetch_add(1, Ordering::Relaxed);
            let wide = look % WIDE_LOOK == WIDE_LOOK - 1;
            let fetched = match self.0.config.mode {
                ClaimMode::Locked => self.0.locked(wide).await?,
                ClaimMode::Lease => self.0.leased(wide).await?,
            };
            match fetched {
                // All of its rows are dead before anybody saw them: on to the next ones.
                Some(batch) if batch.records.is_empty() => {
                    batch.commit().await?;
                }
                fetched => return Ok(fetched),
            }
        }
    }

    pub(super) fn config(&self) -> &RelayConfig {
        &self.0.config
    }

    pub(super) fn store(&self) -> &Arc<dyn RelayStore> {
        &self.0.store
    }

    pub(super) async fn bounded<T>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        self.0.bounded(statement).await
    }
}

impl Inner {
    async fn locked(&self, wide: bool) -> Result<Option<Batch>, StoreError> {
        let RelayConfig { batch: limit, skip_recent, .. } = self.config;
        let window = self.config.window.filter(|_| !wide);
        let lock = Lock { window, skip_recent, ..Lock::new(limit) };
        let place = self.company.join(self.config.hold).await;
        let found = self.bounded(self.store.lock(&lock)).await?;
        let Some((rows, claimed)) = found.map(taken) else {
            return match window {
                None => Ok(None),
                Some(_) => self.all_locked(place, Lock { window: None, ..lock }).await,
            };
        };
        if window.is_some() && claimed.len() < limit {
            // A look with a window that is not full hides nothing: look again without it. A second
            // transaction beside the first would be another connection.
            self.bounded(rows.rollback()).await?;
            return self.all_locked(place, Lock { window: None, ..lock }).await;
        }
        Ok(Some(self.batch(
            claimed,
            |claimed| Source::Locked(self.locked_by(rows, claimed)),
            place,
        )))
    }

    async fn all_locked(&self, place: Place, lock: Lock) -> Result<Option<Batch>, StoreError> {
        let found = self.bounded(self.store.lock(&lock)).await?.map(taken);
        Ok(found.map(|(rows, claimed)| {
            self.batch(claimed, |claimed| Source::Locked(self.locked_by(rows, claimed)), place)
        }))
    }

    async fn leased(&self, wide: bool) -> Result<Option<Batch>, StoreError> {
        if wide && let Some(suspect) = self.suspect().await? {
            return Ok(Some(suspect));
        }
        let place = self.company.join(self.config.hold).await;
        let limit = self.config.batch;
        let window = self.config.window.filter(|_| !wide);
        // Counted from before the first of its statements.
        let until = Deadline::after(self.config.hold);
        let look = |limit, window| self.claim(limit, window, Suspects::Skip);
        let mut rows = look(limit, window).await?;
        if window.is_some() && rows.len() < limit {
            match look(limit - rows.len(), None).await {
                Ok(older) => rows.extend(older),
                Err(error) if rows.is_empty() => return Err(error),
                Err(error) => warn!(error = report(&error), "the look beyond the window failed"),
            }
        }
        if rows.is_empty() {
            drop(place);
            return if wide { Ok(None) } else { self.suspect().await };
        }
        Ok(Some(self.batch(rows, |rows| Source::Leased(self.leases(rows, until)), place)))
    }

    /// One event that may kill its process, while nothing else of this consumer is in work. Put back
    /// where that does not come to pass soon.
    async fn suspect(&self) -> Result<Option<Batch>, StoreError> {
        let until = Deadline::after(self.config.hold);
        let rows = self.claim(1, None, Suspects::Only).await?;
        let [row] = &rows[..] else { return Ok(None) };
        let patience = self.config.poll_interval.min(self.config.hold / 2);
        let Some(place) = self.company.alone(patience).await else {
            let held = Held::row(row.id, row.token);
            let outcome = Outcome::Restored { due_at: row.was_due };
            self.bounded(self.store.settle(&[Settlement { held, outcome }])).await?;
            return Ok(None);
        };
        let (id, attempts) = (row.id, row.attempts);
        warn!(event.id = %id, attempts, "lost with its holder before: comes alone");
        Ok(Some(self.batch(rows, |rows| Source::Leased(self.leases(rows, until)), place)))
    }

    async fn claim(
        &self,
        limit: usize,
        window: Option<Duration>,
        suspects: Suspects,
    ) -> Result<Vec<Claimed>, StoreError> {
        let RelayConfig { hold, skip_recent, .. } = self.config;
        let claim = Claim { skip_recent, window, suspects, ..Claim::new(&self.owner, limit, hold) };
        self.bounded(self.store.claim(&claim)).await
    }

    fn leases(&self, rows: &[Claimed], until: Deadline) -> Leases {
        Leases::new(self.store.clone(), self.terms(), rows, until)
    }

    fn locked_by(&self, rows: Box<dyn LockedRows>, claimed: &[Claimed]) -> Locked {
        Locked::new(self.store.clone(), self.owner.clone(), self.terms(), rows, claimed)
    }

    fn terms(&self) -> Terms {
        let RelayConfig { hold, retry_max, max_attempts, .. } = self.config;
        let refusals = Refusals { delay: retry_max, max_attempts };
        Terms { hold, limit: self.config.statement_limit(), refusals }
    }

    fn batch(
        &self,
        rows: Vec<Claimed>,
        source: impl FnOnce(&[Claimed]) -> Source,
        place: Place,
    ) -> Batch {
        let source = source(&rows);
        let mut records = Vec::with_capacity(rows.len());
        let mut ends = BTreeMap::new();
        for row in rows {
            let id = row.id;
            match self.record(row) {
                Ok(record) => records.push(record),
                Err(end) => {
                    ends.insert(id, end);
                }
            }
        }
        let by_id = records.iter().enumerate().map(|(at, record)| (record.delivery.id(), at));
        Batch {
            by_id: by_id.collect(),
            records: records.into(),
            answers: BTreeMap::new(),
            ends,
            source,
            follow_up: self.follow_up.clone(),
            _place: place,
        }
    }

    /// A row as an event to be handled, or how it ends without that.
    fn record(&self, row: Claimed) -> Result<Record, Outcome> {
        let (attempt, max_attempts) = (row.attempt(), self.config.max_attempts);
        let age = row.claimed_at.since(row.created_at);
        let event = row.event.map_err(|undecodable| {
            let error = report(&undecodable);
            error!(event.id = %row.id, error, "stored row cannot be decoded");
            Outcome::Dead { attempts: attempt.uncounted(), error }
        })?;
        if attempt.is_exhausted(max_attempts) {
            let error = format!("its holder vanished {max_attempts} times");
            return Err(Outcome::Dead { attempts: max_attempts, error });
        }
        let (created_at, lane) = (row.created_at, Lane::Cold);
        let delivery = Delivery { event, created_at, attempt: attempt.number, lane };
        Ok(Record { delivery, attempt, age })
    }

    async fn bounded<T>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.config.statement_limit();
        timeout(limit, statement).await.unwrap_or(Err(StoreError::Timeout))
    }
}

fn taken(mut rows: Box<dyn LockedRows>) -> (Box<dyn LockedRows>, Vec<Claimed>) {
    let claimed = rows.take();
    (rows, claimed)
}

impl fmt::Debug for Consumer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Consumer").field("owner", &self.0.owner).finish_non_exhaustive()
    }
}
