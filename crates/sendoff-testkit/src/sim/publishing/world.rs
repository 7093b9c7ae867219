//! A simulated world of publishing nodes, and what came of it.

use std::collections::BTreeMap;
use std::fmt;
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::journal::Position;
use sendoff_engine::journal::publish::{Cursor, PublishStore};
use sendoff_engine::journal::{JournalStore, MemoryJournal};
use tokio::time::{Instant, sleep, timeout};

use super::super::bug::Bug;
use super::super::weather::Weather;
use super::super::world::{CHAOS, ENCORE, NODES, WRITERS};
use super::line::{Ground, Line, Locked, Looks, Outages};
use super::node::{Node, UNNOTICED, facts, id_of, pairs};
use super::target::Tried;
use crate::history::{Fault, FaultKind, LogHistory, Verdict};

/// What publishing came to.
#[derive(Debug, Clone)]
pub struct Published {
    /// What the checker says of each pair.
    pub verdicts: BTreeMap<String, Verdict>,
    /// Cursors that were not at the journal's end long after the faults were over, and pairs that the
    /// last node did not work any more.
    pub standing: Vec<String>,
    /// Everything that happened, to each pair.
    pub log: LogHistory,
    /// How long it took, in virtual time.
    pub lasted: Duration,
}

impl Published {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.standing.is_empty() && self.verdicts.values().all(Verdict::is_clean)
    }
}

impl fmt::Display for Published {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (pair, verdict) in self.verdicts.iter().filter(|(_, verdict)| !verdict.is_clean()) {
            write!(f, "\n  {pair} ({:.0?} virtual): {verdict}", self.lasted)?;
        }
        self.standing.iter().try_for_each(|pair| write!(f, "\n  {pair}"))
    }
}

/// The size of every world, whatever its seed.
const TRANSACTIONS: usize = 8;
const BLOWS: usize = 6;
/// Everything is published so long after the faults are over. A target that hangs takes seconds, and a
/// pair's pause after failures at most five.
const BOUND: Duration = Duration::from_secs(5 * 60);

/// Runs the publishers of this seed.
pub(in super::super) async fn publish(seed: u64, bug: Option<Bug>) -> Published {
    World::new(seed, bug).run().await
}

struct World {
    seed: u64,
    random: Rng,
    ground: Ground,
    tried: Tried,
    nodes: Vec<Node>,
    /// Nodes that were stopped and never go on; their leases are the server's to end.
    frozen: Vec<Node>,
    started: usize,
}

impl World {
    fn new(seed: u64, bug: Option<Bug>) -> Self {
        // Not the outboxes' world again.
        let mut random = Rng::with_seed(!seed);
        let readers = pairs().into_iter();
        let readers = readers.map(|(topic, name)| (id_of(&topic, name).to_string(), topic));
        let ground = Ground {
            journal: MemoryJournal::new(),
            weather: Weather::of(&mut random),
            log: LogHistory::of(readers),
            bug,
            locked: Locked::default(),
            outages: Outages::default(),
        };
        let (nodes, frozen) = (Vec::new(), Vec::new());
        Self { seed, random, ground, tried: Tried::default(), nodes, frozen, started: 0 }
    }

    async fn run(mut self) -> Published {
        let began = Instant::now();
        for _ in 0..NODES {
            self.start_node().await;
            for _ in 0..WRITERS {
                let node = self.nodes.last_mut().expect("just started");
                node.write(TRANSACTIONS, &mut self.random);
            }
        }
        self.chaos().await;
        self.heal().await;
        let mut standing = self.until_published(BOUND).await;
        standing.extend(self.encore().await);
        let log = self.ground.log.clone();
        let verdicts = log.verdicts().into_iter().map(|(name, verdict)| (name.into(), verdict));
        Published { verdicts: verdicts.collect(), standing, log, lasted: began.elapsed() }
    }

    async fn start_node(&mut self) {
        self.started += 1;
        let line = Line::new(self.ground.clone(), format!("n{}", self.started).into());
        let node = Node::start(line, &self.tried, self.seed, &mut self.random).await;
        self.nodes.push(node);
    }

    /// Blows at random times; a calm world gets none but those that explain no duplicate.
    async fn chaos(&mut self) {
        let end = Instant::now() + CHAOS;
        for _ in 0..self.random.usize(..=BLOWS) {
            sleep(Duration::from_millis(self.random.u64(500..7_000))).await;
            self.blow().await;
        }
        tokio::time::sleep_until(end).await;
    }

    async fn blow(&mut self) {
        if self.nodes.is_empty() {
            return self.start_node().await;
        }
        let victim = self.random.usize(..self.nodes.len());
        let calm = self.ground.weather.is_calm();
        match self.random.u8(if calm { 6..15 } else { 0..15 }) {
            0 | 1 => {
                let node = self.nodes.remove(victim);
                self.fault_on(&node, FaultKind::Crash);
                node.crash();
                self.start_node().await;
            }
            2 | 3 => self.stop_for_a_while(victim),
            4 => self.freeze(victim),
            5 => self.outage().await,
            6..9 => self.stop_unnoticed(victim),
            9 => self.lock_for_a_while(),
            10 | 11 => self.replace(victim, calm).await,
            12 | 13 => self.target_outage(),
            _ => self.start_node().await,
        }
    }

    fn fault_on(&self, node: &Node, kind: FaultKind) {
        self.ground.log.fault(&Fault::on(node.line.node.clone(), kind));
    }

    fn stop_for_a_while(&mut self, victim: usize) {
        let line = self.nodes[victim].line.clone();
        let stopped = Duration::from_millis(self.random.u64(500..20_000));
        line.trouble(FaultKind::Pause);
        line.gate.set(false);
        tokio::spawn(async move {
            sleep(stopped).await;
            line.trouble(FaultKind::Resume);
            line.gate.set(true);
        });
    }

    /// So shortly that nobody may take its place, and nothing comes twice for it.
    fn stop_unnoticed(&mut self, victim: usize) {
        let gate = self.nodes[victim].line.gate.clone();
        let stopped = self.random.u64(100..UNNOTICED.as_millis() as u64);
        gate.set(false);
        tokio::spawn(async move {
            sleep(Duration::from_millis(stopped)).await;
            gate.set(true);
        });
    }

    fn freeze(&mut self, victim: usize) {
        if self.frozen.is_empty() && self.nodes.len() > 1 {
            let node = self.nodes.remove(victim);
            node.line.trouble(FaultKind::Pause);
            node.line.gate.shut_for_good();
            self.frozen.push(node);
        }
    }

    /// The database is unavailable to everybody, for longer than any lease.
    async fn outage(&mut self) {
        self.ground.log.fault(&Fault::everywhere(FaultKind::Partition));
        self.ground.weather.set_outage(true);
        sleep(Duration::from_millis(self.random.u64(3_000..15_000))).await;
        self.ground.log.fault(&Fault::everywhere(FaultKind::Partition));
        self.ground.weather.set_outage(false);
    }

    /// A session outside of Sendoff locks a cursor: it is stored later, and that explains nothing.
    fn lock_for_a_while(&mut self) {
        let pairs = pairs();
        let (topic, publisher) = &pairs[self.random.usize(..pairs.len())];
        let (pair, locked) = (id_of(topic, publisher), self.ground.locked.clone());
        let takes = Duration::from_millis(self.random.u64(500..10_000));
        locked.lock(&pair);
        tokio::spawn(async move {
            sleep(takes).await;
            locked.unlock(&pair);
        });
    }

    /// A publisher's target is unavailable to every node: nothing is parked for it, nothing overtakes what
    /// waits, and that explains nothing.
    fn target_outage(&mut self) {
        let pairs = pairs();
        let publisher = pairs[self.random.usize(..pairs.len())].1;
        let looks = if self.random.bool() { Looks::Opaque } else { Looks::Refused };
        let lasts = Duration::from_millis(self.random.u64(1_000..90_000));
        let outages = self.ground.outages.clone();
        outages.begin(publisher, looks);
        tokio::spawn(async move {
            sleep(lasts).await;
            outages.end(publisher);
        });
    }

    /// Another node for this one, which ends in order.
    async fn replace(&mut self, victim: usize, calm: bool) {
        let node = self.nodes.remove(victim);
        if !calm || self.ground.locked.any() {
            // What it cannot store any more is published again.
            self.fault_on(&node, FaultKind::Restart);
        }
        self.start_node().await;
        node.close().await;
    }

    async fn heal(&mut self) {
        self.ground.weather.clear_up();
        self.ground.locked.unlock_all();
        self.ground.outages.end_all();
        for node in &self.nodes {
            node.line.gate.set(true);
        }
        if self.nodes.is_empty() {
            self.start_node().await;
        }
    }

    /// Waits until every cursor is at the journal's end, and returns those that are not after `bound`.
    async fn until_published(&self, bound: Duration) -> Vec<String> {
        let journal = self.ground.journal.clone();
        let published = async {
            while !lagging(&journal).await.is_empty() {
                sleep(Duration::from_secs(1)).await;
            }
        };
        // Nobody writes any more, once those are through who wait for an answer.
        sleep(Duration::from_secs(30)).await;
        match timeout(bound, published).await {
            Ok(()) => Vec::new(),
            Err(_) => lagging(&journal).await,
        }
    }

    /// Leaves one node, whatever it has been through, and gives it something to do: others must not
    /// have covered for one that is dead on its feet.
    async fn encore(&mut self) -> Vec<String> {
        let last = self.nodes.swap_remove(self.random.usize(..self.nodes.len()));
        for node in std::mem::take(&mut self.nodes) {
            node.close().await;
        }
        for node in std::mem::take(&mut self.frozen) {
            node.crash();
        }
        for _ in 0..4 {
            let append = facts(&mut self.random);
            let receipts = self.ground.journal.append(&append).await;
            let receipts = receipts.expect("a journal in memory takes everything");
            for (fact, receipt) in append.facts().iter().zip(receipts) {
                self.ground.log.recorded(fact, receipt.position);
            }
        }
        sleep(ENCORE).await;
        let standing = lagging(&self.ground.journal).await;
        last.close().await;
        standing
    }
}

/// Cursors that are not at the journal's end.
async fn lagging(journal: &MemoryJournal) -> Vec<String> {
    let head = journal.head().await.expect("memory answers");
    let survey = journal.survey().await.expect("memory answers");
    let late = survey.cursors.iter().filter(|cursor| cursor.position < head);
    late.map(|cursor| stands(cursor, head)).collect()
}

fn stands(cursor: &Cursor, head: Position) -> String {
    let Cursor { pair, position, status, leader, last_error, .. } = cursor;
    format!("{pair} stands at {position} of {head}, {status}, led by {leader:?}: {last_error:?}")
}
