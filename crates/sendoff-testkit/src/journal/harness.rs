//! What the journal suite needs of a store.

use std::future::Future;
use std::sync::mpsc;
use std::time::Duration;

use sendoff_core::journal::publish::PairId;
use sendoff_core::journal::{Append, Position};
use sendoff_engine::capture::{CursorMove, JoinError, Part};
use sendoff_engine::journal::publish::PublishStore;
use sendoff_engine::journal::retain::RetainJournalStore;
use sendoff_engine::journal::{AppendError, Journal, JournalStore, Receipt};

/// What an append was answered.
pub type Appended = Result<Vec<Receipt>, AppendError>;

/// What the appends of a transaction were answered, one after the other.
pub type Answers = Vec<Appended>;

/// What the suite needs to put a journal through its cases: an empty one, and transactions.
///
/// Make a fresh one for each case; cases run side by side.
pub trait JournalHarness: Send + Sync + 'static {
    /// The store.
    type Store: JournalStore;

    /// The journal under test.
    fn journal(&self) -> &Journal<Self::Store>;

    /// Carries these steps out in one transaction of the application's, and ends it. Answers what each
    /// append was answered.
    ///
    /// # Panics
    ///
    /// Where anything but an append fails.
    fn transact(&self, steps: &[Deed], ending: Ending) -> impl Future<Output = Answers> + Send;

    /// Appends in a transaction of the application's, leaves it open for so long, and ends it.
    fn append_in(
        &self,
        append: &Append,
        open: Duration,
        ending: Ending,
    ) -> impl Future<Output = Appended> + Send {
        let steps = [Deed::Append(append.clone()), Deed::Wait(open)];
        async move { self.transact(&steps, ending).await.remove(0) }
    }
}

/// What happens in a transaction.
#[derive(Debug, Clone)]
pub enum Deed {
    /// Facts are appended.
    Append(Append),
    /// A statement of the application's, which answers nothing.
    Sql(&'static str),
    /// A pair's cursor is moved.
    Move(Moving),
    /// Nothing, for so long.
    Wait(Duration),
}

/// A move of a pair's cursor, and who is told whether it was made.
#[derive(Debug, Clone)]
pub struct Moving {
    /// The pair.
    pub pair: PairId,
    /// Who leads it.
    pub owner: &'static str,
    /// Under which epoch.
    pub epoch: i64,
    /// From where, and where to.
    pub way: (Position, Position),
    /// Is told.
    pub told: mpsc::Sender<Result<bool, JoinError>>,
}

impl Moving {
    /// The part of the transaction that it is.
    pub fn part(&self) -> Part<'_> {
        let Self { ref pair, owner, epoch, way: (from, to), .. } = *self;
        Part::Moved(CursorMove { pair, owner, epoch, from, to })
    }
}

/// Carries [steps](Deed) out on a driver's transaction, which runs SQL by what is given last, and is
/// what the appends were answered. Ends it, where it is told how.
#[macro_export]
macro_rules! carry_out {
    ($steps:expr, $ending:expr, $store:expr, $tx:ident, |$sql:ident| $run:expr) => {{
        let answers = $crate::carry_out!($steps, $store, $tx, |$sql| $run);
        match $ending {
            $crate::journal::Ending::Commit => $tx.commit().await.unwrap(),
            $crate::journal::Ending::RollBack => $tx.rollback().await.unwrap(),
        }
        answers
    }};
    ($steps:expr, $store:expr, $tx:ident, |$sql:ident| $run:expr) => {{
        let mut answers = Vec::new();
        for step in $steps {
            match step {
                $crate::journal::Deed::Append(append) => {
                    answers.push($store.append_in(&mut $tx, append).await);
                }
                $crate::journal::Deed::Sql($sql) => drop($run.await.unwrap()),
                $crate::journal::Deed::Move(moving) => {
                    let joins = ::sendoff_engine::journal::publish::JoinJournal::joins($store);
                    let (joins, part) = (joins.unwrap(), moving.part());
                    let moved = ::sendoff_engine::capture::Join::join(joins, &mut $tx, &part);
                    moving.told.send(moved.await).unwrap();
                }
                $crate::journal::Deed::Wait(time) => ::tokio::time::sleep(*time).await,
            }
        }
        answers
    }};
}

/// How a transaction ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// With what was done in it.
    Commit,
    /// As if it had never been.
    RollBack,
}

/// A harness whose journal lets facts go. Nothing else is needed.
pub trait RetainHarness: JournalHarness<Store: RetainJournalStore + PublishStore + Clone> {}

impl<H> RetainHarness for H
where
    H: JournalHarness,
    H::Store: RetainJournalStore + PublishStore + Clone,
{
}
