//! A publisher for tests: keeps, refuses or waits as it is told.

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::{Position, Recorded};
use sendoff_core::{Delivery, Failure, Sink, Stopped, Verdict};
use tokio::sync::Notify;

use crate::history::LogHistory;

/// A publisher that keeps what it is given, and lets a test wait for it. It can be told to refuse
/// facts, to be unwell, and to write a history. Cheap to clone; clones are the same.
#[derive(Clone)]
pub struct Latch(Arc<Shared>);

/// How long a test waits, on a clock that may be paused.
const PLENTY: Duration = Duration::from_secs(180);

type Refusal = dyn Fn(&Recorded) -> Option<Failure> + Send + Sync;

struct Shared {
    name: String,
    facts: Mutex<Vec<Arc<Recorded>>>,
    batches: AtomicUsize,
    calls: AtomicUsize,
    healthy: AtomicBool,
    refusal: Mutex<Option<Arc<Refusal>>>,
    published: Notify,
    history: Option<LogHistory>,
    /// Nodes that have died.
    dead: Mutex<BTreeSet<String>>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Latch {
    /// A publisher of this name.
    pub fn new(name: impl Into<String>) -> Self {
        Self::with(name.into(), None)
    }

    /// A publisher of this name that writes down what it is given, as the reader of its name.
    pub fn recording(name: impl Into<String>, history: &LogHistory) -> Self {
        Self::with(name.into(), Some(history.clone()))
    }

    fn with(name: String, history: Option<LogHistory>) -> Self {
        Self(Arc::new(Shared {
            name,
            facts: Mutex::default(),
            batches: AtomicUsize::new(0),
            calls: AtomicUsize::new(0),
            healthy: AtomicBool::new(true),
            refusal: Mutex::new(None),
            published: Notify::new(),
            history,
            dead: Mutex::default(),
        }))
    }

    /// As a pair wants it.
    pub fn publisher(&self) -> Arc<dyn Sink> {
        Arc::new(self.clone())
    }

    /// As a pair on a node of this name wants it.
    pub fn on(&self, node: impl Into<String>) -> Arc<dyn Sink> {
        Arc::new(OnNode { latch: self.clone(), node: node.into() })
    }

    /// From now on a node of this name publishes nothing and hears nothing, as one that was killed.
    pub fn kill(&self, node: impl Into<String>) {
        lock(&self.0.dead).insert(node.into());
    }

    /// From now on it refuses what the function has a failure for, and with it the whole batch.
    pub fn refuse(&self, refusal: impl Fn(&Recorded) -> Option<Failure> + Send + Sync + 'static) {
        *lock(&self.0.refusal) = Some(Arc::new(refusal));
    }

    /// From now on it takes everything.
    pub fn accept(&self) {
        *lock(&self.0.refusal) = None;
    }

    /// Says from now on that it is well, or not.
    pub fn set_healthy(&self, healthy: bool) {
        self.0.healthy.store(healthy, Ordering::Relaxed);
    }

    /// Everything that was published, in order.
    pub fn positions(&self) -> Vec<u64> {
        lock(&self.0.facts).iter().map(|fact| fact.position.get()).collect()
    }

    /// Everything that was published, each once.
    pub fn distinct(&self) -> BTreeSet<Position> {
        lock(&self.0.facts).iter().map(|fact| fact.position).collect()
    }

    /// Batches that were published.
    pub fn batches(&self) -> usize {
        self.0.batches.load(Ordering::Relaxed)
    }

    /// How often anything was to be published, with or without success.
    pub fn calls(&self) -> usize {
        self.0.calls.load(Ordering::Relaxed)
    }

    /// Waits until so many facts were published.
    ///
    /// # Panics
    ///
    /// If they are not in time.
    pub async fn wait_for(&self, count: usize) {
        let come = tokio::time::timeout(PLENTY, self.come(count)).await;
        assert!(come.is_ok(), "{} got {:?}; expected {count}", self.0.name, self.positions());
    }

    async fn come(&self, count: usize) {
        loop {
            let published = self.0.published.notified();
            let mut published = std::pin::pin!(published);
            published.as_mut().enable();
            if lock(&self.0.facts).len() >= count {
                return;
            }
            published.await;
        }
    }
}

impl Latch {
    /// Takes a batch, as a pair gives it.
    pub async fn take(&self, deliveries: &[Delivery]) -> Result<(), Stopped> {
        self.on_node("", deliveries).await
    }

    async fn on_node(&self, node: &str, deliveries: &[Delivery]) -> Result<(), Stopped> {
        let facts: Vec<_> = deliveries.iter().filter_map(Delivery::fact).cloned().collect();
        match self.taken(node, &facts) {
            Some(taken) => taken,
            None => std::future::pending().await,
        }
    }

    /// None where the node is dead.
    fn taken(&self, node: &str, facts: &[Arc<Recorded>]) -> Option<Result<(), Stopped>> {
        let shared = &*self.0;
        let dead = lock(&shared.dead);
        if dead.contains(node) {
            return None;
        }
        shared.calls.fetch_add(1, Ordering::Relaxed);
        let refusal = lock(&shared.refusal).clone();
        let refused = facts.iter().find_map(|fact| refusal.as_ref()?(fact));
        if let Some(history) = &shared.history {
            history.published(&shared.name, node, facts, refused.is_none());
        }
        if let Some(failure) = refused {
            return Some(Err(failure.into()));
        }
        lock(&shared.facts).extend(facts.iter().cloned());
        shared.batches.fetch_add(1, Ordering::Relaxed);
        shared.published.notify_waiters();
        Some(Ok(()))
    }
}

#[async_trait]
impl Sink for Latch {
    fn name(&self) -> &str {
        &self.0.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        Stopped::verdicts(self.take(deliveries).await, deliveries.len())
    }

    fn is_healthy(&self) -> bool {
        self.0.healthy.load(Ordering::Relaxed)
    }
}

/// A latch, and where it is.
struct OnNode {
    latch: Latch,
    node: String,
}

#[async_trait]
impl Sink for OnNode {
    fn name(&self) -> &str {
        self.latch.name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let taken = self.latch.on_node(&self.node, deliveries).await;
        Stopped::verdicts(taken, deliveries.len())
    }

    fn is_healthy(&self) -> bool {
        self.latch.is_healthy()
    }
}

impl fmt::Debug for Latch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Latch").field("name", &self.0.name).finish_non_exhaustive()
    }
}
