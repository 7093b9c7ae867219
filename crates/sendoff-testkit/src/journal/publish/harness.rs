use async_trait::async_trait;
use sendoff_core::Delivery;
use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{PublishStore, SettleInError};

use crate::conformance::ForeignLock;
use crate::journal::{Ending, JournalHarness};

/// What the suite needs beside a journal: what other processes and operators can do to it.
#[async_trait]
pub trait PublishHarness: JournalHarness<Store: PublishStore> {
    /// The same journal, as another process opens it.
    async fn elsewhere(&self) -> Journal<Self::Store>;

    /// Runs an operator's SQL, and says whether there is any.
    async fn sql(&self, statement: &str) -> bool;

    /// Forgets whatever came after a position, as a server does that lost its last commits: facts,
    /// the positions they had, and how far cursors were with them.
    async fn lose_after(&self, position: Position);

    /// Settles facts in a transaction of the application's whose effect is this append, and ends it; where they are
    /// refused, it is rolled back.
    async fn settle_in(&self, projecting: &Projecting) -> Result<(), SettleInError>;

    /// Locks every node's row as an operator's open `select … for update` does; `None` as below.
    async fn lock_nodes(&self) -> Option<Box<dyn ForeignLock>> {
        None
    }

    /// Locks a pair's cursor as an operator's open `update` does; `None` where rows cannot be locked one
    /// by one, and the cases about it pass unseen.
    async fn lock_cursor(&self, _pair: &PairId) -> Option<Box<dyn ForeignLock>> {
        None
    }
}

/// Facts that a publisher was given, what it makes of them, and how it ends the transaction of that.
#[derive(Debug, Clone)]
pub struct Projecting {
    /// What it was given.
    pub facts: Vec<Delivery>,
    /// What it makes of them.
    pub effect: Append,
    /// How it ends.
    pub ending: Ending,
}

/// SQL by which a database forgets whatever came after a position, but for how its numbers go on.
pub fn losing_after(position: Position) -> String {
    format!(
        "delete from journal_event where position > {position};
         delete from journal_tag where position > {position};
         update journal_cursor set last_position = {position} where last_position > {position}"
    )
}
