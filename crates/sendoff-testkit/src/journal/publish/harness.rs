use async_trait::async_trait;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::PairId;
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::PublishStore;

use crate::conformance::ForeignLock;
use crate::journal::JournalHarness;

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

/// SQL by which a database forgets whatever came after a position, but for how its numbers go on.
pub fn losing_after(position: Position) -> String {
    format!(
        "delete from journal_event where position > {position};
         delete from journal_tag where position > {position};
         update journal_cursor set last_position = {position} where last_position > {position}"
    )
}
