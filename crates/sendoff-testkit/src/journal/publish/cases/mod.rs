//! The cases. Each is what publishing promises, whatever the journal lives in.

#![allow(clippy::missing_panics_doc, reason = "a case that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

mod busy;
mod caught_up;
mod fence;
mod lead;
mod operate;
mod order;
mod pace;
mod poison;
mod progress;
mod settle_in;
mod waiting;

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::{IdleBackoff, PairId};
use sendoff_core::journal::{Fact, Position, Topic};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{
    Cursor, PairOptions, PublishOptions, PublishStore, Publishing, PublishingBuilder, Which,
};
use sendoff_engine::{NodeOptions, RetryOptions};

use super::rounds::Rounds;
use crate::journal::Latch;
use crate::wait::eventually;

pub use busy::*;
pub use caught_up::*;
pub use fence::*;
pub use lead::*;
pub use operate::*;
pub use order::*;
pub use pace::*;
pub use poison::*;
pub use progress::*;
pub use settle_in::*;
pub use waiting::*;

const HOUR: Duration = Duration::from_secs(3_600);

/// A topic that selects everything.
fn topic(name: &str) -> Topic {
    Topic::builder(name).build().unwrap()
}

fn everything() -> Topic {
    topic("everything")
}

/// A publisher's pair with everything.
fn pair(publisher: &str) -> PairId {
    PairId::new("everything", publisher).unwrap()
}

fn position(number: u64) -> Position {
    Position::new(number).unwrap()
}

/// Rounds that follow one another quickly; nobody dies of a slow machine.
fn quick() -> PublishOptions {
    PublishOptions {
        renew: Duration::from_millis(100),
        lease: Duration::from_secs(30),
        gap_interval: Duration::from_millis(2),
        node: NodeOptions { drain_timeout: Duration::from_secs(60), ..NodeOptions::default() },
        ..PublishOptions::default()
    }
}

/// A node whose silence is noticed within a second.
fn mortal() -> PublishOptions {
    PublishOptions { lease: Duration::from_secs(1), ..quick() }
}

/// Looks and retries that follow one another quickly.
fn often() -> PairOptions {
    PairOptions {
        interval: Duration::from_millis(20),
        idle: IdleBackoff::OFF,
        retry: RetryOptions {
            base: Duration::from_millis(5),
            max: Duration::from_millis(50),
            ..RetryOptions::default()
        },
        ..PairOptions::default()
    }
}

fn builder<S: PublishStore>(journal: &Journal<S>) -> PublishingBuilder<S> {
    Publishing::builder(journal).options(quick())
}

/// A node with these publishers, each of which gets everything.
async fn node<S: PublishStore>(journal: &Journal<S>, latches: &[&Latch]) -> Publishing {
    node_with(builder(journal), latches).await
}

async fn node_with<S: PublishStore>(
    builder: PublishingBuilder<S>,
    latches: &[&Latch],
) -> Publishing {
    let add = |builder: PublishingBuilder<S>, latch: &&Latch| {
        builder.pair_with(&everything(), latch.publisher(), often())
    };
    latches.iter().fold(builder, add).start().await.unwrap()
}

/// A node with one publisher of everything, and how often it has looked at the tables.
async fn watched<S: PublishStore>(
    journal: &Journal<S>,
    latches: &[&Latch],
) -> (Publishing, Arc<Rounds>) {
    let rounds = Rounds::new();
    (node_with(builder(journal).metrics(rounds.clone()), latches).await, rounds)
}

fn fact(number: usize) -> Fact {
    Fact::builder(("moved", "{}")).tag("wallet", number % 3).build().unwrap()
}

/// Appends so many facts, a few at a time.
async fn append<S: PublishStore>(journal: &Journal<S>, count: usize) {
    let facts: Vec<_> = (0..count).map(fact).collect();
    for some in facts.chunks(50) {
        journal.append(some.to_vec()).await.unwrap();
    }
}

async fn cursor<S: PublishStore>(journal: &Journal<S>, publisher: &str) -> Cursor {
    let which = Which::pair(&pair(publisher));
    journal.publishers().cursors(&which).await.unwrap().remove(0)
}

/// Waits until a cursor is stored at a position.
async fn stored<S: PublishStore>(journal: &Journal<S>, publisher: &str, position: u64) {
    let what = format!("{publisher} at {position}");
    let there = async || cursor(journal, publisher).await.position.get() == position;
    eventually(&what, there).await;
}

fn numbers(range: impl IntoIterator<Item = u64>) -> Vec<u64> {
    range.into_iter().collect()
}
