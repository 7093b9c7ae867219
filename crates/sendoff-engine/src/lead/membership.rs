//! What being one of the nodes asks of a database, and what it says of them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::store::StoreError;

/// A node's place among the nodes.
#[async_trait]
pub trait Membership: Send + 'static {
    /// Says that the node is alive, and waits for nobody who has locked what it would write. An error is
    /// the end of this membership: join again.
    async fn beat(&mut self) -> Result<Beat, StoreError>;

    /// Says goodbye, so that nobody has to wait for anything.
    async fn leave(self: Box<Self>) -> Result<(), StoreError>;
}

/// What became of a beat. Either way the node is alive for all others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Beat {
    /// It is written, and good for a lease.
    Written,
    /// Somebody has locked the node's row. For as long as that lasts a node counts as alive while its
    /// session is there; afterwards it had better beat soon.
    Locked,
}

/// How a node presents itself.
#[derive(Debug, Clone)]
pub struct NodeCard {
    /// Its name, and an incarnation that is new at every start.
    pub owner: Arc<str>,
    /// The keys of the seats it can work on.
    pub knows: BTreeSet<i64>,
    /// How often it says that it is alive.
    pub renew: Duration,
    /// After what silence it counts as dead, where nothing tells earlier.
    pub lease: Duration,
}

/// A node that is alive, as far as its lease says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NodeSeen {
    /// Its name and incarnation.
    pub owner: String,
    /// The keys of the seats it knows.
    pub knows: BTreeSet<i64>,
    /// From when it came until it last said that it is alive, by the store's clock.
    pub lived: Duration,
    /// Since then.
    pub silent: Duration,
}

impl NodeSeen {
    /// From what a database answers: times in microseconds, below zero where its clock stepped back.
    pub fn restore(owner: String, knows: BTreeSet<i64>, lived: i64, silent: i64) -> Self {
        let time = |micros| Duration::from_micros(u64::try_from(micros).unwrap_or(0));
        Self { owner, knows, lived: time(lived), silent: time(silent) }
    }
}
