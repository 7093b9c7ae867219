use std::collections::BTreeMap;
use std::future::pending;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::{Delivery, EventId};
use sendoff_engine::capture::CommitError;
use sendoff_engine::{HandlerResult, Outbox, OutboxConfig};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::script::{Ends, Part, TYPES, act};
use super::wire::Wire;
use crate::history::{FaultKind, History};

/// Attempts of every event in the world.
pub(super) const MAX_ATTEMPTS: u32 = 10;

/// What a handler panics with when the script wants it to.
pub const SCRIPTED_PANIC: &str = "the script says so";

/// Which part every event plays, and how often it came on.
#[derive(Debug, Clone, Default)]
pub(super) struct Cast(Arc<Mutex<BTreeMap<EventId, Role>>>);

#[derive(Debug, Clone, Copy)]
pub(super) struct Role {
    pub(super) part: Part,
    runs: u32,
}

impl Cast {
    pub(super) fn part(&self, id: EventId) -> Part {
        self.with(|roles| roles.get(&id).map_or(Part::Ordinary, |role| role.part))
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

    fn with<T>(&self, read: impl FnOnce(&mut BTreeMap<EventId, Role>) -> T) -> T {
        read(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// A process: an engine, and writers that use it. Dropping it is a crash.
#[derive(Debug)]
pub(super) struct Node {
    pub(super) wire: Wire,
    pub(super) outbox: Outbox<Wire>,
    writers: JoinSet<()>,
}

/// Small and impatient, so that lanes overflow and holds run out within a minute.
fn config() -> OutboxConfig {
    OutboxConfig {
        workers: 3,
        hot_capacity: 6,
        cold_capacity: 8,
        poll_batch: 4,
        poll_interval: Duration::from_secs(1),
        hot_grace: Duration::from_secs(2),
        hold: Duration::from_secs(5),
        // Longer than the slowest handler takes, so that a close in peace cuts nothing off.
        drain_timeout: Duration::from_secs(60),
        handler_timeout: Some(Duration::from_secs(50)),
        max_attempts: MAX_ATTEMPTS,
        ..OutboxConfig::default()
    }
}

impl Node {
    pub(super) fn start(
        wire: Wire,
        cast: &Cast,
        seed: u64,
        random: &mut Rng,
        crashes: &mpsc::UnboundedSender<Arc<str>>,
    ) -> Self {
        let mut builder = Outbox::builder(wire.clone()).config(config()).seed(random.u64(..));
        for event_type in TYPES {
            let (wire, cast, crashes) = (wire.clone(), cast.clone(), crashes.clone());
            builder = builder.on(event_type, move |delivery: Delivery| {
                let (wire, crashes) = (wire.clone(), crashes.clone());
                let role = cast.comes_on(delivery.id());
                async move { handle(&wire, role, seed, delivery, &crashes).await }
            });
        }
        let outbox = builder.start().expect("the world's configuration is valid");
        Self { wire, outbox, writers: JoinSet::new() }
    }

    /// Lets a writer loose that makes so many transactions.
    pub(super) fn write(
        &mut self,
        transactions: usize,
        killer: bool,
        cast: &Cast,
        random: &mut Rng,
    ) {
        let (outbox, wire, cast) = (self.outbox.clone(), self.wire.clone(), cast.clone());
        let mut random = random.fork();
        self.writers.spawn(async move {
            for transaction in 0..transactions {
                sleep(Duration::from_millis(random.u64(..1_500))).await;
                wire.gate.pass().await;
                let mut events = Vec::new();
                for _ in 0..random.usize(1..4) {
                    let killer = killer && transaction == transactions / 2 && events.is_empty();
                    let part = if killer { Part::Killer } else { Part::draw(&mut random) };
                    let event = part.event(&mut random);
                    // Until the writer hears more, and for good if its node goes down first.
                    wire.history.unknown(&event);
                    cast.add(event.id(), part);
                    events.push(event);
                }
                if random.bool() {
                    write_guarded(&outbox, &wire.history, events, &mut random).await;
                } else {
                    write_into_own(&outbox, &wire, events, &mut random).await;
                }
            }
        });
    }
}

async fn handle(
    wire: &Wire,
    role: Role,
    seed: u64,
    delivery: Delivery,
    crashes: &mpsc::UnboundedSender<Arc<str>>,
) -> HandlerResult {
    // What began before the run and may still cost it its hold belongs to its story.
    if wire.gate.pass().await {
        wire.misfortune(FaultKind::Pause, &[delivery.id()]);
    }
    if wire.is_jammed() {
        wire.misfortune(FaultKind::LateReply, &[delivery.id()]);
    }
    let run = wire.history.delivery_started(&wire.node, &delivery);
    let act = act(role.part, seed, delivery.id(), role.runs);
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
        Ends::Never => pending().await,
        Ends::WithItsNode => {
            let _ = crashes.send(wire.node.clone());
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
    sleep(Duration::from_millis(random.u64(..4_000))).await;
    wire.gate.pass().await;
    if random.u8(..4) == 0 {
        tx.rollback();
        events.iter().for_each(|event| wire.history.rolled_back(event));
    } else if tx.commit().is_ok() {
        events.iter().for_each(|event| wire.history.committed(event));
    }
    if random.u8(..4) > 0 {
        staged.release();
    }
}
