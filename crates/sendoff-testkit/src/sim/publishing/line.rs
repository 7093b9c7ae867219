//! The line between a simulated node and its database: replies that are lost, late or doubled.

use std::collections::{BTreeMap, BTreeSet};
use std::future::Future;
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::{EventId, Failure};
use sendoff_engine::journal::MemoryJournal;
use sendoff_engine::store::StoreError;
use tokio::time::{Instant, sleep};

use super::super::bug::Bug;
use super::super::gate::Gate;
use super::super::weather::{Fate, Weather};
use super::super::wire::{SLOW, broken, carried_out};
use crate::history::{Fault, FaultKind, LogHistory};

/// A node is told of trouble in one task and acts on it in another.
const HEARD_WITHIN: Duration = Duration::from_millis(50);

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// What all nodes share.
#[derive(Debug, Clone)]
pub(super) struct Ground {
    pub(super) journal: MemoryJournal,
    pub(super) weather: Weather,
    pub(super) log: LogHistory,
    pub(super) bug: Option<Bug>,
    /// Cursors that a foreign session has locked.
    pub(super) locked: Locked,
    /// Targets that are unavailable.
    pub(super) outages: Outages,
}

/// How a target that is unavailable fails.
#[derive(Debug, Clone, Copy)]
pub(super) enum Looks {
    /// Its errors say nothing.
    Opaque,
    Refused,
}

impl Looks {
    pub(super) fn failure(self) -> Failure {
        match self {
            Self::Opaque => Failure::from("it did not work"),
            Self::Refused => Failure::from(io::Error::from(io::ErrorKind::ConnectionRefused)),
        }
    }
}

/// Targets that are unavailable, by publisher, and how many outages each has.
#[derive(Debug, Clone, Default)]
pub(super) struct Outages(Arc<Mutex<BTreeMap<String, Vec<Looks>>>>);

impl Outages {
    pub(super) fn begin(&self, publisher: &str, looks: Looks) {
        lock(&self.0).entry(publisher.to_owned()).or_default().push(looks);
    }

    pub(super) fn end(&self, publisher: &str) {
        lock(&self.0).get_mut(publisher).and_then(Vec::pop);
    }

    pub(super) fn end_all(&self) {
        lock(&self.0).clear();
    }

    pub(super) fn of(&self, publisher: &str) -> Option<Looks> {
        lock(&self.0).get(publisher)?.last().copied()
    }
}

#[derive(Debug, Clone, Default)]
pub(super) struct Locked(Arc<Mutex<BTreeSet<PairId>>>);

impl Locked {
    pub(super) fn lock(&self, pair: &PairId) {
        self.with(|locked| locked.insert(pair.clone()));
    }

    pub(super) fn unlock(&self, pair: &PairId) {
        self.with(|locked| locked.remove(pair));
    }

    pub(super) fn unlock_all(&self) {
        self.with(BTreeSet::clear);
    }

    pub(super) fn is_locked(&self, pair: &PairId) -> bool {
        self.with(|locked| locked.contains(pair))
    }

    pub(super) fn any(&self) -> bool {
        self.with(|locked| !locked.is_empty())
    }

    fn with<T>(&self, read: impl FnOnce(&mut BTreeSet<PairId>) -> T) -> T {
        read(&mut lock(&self.0))
    }
}

/// A node's line to the one journal: it loses, delays and repeats what goes over it.
#[derive(Debug, Clone)]
pub(super) struct Line {
    pub(super) ground: Ground,
    pub(super) node: Arc<str>,
    pub(super) gate: Gate,
    /// When something last went wrong here.
    trouble_at: Arc<Mutex<Option<Instant>>>,
    /// Whether the journal's end was lost, and nobody looks for it again yet. A node hears of that when it
    /// next wants more, and what it publishes until then does not count.
    tail_lost: Arc<AtomicBool>,
    /// Whether it joined again after trouble, and has not seen yet what makes it doubt what it knew.
    rejoined: Arc<AtomicBool>,
}

/// A statement somebody waits for. Whoever stops waiting does not know what became of it.
struct Unanswered<'l>(Option<&'l Line>);

impl Drop for Unanswered<'_> {
    fn drop(&mut self) {
        if let Some(line) = self.0.take() {
            line.trouble(FaultKind::LostReply);
        }
    }
}

impl Line {
    pub(super) fn new(ground: Ground, node: Arc<str>) -> Self {
        Self {
            ground,
            node,
            gate: Gate::default(),
            trouble_at: Arc::default(),
            tail_lost: Arc::default(),
            rejoined: Arc::default(),
        }
    }

    /// Sends a statement, with whatever happens to it on the way.
    pub(super) async fn send<T, E, Fut>(
        &self,
        statement: impl Fn(Self) -> Fut + Send + 'static,
    ) -> Result<T, E>
    where
        T: Send + 'static,
        E: From<StoreError> + Send + 'static,
        Fut: Future<Output = Result<T, E>> + Send,
    {
        let fate = self.ground.weather.fate();
        let mut unanswered = Unanswered(Some(self));
        self.goes_there().await;
        // Logged before it takes effect.
        let answer = carried_out(self, fate, |kind| self.trouble(kind), statement).await;
        self.comes_back(fate).await;
        unanswered.0 = None;
        answer
    }

    /// A statement of a session of its own: a link that breaks takes the session with it.
    pub(super) async fn send_on<T>(
        &self,
        statement: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let fate = self.ground.weather.fate();
        let mut unanswered = Unanswered(Some(self));
        self.goes_there().await;
        let answer = match fate {
            Fate::Fine | Fate::Twice => statement.await,
            Fate::RequestLost | Fate::Late(_) => {
                self.trouble(FaultKind::Partition);
                broken()
            }
            Fate::ReplyLost => {
                self.trouble(FaultKind::LostReply);
                statement.await.and(broken())
            }
        };
        self.comes_back(fate).await;
        unanswered.0 = None;
        answer
    }

    async fn goes_there(&self) {
        let takes = self.ground.weather.latency();
        self.gate.pass().await;
        self.under_way(takes).await;
    }

    /// Slow messages keep a node from saying that it is alive, and from storing how far it is.
    async fn under_way(&self, takes: Duration) {
        let slow = takes > SLOW;
        if slow {
            self.trouble(FaultKind::LateReply);
        }
        sleep(takes).await;
        if slow {
            self.trouble(FaultKind::LateReply);
        }
    }

    /// What its node is told it acts on only now, so that is when it went wrong.
    async fn comes_back(&self, fate: Fate) {
        self.under_way(self.ground.weather.latency()).await;
        self.gate.pass().await;
        if !matches!(fate, Fate::Fine | Fate::Twice) {
            self.trouble(FaultKind::Partition);
        }
    }

    /// Something went wrong here.
    pub(super) fn trouble(&self, kind: FaultKind) {
        *lock(&self.trouble_at) = Some(Instant::now());
        self.ground.log.fault(&Fault::on(self.node.clone(), kind));
    }

    /// Something went wrong here, and these facts may come again for it.
    pub(super) fn trouble_with(&self, kind: FaultKind, ids: impl IntoIterator<Item = EventId>) {
        self.ground.log.fault(&Fault::on(self.node.clone(), kind).of(ids));
    }

    pub(super) fn set_tail_lost(&self, lost: bool) {
        self.tail_lost.store(lost, Ordering::Relaxed);
    }

    /// It joined after trouble. It doubts whatever it knew when the look that follows is answered, and
    /// publishes what is under way by then again.
    pub(super) fn rejoin(&self) {
        self.trouble(FaultKind::Partition);
        self.rejoined.store(true, Ordering::Relaxed);
    }

    pub(super) fn looked(&self) {
        if self.rejoined.swap(false, Ordering::Relaxed) {
            self.trouble(FaultKind::Partition);
        }
    }

    pub(super) fn is_tail_lost(&self) -> bool {
        self.tail_lost.load(Ordering::Relaxed)
    }

    /// Whether anything ever went wrong here.
    pub(super) fn had_trouble(&self) -> bool {
        lock(&self.trouble_at).is_some()
    }

    /// Whether anything went wrong here since then, or so shortly before that the node has not acted on it.
    pub(super) fn had_trouble_since(&self, time: Instant) -> bool {
        lock(&self.trouble_at).is_some_and(|at| at + HEARD_WITHIN >= time)
    }
}
