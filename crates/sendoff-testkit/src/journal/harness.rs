use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::journal::publish::{CursorStatus, PairId};
use sendoff_core::journal::{Append, Position};
use sendoff_engine::journal::retain::RetainJournalStore;
use sendoff_engine::journal::{AppendError, Journal, JournalStore, Receipt};

/// What the suite needs to put a journal through its cases: an empty one, and transactions.
///
/// Make a fresh one for each case; cases run side by side.
#[async_trait]
pub trait JournalHarness: Send + Sync + 'static {
    /// The store.
    type Store: JournalStore;

    /// The journal under test.
    fn journal(&self) -> &Journal<Self::Store>;

    /// Appends in a transaction of the application's, leaves it open for so long, and ends it.
    async fn append_in(
        &self,
        append: &Append,
        open: Duration,
        ending: Ending,
    ) -> Result<Vec<Receipt>, AppendError>;
}

/// What the cases about transactions need: a driver that carries out what it is told.
#[async_trait]
pub trait TransactionHarness: JournalHarness {
    /// Carries these steps out in one transaction of the application's, and ends it. Answers what each
    /// append was answered.
    ///
    /// # Panics
    ///
    /// Where anything but an append fails.
    async fn transact(
        &self,
        steps: &[Deed],
        ending: Ending,
    ) -> Vec<Result<Vec<Receipt>, AppendError>>;
}

/// What happens in a transaction.
#[derive(Debug, Clone)]
pub enum Deed {
    /// Facts are appended.
    Append(Append),
    /// A statement of the application's, which answers nothing.
    Sql(&'static str),
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With what was done in it.
    Commit,
    /// As if it had never been.
    RollBack,
}

/// What the cases of retention need besides: somebody who follows the journal.
#[async_trait]
pub trait RetainHarness: JournalHarness<Store: RetainJournalStore + Clone> {
    /// Puts a pair's cursor somewhere, whether it is there already or not.
    async fn put_cursor(&self, pair: &PairId, position: Position, status: CursorStatus);

    /// Has a pair set a position aside, or take it back.
    async fn set_aside(&self, pair: &PairId, position: Position, aside: bool);
}
