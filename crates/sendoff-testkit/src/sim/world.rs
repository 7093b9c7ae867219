use std::collections::BTreeSet;
use std::fmt;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::{EventId, Status, Timestamp};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::{Outbox, TokioClock};
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep, timeout};

use super::gate::Gate;
use super::node::{Cast, MAX_ATTEMPTS, Node};
use super::script::Part;
use super::weather::Weather;
use super::wire::{Bug, Wire};
use crate::history::{
    Entry, Expectations, Fault, FaultKind, History, Verdict, WriteOutcome, check,
};

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
    /// Everything that happened.
    pub history: History,
}

impl Report {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.verdict.is_clean() && self.innocents.is_empty() && self.stalled.is_empty()
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "seed {} ({:.0?} virtual): {}", self.seed, self.lasted, self.verdict)?;
        self.innocents.iter().try_for_each(|id| write!(f, "\n  {id} died and should not have"))?;
        self.stalled.iter().try_for_each(|id| write!(f, "\n  {id} was left lying by the last node"))
    }
}

/// The size of every world, whatever its seed.
const NODES: usize = 3;
const WRITERS: usize = 2;
const TRANSACTIONS: usize = 8;
const CHAOS: Duration = Duration::from_secs(40);
const BLOWS: usize = 5;
/// What the last node has for a few ordinary events; they may fail, and be put off, three times.
const ENCORE: Duration = Duration::from_secs(60);
/// Virtual time after which what is not terminal never will be.
const PATIENCE: Duration = Duration::from_secs(2 * 60 * 60);

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
    // Made inside, where time is paused: outside, its clock would start at the host's.
    runtime.block_on(async { World::new(seed, bug).run().await })
}

struct World {
    seed: u64,
    bug: Option<Bug>,
    random: Rng,
    weather: Weather,
    table: MemoryStore,
    history: History,
    cast: Cast,
    nodes: Vec<Node>,
    started: usize,
    crashes: (mpsc::UnboundedSender<Arc<str>>, mpsc::UnboundedReceiver<Arc<str>>),
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        let mut random = Rng::with_seed(seed);
        let epoch = Timestamp::from_micros(1_700_000_000_000_000);
        Self {
            seed,
            bug,
            weather: Weather::of(&mut random),
            random,
            table: MemoryStore::with_clock(Arc::new(TokioClock::starting_at(epoch))),
            history: History::new(),
            cast: Cast::default(),
            nodes: Vec::new(),
            started: 0,
            crashes: mpsc::unbounded_channel(),
        }
    }

    async fn run(mut self) -> Report {
        let began = Instant::now();
        let killer = self.random.u8(..5) == 0;
        for number in 0..NODES {
            self.start_node();
            for writer in 0..WRITERS {
                let killer = killer && (number, writer) == (0, 0);
                let node = self.nodes.last_mut().expect("just started");
                node.write(TRANSACTIONS, killer, &self.cast, &mut self.random);
            }
        }
        self.chaos().await;
        self.heal().await;
        self.until_terminal().await;
        let stalled = self.encore().await;
        self.judge(stalled, began.elapsed())
    }

    fn start_node(&mut self) {
        self.started += 1;
        let wire = Wire {
            table: self.table.clone(),
            node: format!("n{}", self.started).into(),
            gate: Gate::default(),
            weather: self.weather.clone(),
            history: self.history.clone(),
            bug: self.bug,
            jams: Arc::default(),
        };
        let node = Node::start(wire, &self.cast, self.seed, &mut self.random, &self.crashes.0);
        self.nodes.push(node);
    }

    /// Blows at random times; a calm world gets none.
    async fn chaos(&mut self) {
        let end = Instant::now() + CHAOS;
        let blows = self.random.usize(..=BLOWS);
        for _ in 0..blows {
            let pause = Duration::from_millis(self.random.u64(500..9_000));
            self.obey_crashes(sleep(pause)).await;
            self.blow().await;
        }
        self.obey_crashes(tokio::time::sleep_until(end)).await;
    }

    async fn blow(&mut self) {
        if self.nodes.is_empty() {
            return self.start_node();
        }
        let victim = self.random.usize(..self.nodes.len());
        // In peace nodes come and go in order, and that explains no duplicate.
        let calm = self.weather.is_calm();
        match self.random.u8(if calm { 3..5 } else { 0..6 }) {
            0 => {
                let name = self.nodes[victim].wire.node.clone();
                self.crash(&name);
                self.start_node();
            }
            1 | 2 => {
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
            3 => {
                let node = self.nodes.remove(victim);
                if !calm {
                    // What a close cuts off it gives up, and somebody else runs it again.
                    self.history.fault(Fault::on(node.wire.node.clone(), FaultKind::Restart));
                }
                self.start_node();
                self.obey_crashes(async move {
                    node.outbox.close().await;
                })
                .await;
            }
            5 => {
                // The database is away for everybody, for longer than any hold.
                self.history.fault(Fault::everywhere(FaultKind::Partition));
                let away = Duration::from_millis(self.random.u64(3_000..15_000));
                self.weather.set_outage(true);
                self.obey_crashes(sleep(away)).await;
                self.history.fault(Fault::everywhere(FaultKind::Partition));
                self.weather.set_outage(false);
            }
            _ => self.start_node(),
        }
    }

    /// Waits for `until`, and lets the nodes go down that say so meanwhile.
    async fn obey_crashes(&mut self, until: impl Future<Output = ()>) {
        tokio::pin!(until);
        loop {
            tokio::select! {
                biased;
                Some(node) = self.crashes.1.recv() => {
                    self.crash(&node);
                    self.start_node();
                }
                () = &mut until => return,
            }
        }
    }

    fn crash(&mut self, name: &Arc<str>) {
        if let Some(at) = self.nodes.iter().position(|node| node.wire.node == *name) {
            self.history.fault(Fault::on(name.clone(), FaultKind::Crash));
            drop(self.nodes.remove(at));
        }
    }

    async fn heal(&mut self) {
        self.weather.clear_up();
        for node in &self.nodes {
            node.wire.gate.set(true);
        }
        if self.nodes.is_empty() {
            self.start_node();
        }
    }

    async fn until_terminal(&mut self) {
        let table = self.table.clone();
        let history = self.history.clone();
        let settled = async move {
            // Quiet for a while, too: a settlement that is late might still be under way.
            let mut quiet = 0;
            let mut entries = 0;
            while quiet < 20 {
                sleep(Duration::from_secs(1)).await;
                let terminal = table.rows().iter().all(|row| row.status.is_terminal());
                quiet = if terminal && history.len() == entries { quiet + 1 } else { 0 };
                entries = history.len();
            }
        };
        self.obey_crashes(async move {
            let _ = timeout(PATIENCE, settled).await;
        })
        .await;
    }

    /// Leaves one node, whatever it has been through, and gives it something to do: others must not
    /// have covered for one that is dead on its feet.
    async fn encore(&mut self) -> Vec<EventId> {
        let last = self.nodes.swap_remove(self.random.usize(..self.nodes.len()));
        for node in std::mem::take(&mut self.nodes) {
            node.outbox.close().await;
        }
        let writer = Outbox::writer_only(self.table.clone());
        let events: Vec<_> = (0..12).map(|_| Part::Ordinary.event(&mut self.random)).collect();
        let Ok(mut tx) = writer.begin(&self.table).await else { return Vec::new() };
        for event in &events {
            tx.emit(event).expect("the script stays within the limits");
        }
        tx.commit().await.expect("a table in memory takes everything");
        events.iter().for_each(|event| self.history.committed(event));
        sleep(ENCORE).await;
        last.outbox.close().await;
        let pending =
            |id| self.table.rows().iter().any(|r| r.event.id() == id && !r.status.is_terminal());
        events.iter().map(sendoff_core::Event::id).filter(|&id| pending(id)).collect()
    }

    fn judge(self, stalled: Vec<EventId>, lasted: Duration) -> Report {
        let rows = self.table.rows();
        self.resolve_unknown();
        self.history.rows_stand(&rows);
        let expected = Expectations {
            healed: true,
            max_attempts: Some(MAX_ATTEMPTS),
            outages: true,
            ..Expectations::default()
        };
        let dead = rows.iter().filter(|row| row.status == Status::Dead);
        let innocents =
            dead.map(|row| row.event.id()).filter(|&id| !self.cast.part(id).is_doomed()).collect();
        let verdict = check(&self.history, &expected);
        Report { seed: self.seed, verdict, innocents, stalled, lasted, history: self.history }
    }

    /// The table knows what a writer that went down, or lost its link, could not say.
    fn resolve_unknown(&self) {
        let mut known = BTreeSet::new();
        for entry in self.history.entries() {
            match entry {
                Entry::Written { outcome: WriteOutcome::Unknown, .. } => {}
                Entry::Written { id, .. } => drop(known.insert(id)),
                _ => {}
            }
        }
        for row in self.table.rows().iter().filter(|row| !known.contains(&row.event.id())) {
            self.history.committed(&row.event);
        }
    }
}
