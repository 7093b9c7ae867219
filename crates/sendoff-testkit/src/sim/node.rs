//! Nodes, relays and writers of a simulated world.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::order::AfterDead;
use sendoff_core::{Delivery, EventId, Unroutable, limits};
use sendoff_engine::capture::CommitError;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, Relaying};
use sendoff_engine::{
    HandlerOptions, HandlerResult, Handlers, NodeOptions, Outbox, OutboxOptions, RetryOptions,
};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, mpsc};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::bug::Bug;
use super::keys::Aggregates;
use super::script::{Ends, Mood, Part, TYPES, act};
use super::wire::Wire;
use super::world::of_one_key;
use crate::history::{FaultKind, History};

/// Attempts of every event in the world.
pub(super) const MAX_ATTEMPTS: u32 = 10;

/// What a handler panics with when the script wants it to.
pub const SCRIPTED_PANIC: &str = "the script says so";

/// Which part every event plays, and how often it came on.
#[derive(Debug, Clone, Default)]
pub(super) struct Cast {
    roles: Arc<Mutex<BTreeMap<EventId, Role>>>,
    runs: Arc<AtomicUsize>,
}

#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    pub(super) part: Part,
    runs: u32,
}

impl Cast {
    pub(super) fn part(&self, id: EventId) -> Part {
        self.with(|roles| roles.get(&id).map_or(Part::Ordinary, |role| role.part))
    }

    /// Another number each time.
    fn next(&self) -> usize {
        self.runs.fetch_add(1, Ordering::Relaxed)
    }

    fn add(&self, id: EventId, part: Part) {
        self.with(|roles| roles.insert(id, Role { part, runs: 0 }));
    }

    fn comes_on(&self, id: EventId) -> Role {
        self.with(|roles| {
            let role = roles.entry(id).or_insert(Role { part: Part::Ordinary, runs: 0 });
            role.runs += 1;
            *role
        })
    }

    /// What made it fail is no more; an event that nobody handles is as it was.
    pub(super) fn mend(&self, id: EventId) {
        self.with(|roles| {
            if let Some(role) = roles.get_mut(&id).filter(|role| role.part != Part::Unheard) {
                role.part = Part::Ordinary;
            }
        });
    }

    fn with<T>(&self, read: impl FnOnce(&mut BTreeMap<EventId, Role>) -> T) -> T {
        read(&mut self.roles.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// What runs in a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// An outbox; its handlers have a time limit.
    Outbox,
    /// An outbox whose handlers may hang for ever.
    Endless,
    /// A relay that keeps its rows in this way.
    Relay(ClaimMode),
}

/// A process: an engine, and writers that use it. Dropping it is a crash.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) wire: Wire,
    pub(super) kind: Kind,
    engine: Engine,
    writers: JoinSet<()>,
}

#[derive(Debug)]
enum Engine {
    Outbox(Outbox<Wire>),
    Relay(Relaying),
}

/// What a node shares with its world.
#[derive(Debug, Clone)]
pub(super) struct Stage {
    pub(super) cast: Cast,
    /// What events are ordered by.
    pub(super) aggregates: Aggregates,
    /// What a dead event means for its key.
    pub(super) after_dead: AfterDead,
    pub(super) seed: u64,
    pub(super) crashes: mpsc::UnboundedSender<Arc<str>>,
}

const WORKERS: usize = 3;
const HOLD: Duration = Duration::from_secs(5);
const POLL: Duration = Duration::from_secs(1);
const START_WITHIN: Duration = Duration::from_secs(15);
const HANDLER_TIMEOUT: Duration = Duration::from_secs(50);
/// Longer than the slowest handler takes, so that a close in peace cuts nothing off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);

/// Small and impatient, so that lanes overflow and holds run out within a minute.
fn outbox_options(kind: Kind, bug: Option<Bug>, after_dead: AfterDead) -> OutboxOptions {
    OutboxOptions {
        workers: WORKERS,
        hot_capacity: 3,
        cold_capacity: 8,
        poll_batch: 4,
        poll_interval: POLL,
        hot_grace: Duration::from_secs(2),
        hold: HOLD,
        node: NodeOptions { drain_timeout: DRAIN_TIMEOUT, ..NodeOptions::default() },
        handler: HandlerOptions {
            timeout: (kind == Kind::Outbox).then_some(HANDLER_TIMEOUT),
            start_within: match bug {
                Some(Bug::HungHandlersPinLanes) => limits::DELAY,
                _ => START_WITHIN,
            },
            unroutable: UNROUTABLE,
            unavailable_at_most: UNAVAILABLE,
            after_dead,
            ..HandlerOptions::default()
        },
        retry: RetryOptions { max_attempts: MAX_ATTEMPTS, ..RetryOptions::default() },
        ..OutboxOptions::default()
    }
}

/// What nobody handles is put off for a while, and then dead.
const UNROUTABLE: Unroutable =
    Unroutable::Defer { delay: Duration::from_secs(1), at_most: Duration::from_secs(10) };

/// Where nothing but poison is left, a node takes it for an outage, and ends it when that has lasted so long:
/// a few times what poison needs for its attempts.
const UNAVAILABLE: Duration = Duration::from_secs(4 * 60);

fn relay_options(mode: ClaimMode, after_dead: AfterDead) -> RelayOptions {
    RelayOptions {
        mode,
        batch: 4,
        workers: WORKERS,
        hold: HOLD,
        poll_interval: POLL,
        node: NodeOptions { drain_timeout: DRAIN_TIMEOUT, ..NodeOptions::default() },
        handler: HandlerOptions {
            timeout: Some(HANDLER_TIMEOUT),
            start_within: START_WITHIN,
            unroutable: UNROUTABLE,
            unavailable_at_most: UNAVAILABLE,
            after_dead,
            ..HandlerOptions::default()
        },
        retry: RetryOptions { max_attempts: MAX_ATTEMPTS, ..RetryOptions::default() },
        ..RelayOptions::default()
    }
}

impl Node {
    pub(super) async fn start(wire: Wire, kind: Kind, stage: &Stage, random: &mut Rng) -> Self {
        let workers = Arc::new(Semaphore::new(WORKERS));
        let handler = || {
            let (wire, stage, workers) = (wire.clone(), stage.clone(), workers.clone());
            move |delivery: Delivery| {
                let (wire, stage, workers) = (wire.clone(), stage.clone(), workers.clone());
                async move { handle(&wire, kind, &stage, delivery, workers).await }
            }
        };
        let engine = match kind {
            Kind::Outbox | Kind::Endless => {
                let options = outbox_options(kind, wire.bug, stage.after_dead);
                let mut builder = Outbox::builder(wire.clone()).options(options);
                for event_type in TYPES {
                    builder = builder.on(event_type, handler());
                }
                let started = builder.seed(random.u64(..)).start().await;
                Engine::Outbox(started.expect("the world's configuration is valid"))
            }
            Kind::Relay(mode) => {
                let mut handlers = Handlers::new();
                for event_type in TYPES {
                    handlers.on(event_type, handler()).expect("one for each");
                }
                let options = relay_options(mode, stage.after_dead);
                let builder = Relay::builder(wire.clone()).options(options);
                let relay = builder.build_routed(handlers);
                let relay = relay.expect("the world's configuration is valid");
                Engine::Relay(relay.start().await.expect("its tables are there"))
            }
        };
        Self { wire, kind, engine, writers: JoinSet::new() }
    }

    /// Ends it in order.
    pub(super) async fn close(self) {
        self.wire.closing.store(true, Ordering::Relaxed);
        match &self.engine {
            Engine::Outbox(outbox) => {
                outbox.close().await;
            }
            Engine::Relay(relaying) => {
                relaying.close().await;
            }
        }
        self.wire.gate.end();
    }

    /// Ends it without a word.
    pub(super) fn crash(self) {
        self.wire.gate.end();
    }

    /// Lets a writer loose that makes so many transactions.
    pub(super) fn write(
        &mut self,
        transactions: usize,
        killer: bool,
        mood: Mood,
        stage: &Stage,
        random: &mut Rng,
    ) {
        let Engine::Outbox(outbox) = &self.engine else { return };
        let (outbox, wire, stage) = (outbox.clone(), self.wire.clone(), stage.clone());
        let mut random = random.fork();
        self.writers.spawn(async move {
            for transaction in 0..transactions {
                sleep(Duration::from_millis(random.u64(..1_500))).await;
                wire.gate.pass().await;
                let Stage { cast, aggregates, .. } = &stage;
                let about = random.usize(..aggregates.len().max(1));
                let _alone = match aggregates.len() {
                    0 => None,
                    _ => Some(aggregates.lock(about).await),
                };
                let name = (aggregates.len() > 0).then(|| Aggregates::name(about));
                let mut events = Vec::new();
                for _ in 0..random.usize(1..4) {
                    let killer = killer && transaction == transactions / 2 && events.is_empty();
                    let part = if killer { Part::Killer } else { Part::draw(mood, &mut random) };
                    let key = name.as_deref().filter(|_| random.u8(..10) < 7);
                    let event = part.event(key, &mut random);
                    // Until the writer hears more, and for good if its node goes down first.
                    wire.history.unknown(&event);
                    cast.add(event.id(), part);
                    events.push(event);
                }
                let ids: Vec<_> = events.iter().map(sendoff_core::Event::id).collect();
                if random.bool() {
                    write_guarded(&outbox, &wire.history, events, &mut random).await;
                } else {
                    write_into_own(&outbox, &wire, events, &mut random).await;
                }
                // Born for a node that may not have been there any more to give them up.
                if wire.closing.load(Ordering::Relaxed) {
                    wire.misfortune(FaultKind::GraceOver, &ids);
                }
            }
        });
    }
}

/// Panics when it is dropped.
struct Bomb {
    /// What a worker that died of it takes along.
    worker: Option<OwnedSemaphorePermit>,
}

impl Drop for Bomb {
    fn drop(&mut self) {
        if let Some(worker) = self.worker.take() {
            worker.forget();
        }
        if !std::thread::panicking() {
            std::panic::panic_any(SCRIPTED_PANIC);
        }
    }
}

/// Batches of one relay do not know of each other's events, and after a fault two of them may have the
/// same one; an outbox never runs an event twice at once.
fn name(wire: &Wire, kind: Kind, stage: &Stage) -> Arc<str> {
    match kind {
        Kind::Outbox | Kind::Endless => wire.node.clone(),
        Kind::Relay(_) => format!("{}/{}", wire.node, stage.cast.next()).into(),
    }
}

async fn handle(
    wire: &Wire,
    kind: Kind,
    stage: &Stage,
    delivery: Delivery,
    workers: Arc<Semaphore>,
) -> HandlerResult {
    // What began before the run and may still cost it its hold belongs to its story.
    if wire.gate.pass().await {
        wire.misfortune(FaultKind::Pause, &[delivery.id()]);
    }
    if wire.is_jammed() {
        wire.misfortune(FaultKind::LateReply, &[delivery.id()]);
    }
    if wire.clock.jumped() {
        wire.misfortune(FaultKind::ClockStep, &[delivery.id()]);
    }
    // What is over of a key is settled after whatever of it somebody has locked.
    if of_one_key(&wire.table, delivery.id()).iter().any(|id| wire.table.is_locked(*id)) {
        wire.misfortune(FaultKind::RowsLocked, &[delivery.id()]);
    }
    // Where a bug lets workers die, there is a permit for each that lives.
    let deadly = wire.bug == Some(Bug::PanicInDropKillsAWorker);
    let worker = if deadly { workers.acquire_owned().await.ok() } else { None };
    let role = stage.cast.comes_on(delivery.id());
    let run = wire.history.delivery_started(&name(wire, kind, stage), &delivery);
    let act = act(role.part, stage.seed, delivery.id(), role.runs);
    sleep(act.takes).await;
    wire.gate.pass().await;
    match act.ends {
        Ends::Well => {
            run.finished(true);
            Ok(())
        }
        Ends::Badly(failure) => {
            run.finished(false);
            Err(failure)
        }
        Ends::InPanic => {
            run.finished(false);
            std::panic::panic_any(SCRIPTED_PANIC);
        }
        Ends::Never | Ends::NeverAndPanics if kind == Kind::Endless => {
            wire.hangs(delivery.id());
            pending().await
        }
        Ends::Never => pending().await,
        Ends::NeverAndPanics => {
            let _bomb = Bomb { worker };
            pending().await
        }
        Ends::WithItsNode => {
            let _ = stage.crashes.send(wire.node.clone());
            pending().await
        }
    }
}

/// Through the guard, sometimes with a savepoint that takes the last event back.
async fn write_guarded(
    outbox: &Outbox<Wire>,
    history: &History,
    mut events: Vec<sendoff_core::Event>,
    random: &mut Rng,
) {
    let Ok(mut tx) = outbox.begin(()).await else { return };
    let nested = (random.u8(..4) == 0).then(|| events.pop()).flatten();
    for event in &events {
        tx.emit(event).expect("the script stays within the limits");
    }
    if let Some(event) = nested {
        let Ok(mut savepoint) = tx.savepoint().await else { return };
        savepoint.emit(&event).expect("the script stays within the limits");
        if random.bool() {
            events.push(event);
            let _ = savepoint.release().await;
        } else {
            history.rolled_back(&event);
            let _ = savepoint.rollback().await;
        }
    }
    if random.u8(..5) == 0 {
        let _ = tx.rollback().await;
        events.iter().for_each(|event| history.rolled_back(event));
        return;
    }
    match tx.commit().await {
        Ok(()) => events.iter().for_each(|event| history.committed(event)),
        Err(CommitError::Unknown { .. }) => {}
        Err(_) => events.iter().for_each(|event| history.rolled_back(event)),
    }
}

/// Into a transaction of the application's own, whose receipt is released, forgotten, or released
/// although nothing committed.
async fn write_into_own(
    outbox: &Outbox<Wire>,
    wire: &Wire,
    events: Vec<sendoff_core::Event>,
    random: &mut Rng,
) {
    let Ok(mut tx) = wire.table.transaction() else { return };
    let Ok(staged) = outbox.write_all(&mut tx, &events).await else { return };
    // Longer than the first hold of a row, and its node may have lost it before it had it.
    let takes = Duration::from_millis(random.u64(..4_000));
    let released = random.u8(..4) > 0;
    if takes > Duration::from_secs(1) || !released {
        let ids: Vec<_> = events.iter().map(sendoff_core::Event::id).collect();
        wire.misfortune(FaultKind::GraceOver, &ids);
    }
    sleep(takes).await;
    wire.gate.pass().await;
    if random.u8(..4) == 0 {
        tx.rollback();
        events.iter().for_each(|event| wire.history.rolled_back(event));
    } else if tx.commit().is_ok() {
        events.iter().for_each(|event| wire.history.committed(event));
    }
    if released {
        staged.release();
    }
}
