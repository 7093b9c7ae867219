//! A simulated world from its seed to the checker's verdict.

use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::order::AfterDead;
use sendoff_core::{EventId, Status, Timestamp};
use sendoff_engine::Outbox;
use sendoff_engine::memory::{MemoryStore, RowLock};
use sendoff_engine::relay::ClaimMode;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::bug::{Bug, Unsent};
use super::clock::JumpingClock;
use super::gate::Gate;
use super::keys::{Aggregates, LateLooks};
use super::node::{Cast, Kind, MAX_ATTEMPTS, Node, Stage};
use super::operator::{self, Operator};
use super::publishing::{Published, publish};
use super::script::{Mood, Part};
use super::weather::Weather;
use super::wire::Wire;
use crate::history::{Expectations, Fault, FaultKind, History, Verdict, Violation, check};

/// What a world came to.
#[derive(Debug, Clone)]
pub struct Report {
    /// The seed that makes this world again.
    pub seed: u64,
    /// What the checker says.
    pub verdict: Verdict,
    /// Events that are dead and should not be: neighbours of an event that kills its node.
    pub innocents: Vec<EventId>,
    /// Events written at the end, with one node left, that it did not deliver in time.
    pub stalled: Vec<EventId>,
    /// How long it took, in virtual time.
    pub lasted: Duration,
    /// How much later than a node was told it looked again at keys that nobody could take, in all.
    pub dawdled: Duration,
    /// Everything that happened.
    pub history: History,
    /// What the publishers of the same seed came to.
    pub published: Published,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        let delivered =
            self.verdict.is_clean() && self.innocents.is_empty() && self.stalled.is_empty();
        delivered && self.published.is_clean()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} ({:.0?} virtual): {}", self.seed, self.lasted, self.verdict)?;
        self.innocents.iter().try_for_each(|id| write!(f, "\n  {id} died and should not have"))?;
        self.stalled
            .iter()
            .try_for_each(|id| write!(f, "\n  {id} was left lying by the last node"))?;
        write!(f, "{}", self.published)
    }
}

/// The size of every world, whatever its seed.
pub(super) const NODES: usize = 3;
pub(super) const WRITERS: usize = 2;
const TRANSACTIONS: usize = 6;
const AGGREGATES: usize = 4;
pub(super) const CHAOS: Duration = Duration::from_secs(40);
const BLOWS: usize = 5;
/// What the last node has for a few ordinary events or facts; they may fail, and be put off, three
/// times.
pub(super) const ENCORE: Duration = Duration::from_secs(60);
/// Everything has ended so long after the faults are over, but for what a foreign session keeps
/// locked and what hangs without a limit; and that too, so long after it was let go. Poison needs two
/// minutes for its attempts, and a clock that was set back is looked for every five.
const BOUND: Duration = Duration::from_secs(15 * 60);
/// How long a node that is to be stopped for good may take to come into a transaction.
const TRAP: Duration = Duration::from_secs(10);
const JUMP_MILLIS: u64 = 2 * 60 * 1_000;

/// Runs the world of this seed.
///
/// # Panics
/// If no runtime can be made.
pub fn simulate(seed: u64) -> Report {
    simulate_with(seed, None)
}

/// Runs the world of this seed with a bug planted in it.
///
/// # Panics
/// If no runtime can be made.
pub fn simulate_with(seed: u64, bug: Option<Bug>) -> Report {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without I/O needs nothing that could be missing");
    // Relays and publishers draw from the thread's own chance.
    fastrand::seed(seed);
    // Made inside, where time is paused: outside, its clock would start at the host's.
    let published = runtime.block_on(publish(seed, bug));
    fastrand::seed(seed);
    runtime.block_on(async { World::new(seed, bug).run(published).await })
}

struct World {
    seed: u64,
    bug: Option<Bug>,
    random: Rng,
    weather: Weather,
    clock: JumpingClock,
    table: MemoryStore,
    counters: Arc<tokio::sync::Mutex<()>>,
    late_looks: LateLooks,
    history: History,
    stage: Stage,
    nodes: Vec<Node>,
    /// Nodes that were stopped and never go on; their sessions are the server's to end.
    frozen: Vec<Node>,
    /// Who looks at what is dead, if anybody does.
    operator: Option<Operator>,
    /// What a foreign session has locked and does not let go.
    forgotten: Option<(EventId, RowLock)>,
    /// Whether some event kills its node.
    killer: bool,
    started: usize,
    crashes: mpsc::UnboundedReceiver<Arc<str>>,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut random = Rng::with_seed(seed);
        let epoch = Timestamp::from_micros(1_700_000_000_000_000);
        let clock = JumpingClock::starting_at(epoch);
        let (sender, crashes) = mpsc::unbounded_channel();
        let present = operator::presence(seed);
        // Nobody lets a key go on where nobody is there.
        let after_dead = present.unwrap_or(AfterDead::Skip);
        let table = MemoryStore::with_clock(Arc::new(clock.clone()));
        let (history, cast) = (History::new(), Cast::default());
        Self {
            seed,
            bug,
            weather: Weather::of(&mut random),
            killer: random.u8(..5) == 0,
            stage: Stage {
                // Every other world is ordered, and so is each where a dead event holds others back.
                aggregates: Aggregates::new(match random.bool() || after_dead == AfterDead::Park {
                    true => AGGREGATES,
                    false => 0,
                }),
                after_dead,
                cast: cast.clone(),
                seed,
                crashes: sender,
            },
            random,
            operator: present.map(|_| Operator::of(&table, &history, &cast)),
            table,
            clock,
            counters: Arc::default(),
            late_looks: LateLooks::default(),
            history,
            nodes: Vec::new(),
            frozen: Vec::new(),
            forgotten: None,
            started: 0,
            crashes,
        }
    }

    async fn run(mut self, published: Published) -> Report {
        let began = Instant::now();
        // Drawn apart, so that the same worlds without it are as they were.
        let work = |operator| Operator::work(operator, Rng::with_seed(!self.seed));
        let working = self.operator.clone().map(work).map(tokio::spawn);
        let mood = if self.random.u8(..6) == 0 { Mood::Explosive } else { Mood::Plain };
        for number in 0..NODES {
            let kind = match number {
                0 => Kind::Outbox,
                1 if self.random.u8(..3) == 0 => Kind::Endless,
                1 => Kind::Outbox,
                _ => self.some_kind(),
            };
            self.start_node(kind).await;
            let mood = if kind == Kind::Endless { Mood::Sleepy } else { mood };
            for writer in 0..WRITERS {
                let killer = self.killer && (number, writer) == (0, 0);
                let node = self.nodes.last_mut().expect("just started");
                node.write(TRANSACTIONS, killer, mood, &self.stage, &mut self.random);
            }
        }
        self.chaos().await;
        self.heal().await;
        let overdue = self.until_terminal().await;
        self.let_go().await;
        let overdue_then = self.until_terminal().await;
        let stalled = self.encore().await;
        if let Some(working) = working {
            working.abort();
        }
        let overdue = [overdue, overdue_then].concat();
        self.judge(overdue, stalled, began.elapsed(), published)
    }

    fn some_kind(&mut self) -> Kind {
        match self.random.u8(..4) {
            // An event that kills a locked batch's process is never counted out: nothing was written.
            0 if !self.killer => Kind::Relay(ClaimMode::Locked),
            0 | 1 => Kind::Relay(ClaimMode::Held),
            _ => Kind::Outbox,
        }
    }

    async fn start_some_node(&mut self) {
        let kind = self.some_kind();
        self.start_node(kind).await;
    }

    async fn start_node(&mut self, kind: Kind) {
        self.started += 1;
        let wire = Wire {
            table: self.table.clone(),
            node: format!("n{}", self.started).into(),
            gate: Gate::default(),
            weather: self.weather.clone(),
            history: self.history.clone(),
            clock: self.clock.clone(),
            bug: self.bug,
            counters: self.counters.clone(),
            looks: self.late_looks.of_a_node(),
            unsent: Unsent::default(),
            jams: Arc::default(),
            hung: Arc::default(),
            closing: Arc::default(),
        };
        let node = Node::start(wire, kind, &self.stage, &mut self.random).await;
        self.nodes.push(node);
    }

    /// Blows at random times; a calm world gets none but those that explain no duplicate.
    async fn chaos(&mut self) {
        let end = Instant::now() + CHAOS;
        let blows = self.random.usize(..=BLOWS);
        for _ in 0..blows {
            let pause = Duration::from_millis(self.random.u64(500..7_000));
            self.obey_crashes(sleep(pause)).await;
            self.blow().await;
        }
        self.obey_crashes(tokio::time::sleep_until(end)).await;
    }

    async fn blow(&mut self) {
        if self.nodes.is_empty() {
            return self.start_some_node().await;
        }
        let victim = self.random.usize(..self.nodes.len());
        // In peace nodes come and go in order, rows are locked, and that explains no duplicate.
        let calm = self.weather.is_calm();
        match self.random.u8(if calm { 7..13 } else { 0..13 }) {
            0 => {
                let name = self.nodes[victim].wire.node.clone();
                self.crash(&name);
                self.start_some_node().await;
            }
            1 | 2 => self.stop_for_a_while(victim),
            3 | 4 => self.freeze(victim),
            5 => self.outage().await,
            6 => self.clock_jumps(),
            7 | 8 => self.lock_for_a_while(),
            9 => self.lock_and_forget(),
            10 | 11 => self.replace(victim, calm).await,
            _ => self.start_some_node().await,
        }
    }

    fn stop_for_a_while(&mut self, victim: usize) {
        let Wire { gate, node, .. } = self.nodes[victim].wire.clone();
        let (stopped, history) = (self.random.u64(500..20_000), self.history.clone());
        history.fault(Fault::on(node.clone(), FaultKind::Pause));
        gate.set(false);
        tokio::spawn(async move {
            sleep(Duration::from_millis(stopped)).await;
            history.fault(Fault::on(node, FaultKind::Resume));
            gate.set(true);
        });
    }

    /// Stops a node for good, in the middle of a transaction if it comes to one.
    fn freeze(&mut self, victim: usize) {
        if !self.frozen.is_empty() || self.nodes.len() < 2 {
            return;
        }
        // Best one that has transactions open all the time.
        let locks = |node: &Node| node.kind == Kind::Relay(ClaimMode::Locked);
        let victim = self.nodes.iter().position(locks).unwrap_or(victim);
        let node = self.nodes.remove(victim);
        node.wire.gate.set_trap();
        let wire = node.wire.clone();
        tokio::spawn(async move {
            sleep(TRAP).await;
            wire.inside_transaction();
        });
        self.frozen.push(node);
    }

    /// The database is unavailable to everybody, for longer than any hold.
    async fn outage(&mut self) {
        self.history.fault(Fault::everywhere(FaultKind::Partition));
        let takes = Duration::from_millis(self.random.u64(3_000..15_000));
        self.weather.set_outage(true);
        self.obey_crashes(sleep(takes)).await;
        self.history.fault(Fault::everywhere(FaultKind::Partition));
        self.weather.set_outage(false);
    }

    fn clock_jumps(&mut self) {
        let by = Duration::from_millis(self.random.u64(100..JUMP_MILLIS));
        self.history.fault(Fault::everywhere(FaultKind::ClockStep));
        self.clock.jump(by, self.random.bool());
    }

    /// Locks a row that is owed, as a session outside of Sendoff does.
    fn lock_some_row(&mut self) -> Option<(EventId, RowLock)> {
        let mut pending = self.table.pending();
        pending.retain(|id| !self.table.is_locked(*id));
        let id = *pending.get(self.random.usize(..pending.len().max(1)))?;
        // Logged before it takes effect. What was delivered after it in its key is settled with it.
        let with_it = of_one_key(&self.table, id);
        self.history.fault(Fault::everywhere(FaultKind::RowsLocked).of(with_it));
        Some((id, self.table.lock_row(id)?))
    }

    fn lock_for_a_while(&mut self) {
        let takes = Duration::from_millis(self.random.u64(500..25_000));
        let Some(lock) = self.lock_some_row() else { return };
        let history = self.history.clone();
        tokio::spawn(async move {
            sleep(takes).await;
            unlock(&history, lock);
        });
    }

    fn lock_and_forget(&mut self) {
        if self.forgotten.is_none() {
            self.forgotten = self.lock_some_row();
        }
    }

    /// Another node for this one, which ends in order.
    async fn replace(&mut self, victim: usize, calm: bool) {
        let node = self.nodes.remove(victim);
        if !calm || node.kind == Kind::Endless {
            // What a close cuts off it gives up, and somebody else runs it again.
            self.history.fault(Fault::on(node.wire.node.clone(), FaultKind::Restart));
        }
        self.start_some_node().await;
        self.obey_crashes(node.close()).await;
    }

    /// Waits for `until`, and lets the nodes go down that say so meanwhile.
    async fn obey_crashes(&mut self, until: impl Future<Output = ()>) {
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                Some(node) = self.crashes.recv() => {
                    self.crash(&node);
                    self.start_some_node().await;
                }
                () = &mut until => return,
            }
        }
    }

    fn crash(&mut self, name: &Arc<str>) {
        if let Some(at) = self.nodes.iter().position(|node| node.wire.node == *name) {
            self.history.fault(Fault::on(name.clone(), FaultKind::Crash));
            self.nodes.remove(at).crash();
        }
    }

    async fn heal(&mut self) {
        self.weather.clear_up();
        self.operator.iter().for_each(Operator::heal);
        for node in &self.nodes {
            node.wire.gate.set(true);
        }
        if self.nodes.is_empty() {
            self.start_some_node().await;
        }
    }

    /// Waits until nothing is owed that somebody could settle, and returns what is after the
    /// [`BOUND`].
    async fn until_terminal(&mut self) -> Vec<Violation> {
        let (table, history) = (self.table.clone(), self.history.clone());
        let excused = self.excused();
        let settled = async move {
            // Quiet for a while, too: a settlement that is late might still be under way.
            let mut quiet = 0;
            let mut entries = 0;
            while quiet < 20 {
                sleep(Duration::from_secs(1)).await;
                let terminal = table.pending().iter().all(&excused);
                quiet = if terminal && history.len() == entries { quiet + 1 } else { 0 };
                entries = history.len();
            }
        };
        self.obey_crashes(async move {
            let _ = timeout(BOUND, settled).await;
        })
        .await;
        self.history.rows_stand(&self.table.rows());
        let expected = Expectations { healed: true, ..Expectations::default() };
        let excused = self.excused();
        let overdue = |violation: &Violation| match violation {
            Violation::NotTerminal { id, .. } => !excused(id),
            _ => false,
        };
        check(&self.history, &expected).violations.into_iter().filter(overdue).collect()
    }

    /// Whether an event cannot end now, through nobody's fault.
    fn excused(&self) -> impl Fn(&EventId) -> bool + Send + Sync + 'static {
        let locked: Vec<_> = self.forgotten.iter().map(|(id, _)| *id).collect();
        let wires: Vec<_> = self.nodes.iter().map(|node| node.wire.clone()).collect();
        let table = self.table.clone();
        move |id| {
            let is_stuck = |id: &EventId| {
                locked.contains(id) || wires.iter().any(|wire| wire.hung().contains(id))
            };
            // Whatever comes after it in its key waits for it.
            of_one_key(&table, *id).iter().any(is_stuck)
        }
    }

    /// Whatever kept events from ending is over: locks, frozen nodes, in whose transactions others that write
    /// may wait for a key, and nodes with handlers that hang.
    async fn let_go(&mut self) {
        for node in std::mem::take(&mut self.frozen) {
            node.crash();
        }
        if let Some(lock) = self.forgotten.take() {
            unlock(&self.history, lock);
        }
        let endless = self.nodes.iter().filter(|node| node.kind == Kind::Endless);
        let endless: Vec<_> = endless.map(|node| node.wire.node.clone()).collect();
        for node in &endless {
            self.crash(node);
            self.start_node(Kind::Outbox).await;
        }
    }

    /// Leaves one node, whatever it has been through, and gives it something to do: others must not
    /// have covered for one that is dead on its feet.
    async fn encore(&mut self) -> Vec<EventId> {
        let last = self.nodes.swap_remove(self.random.usize(..self.nodes.len()));
        for node in std::mem::take(&mut self.nodes) {
            node.close().await;
        }
        let writer = Outbox::writer_only(self.table.clone());
        let events: Vec<_> =
            (0..12).map(|_| Part::Ordinary.event(None, &mut self.random)).collect();
        let Ok(mut tx) = writer.begin(&self.table).await else { return Vec::new() };
        for event in &events {
            tx.emit(event).expect("the script stays within the limits");
        }
        tx.commit().await.expect("a table in memory takes everything");
        events.iter().for_each(|event| self.history.committed(event));
        sleep(ENCORE).await;
        last.close().await;
        let pending =
            |id| self.table.rows().iter().any(|r| r.event.id() == id && !r.status.is_terminal());
        events.iter().map(sendoff_core::Event::id).filter(|&id| pending(id)).collect()
    }

    fn judge(
        self,
        overdue: Vec<Violation>,
        stalled: Vec<EventId>,
        lasted: Duration,
        published: Published,
    ) -> Report {
        let rows = self.table.rows();
        let mut resolved = self.resolve_unknown();
        self.history.rows_stand(&rows);
        let expected = Expectations {
            healed: true,
            ordered: (self.stage.aggregates.len() > 0).then_some(self.stage.after_dead),
            one_by_one: true,
            max_attempts: Some(MAX_ATTEMPTS),
            outages: true,
        };
        let dead = rows.iter().filter(|row| row.status == Status::Dead);
        let mut innocents: BTreeSet<EventId> = dead
            .map(|row| row.event.id())
            .filter(|&id| !self.stage.cast.part(id).is_doomed())
            .collect();
        if let Some(operator) = &self.operator {
            let mut found = operator.found();
            innocents.append(&mut found.innocents);
            resolved.append(&mut found.resolved);
        }
        let mut verdict = check(&self.history, &expected);
        // When they committed, nobody knows.
        verdict.violations.retain(|violation| match violation {
            Violation::OutOfOrder { earlier, later, .. } => {
                !resolved.contains(earlier) && !resolved.contains(later)
            }
            _ => true,
        });
        let early = overdue.into_iter().filter(|late| !verdict.violations.contains(late));
        let early: Vec<_> = early.collect();
        verdict.violations.extend(early);
        let (seed, history, dawdled) = (self.seed, self.history, self.late_looks.sum());
        let innocents = innocents.into_iter().collect();
        Report { seed, verdict, innocents, stalled, lasted, dawdled, history, published }
    }

    /// The table knows what a writer that went down, or lost its link, could not say.
    fn resolve_unknown(&self) -> BTreeSet<EventId> {
        let resolved = BTreeSet::from_iter(operator::unknown(&self.history, &self.table));
        for row in self.table.rows().iter().filter(|row| resolved.contains(&row.event.id())) {
            self.history.committed(&row.event);
        }
        resolved
    }
}

/// The pending events of an event's key, itself among them.
pub(super) fn of_one_key(table: &MemoryStore, id: EventId) -> Vec<EventId> {
    let (rows, pending) = (table.rows(), table.pending());
    let mine = rows.iter().find(|row| row.event.id() == id);
    let Some(key) = mine.and_then(|row| row.event.ordering_key()) else { return vec![id] };
    let same = rows.iter().filter(|row| row.event.ordering_key() == Some(key));
    same.map(|row| row.event.id()).filter(|same| *same == id || pending.contains(same)).collect()
}

/// A foreign session ends.
fn unlock(history: &History, (id, lock): (EventId, RowLock)) {
    history.fault(Fault::everywhere(FaultKind::RowsUnlocked).of([id]));
    drop(lock);
}
