//! A simulated node that publishes.

use std::sync::Arc;
use std::time::Duration;

use fastrand::Rng;
use sendoff_core::journal::publish::{PairId, Poison};
use sendoff_core::journal::{Append, Fact, Tag, Topic};
use sendoff_core::{Event, EventId, Sink, Timestamp};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{Mode, PairOptions, PublishOptions, Publishing};
use sendoff_engine::{NodeOptions, RetryOptions};
use tokio::task::JoinSet;
use tokio::time::sleep;

use super::super::script::TYPES;
use super::line::Line;
use super::target::{Target, Tried};

pub(super) const RENEW: Duration = Duration::from_millis(500);
const LEASE: Duration = Duration::from_secs(4);
/// What a node may be stopped for without anybody noticing: statements have half a lease.
pub(super) const UNNOTICED: Duration = Duration::from_millis(1_200);
/// Longer than a target takes that hangs, so that a close in peace cuts nothing off.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(60);
const PUBLISH_TIMEOUT: Duration = Duration::from_secs(6);

/// The pairs of every node.
pub(super) fn pairs() -> Vec<(Topic, &'static str)> {
    let all = || Topic::builder("all").build().expect("a good name");
    let orders = Topic::builder("orders").required_tags(["order"]).build().expect("good names");
    vec![(all(), "ledger"), (all(), "mail"), (orders, "ledger")]
}

pub(super) fn id_of(topic: &Topic, publisher: &str) -> PairId {
    PairId::new(topic.name(), publisher).expect("good names")
}

/// A process: a publishing node, and writers that use its journal. Dropping it is a crash.
pub(super) struct Node {
    pub(super) line: Line,
    journal: Journal<Line>,
    publishing: Publishing,
    writers: JoinSet<()>,
}

impl Node {
    /// Started as often as it takes: the database may be unavailable.
    pub(super) async fn start(line: Line, tried: &Tried, seed: u64, random: &mut Rng) -> Self {
        let journal = Journal::new(line.clone());
        loop {
            let options = PublishOptions {
                node: NodeOptions {
                    name: Some(line.node.to_string()),
                    drain_timeout: DRAIN_TIMEOUT,
                    ..NodeOptions::default()
                },
                renew: RENEW,
                lease: LEASE,
                window_rows: 40,
                ..PublishOptions::default()
            };
            let mut builder = Publishing::builder(&journal).options(options);
            for (topic, publisher) in pairs() {
                let target = Target {
                    reader: id_of(&topic, publisher).to_string().into(),
                    publisher: publisher.into(),
                    line: line.clone(),
                    tried: tried.clone(),
                    seed,
                };
                let target: Arc<dyn Sink> = Arc::new(target);
                builder = builder.pair_with(&topic, target, pair_options(random));
            }
            match builder.start().await {
                Ok(publishing) => {
                    return Self { line, journal, publishing, writers: JoinSet::new() };
                }
                Err(_) => sleep(RENEW).await,
            }
        }
    }

    /// Ends it in order.
    pub(super) async fn close(self) {
        self.publishing.close().await;
        self.line.gate.end();
    }

    /// Ends it without a word.
    pub(super) fn crash(self) {
        self.line.gate.end();
    }

    /// Lets a writer loose that makes so many transactions.
    pub(super) fn write(&mut self, transactions: usize, random: &mut Rng) {
        let (journal, gate) = (self.journal.clone(), self.line.gate.clone());
        let mut random = random.fork();
        self.writers.spawn(async move {
            for _ in 0..transactions {
                sleep(Duration::from_millis(random.u64(..1_500))).await;
                gate.pass().await;
                let append = facts(&mut random);
                // With the same ids it is there once, however often it is made.
                for _ in 0..3 {
                    if journal.append_as(&append).await.is_ok() {
                        break;
                    }
                }
            }
        });
    }
}

/// Small and impatient, so that windows overflow and nodes lose pairs within a minute.
fn pair_options(random: &mut Rng) -> PairOptions {
    PairOptions {
        interval: Duration::from_millis(300),
        batch: 4,
        mode: if random.u8(..4) == 0 { Mode::Single } else { Mode::Batch },
        publish_timeout: PUBLISH_TIMEOUT,
        retry: RetryOptions {
            base: Duration::from_millis(200),
            max: Duration::from_secs(5),
            // More than the script lets any fact fail by itself.
            max_attempts: 6,
        },
        poison: poison(random),
        ..PairOptions::default()
    }
}

/// The script lets every fact pass in the end: whatever becomes of those that do not, all are published
/// in order.
fn poison(random: &mut Rng) -> Poison {
    match random.u8(..4) {
        0 => Poison::Park,
        1 => Poison::Fail { after: Duration::from_secs(60 * 60) },
        _ => Poison::default(),
    }
}

/// Facts of one transaction.
pub(super) fn facts(random: &mut Rng) -> Append {
    let facts = (0..random.usize(1..5)).map(|_| fact(random)).collect();
    Append::new(facts, None).expect("the script stays within the limits")
}

fn fact(random: &mut Rng) -> Fact {
    let mut payload = vec![0; random.usize(..64)];
    random.fill(&mut payload);
    let event = Event::builder(TYPES[random.usize(..TYPES.len())])
        .id(EventId::from_bytes(random.u128(..).to_be_bytes()))
        // The host's clock would make every run another world.
        .occurred_at(Timestamp::from_micros(0))
        .bytes(payload)
        .build()
        .expect("the script stays within the limits");
    let tag = if random.bool() { "order" } else { "customer" };
    let tag = Tag::new(tag, random.u8(..4).to_string()).expect("a good tag");
    Fact::builder(event).tags([tag]).build().expect("the script stays within the limits")
}
