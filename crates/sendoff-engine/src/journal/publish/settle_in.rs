//! Settling facts in the transaction of their effect: a projection and the cursor of its pair commit together.
//!
//! A run is in the table below as long as its publisher works. What it settles is only *to be* settled: the cursor
//! says what became of it, and the node asks that when the run is over.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};

use sendoff_core::Delivery;
use sendoff_core::journal::publish::{PairId, PublishRun};
use sendoff_core::journal::{Position, Recorded};

use super::store::PublishStore;
use crate::capture::{CursorMove, Join, JoinBlocking, JoinError, Part};
use crate::journal::handle::Journal;
use crate::lock::lock;

/// Why facts were not settled in a transaction. Roll that back, and fail: they come again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SettleInError {
    /// No publisher of this journal that settles facts in transactions of its own runs with it now: its pair has
    /// no [`settles_in`](super::PairOptions::settles_in), its run is over, or it was parked and is tried again.
    #[error(
        "no publisher of this journal that settles in its transactions runs with this event now"
    )]
    NotRunning,
    /// It would pass over facts of the run that nobody settled.
    #[error(
        "the fact at {position} does not follow what its run has settled: settle a run from its first fact on"
    )]
    OutOfTurn {
        /// The first of those that were to be settled.
        position: Position,
    },
    /// The publisher is one of several ([`fan_out`](crate::fan_out)), and would settle for the others too.
    #[error("the publisher is one of several, and would settle for all of them")]
    Shared,
    /// Another node leads the pair, or its cursor is somewhere else: an operator put it there, or the same facts
    /// were settled already.
    #[error("the pair {0} is another node's, or its cursor was moved")]
    Fenced(PairId),
    /// The database did not carry it out.
    #[error(transparent)]
    Join(#[from] JoinError),
}

/// A journal whose cursors can be moved in the transactions of the application.
pub trait JoinJournal: PublishStore {
    /// What takes part in them.
    type Store;

    /// The same, while the journal is open.
    ///
    /// # Errors
    ///
    /// [`JoinError::Closed`].
    fn joins(&self) -> Result<&Self::Store, JoinError>;
}

/// A journal that is shared.
impl<S: JoinJournal> JoinJournal for Arc<S> {
    type Store = S::Store;

    fn joins(&self) -> Result<&S::Store, JoinError> {
        (**self).joins()
    }
}

impl<S: PublishStore> Journal<S> {
    /// Moves the cursor of the pair past these facts in `tx`, the transaction of their effect: both commit, or
    /// neither does. So a projection is exact: each fact is in it once, in the order of positions, whatever crashes.
    ///
    /// Call it in a publisher whose pair has [`settles_in`](super::PairOptions::settles_in), with the facts of its
    /// batch, or the first of them, and a transaction in the database of the journal; commit after it. Where `tx`
    /// commits, they never come again, whatever the publisher says afterwards. Where it does not, they do, and a
    /// publisher that says that it succeeded is taken to have failed.
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use sendoff_core::journal::{Fact, Topic};
    /// use sendoff_core::{Delivery, Event};
    /// use sendoff_engine::journal::publish::{PairOptions, Publishing};
    /// use sendoff_engine::journal::{Journal, MemoryJournal};
    /// use sendoff_engine::sink::{BatchSink, StatisticsSink};
    /// use sendoff_engine::Outbox;
    /// use sendoff_engine::memory::MemoryStore;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let (journal, store) = (Journal::new(MemoryJournal::new()), MemoryStore::new());
    /// let (facts, outbox) = (journal.clone(), Outbox::writer_only(store.clone()));
    /// let (told, mut done) = tokio::sync::mpsc::unbounded_channel();
    /// let project = BatchSink::new("project", move |batch: Vec<Delivery>| {
    ///     let (facts, outbox, store, told) =
    ///         (facts.clone(), outbox.clone(), store.clone(), told.clone());
    ///     async move {
    ///         let mut tx = store.transaction()?;
    ///         let seen = |fact: &_| Event::json("seen", &Delivery::position(fact).map(|at| at.get()));
    ///         let seen = batch.iter().map(seen).collect::<Result<Vec<_>, _>>()?;
    ///         let staged = outbox.write_all(&mut tx, seen).await?;
    ///         facts.settle_in(&batch, &mut tx).await?;
    ///         tx.commit()?;
    ///         staged.release();
    ///         told.send(batch.len())?;
    ///         Ok(())
    ///     }
    /// });
    /// let settles = PairOptions { settles_in: true, ..PairOptions::default() };
    /// let wallets = Topic::builder("wallets").build()?;
    /// journal.append([Fact::builder(("opened", "{}"))]).await?;
    /// let publishing =
    ///     Publishing::builder(&journal).pair_with(&wallets, Arc::new(project), settles).start().await?;
    /// assert_eq!(done.recv().await, Some(1));
    /// publishing.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// Whatever it is, roll `tx` back and fail.
    pub async fn settle_in<Tx: ?Sized>(
        &self,
        facts: &[Delivery],
        tx: &mut Tx,
    ) -> Result<(), SettleInError>
    where
        S: JoinJournal,
        S::Store: Join<Tx>,
    {
        let Some(step) = self.runs().step(facts)? else { return Ok(()) };
        step.made(self.store().joins()?.join(tx, &step.part()).await)
    }

    /// [`settle_in`](Self::settle_in) for a driver that blocks.
    ///
    /// # Errors
    ///
    /// As there.
    pub fn settle_in_blocking<Tx: ?Sized>(
        &self,
        facts: &[Delivery],
        tx: &Tx,
    ) -> Result<(), SettleInError>
    where
        S: JoinJournal,
        S::Store: JoinBlocking<Tx>,
    {
        let Some(step) = self.runs().step(facts)? else { return Ok(()) };
        step.made(self.store().joins()?.join_blocking(tx, &step.part()))
    }
}

/// The runs of a process whose publishers settle facts in transactions of their own.
#[derive(Debug, Default)]
pub(in crate::journal) struct SettlingRuns(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    last: u64,
    runs: BTreeMap<u64, Known>,
}

/// What is known of a run.
#[derive(Debug)]
struct Known {
    owner: Arc<str>,
    epoch: i64,
    /// Where the cursor was when it began.
    stored: Position,
    facts: Vec<Position>,
    /// How many of its facts each transaction was to settle.
    settled: BTreeSet<usize>,
}

/// A run that is under way. Dropped, it is over.
#[derive(Debug)]
pub(super) struct Settling {
    runs: Arc<SettlingRuns>,
    pub(super) run: Arc<PublishRun>,
}

/// Whose run it is, and from where.
#[derive(Debug)]
pub(super) struct Leads {
    pub(super) pair: Arc<PairId>,
    pub(super) owner: Arc<str>,
    pub(super) epoch: i64,
    /// Where the cursor is stored, and nothing is on its way.
    pub(super) stored: Position,
}

/// What a transaction is to do to a cursor.
#[derive(Debug)]
struct Step {
    pair: Arc<PairId>,
    owner: Arc<str>,
    epoch: i64,
    from: Position,
    to: Position,
}

impl SettlingRuns {
    /// A run begins with these facts.
    pub(super) fn begin(self: &Arc<Self>, leads: Leads, facts: &[Arc<Recorded>]) -> Settling {
        let Leads { pair, owner, epoch, stored } = leads;
        let facts = facts.iter().map(|fact| fact.position).collect();
        let mut table = lock(&self.0);
        table.last += 1;
        let number = table.last;
        let settled = BTreeSet::new();
        table.runs.insert(number, Known { owner, epoch, stored, facts, settled });
        Settling { runs: Arc::clone(self), run: Arc::new(PublishRun { pair, number }) }
    }

    /// What settling these facts is to the cursor of their pair; nothing, where there are none.
    fn step(&self, facts: &[Delivery]) -> Result<Option<Step>, SettleInError> {
        let Some(first) = facts.first() else { return Ok(None) };
        if first.is_for_one_of_several() {
            return Err(SettleInError::Shared);
        }
        let run = first.publish_run().ok_or(SettleInError::NotRunning)?;
        let mut table = lock(&self.0);
        let known = table.runs.get_mut(&run.number).ok_or(SettleInError::NotRunning)?;
        let begin = first.position().and_then(|at| known.facts.binary_search(&at).ok());
        let begin = begin.ok_or(SettleInError::NotRunning)?;
        let end = begin + facts.len();
        let those = facts.iter().map(Delivery::position);
        let follows = begin == 0 || known.settled.contains(&begin);
        let in_order =
            those.eq(known.facts.iter().skip(begin).take(facts.len()).copied().map(Some));
        let Some(&to) = known.facts.get(end - 1).filter(|_| follows && in_order) else {
            return Err(SettleInError::OutOfTurn { position: known.facts[begin] });
        };
        let from = begin.checked_sub(1).map_or(known.stored, |before| known.facts[before]);
        // Before it is asked for: an answer that is lost must not be one that nobody looks for.
        known.settled.insert(end);
        let (pair, owner) = (Arc::clone(&run.pair), Arc::clone(&known.owner));
        Ok(Some(Step { pair, owner, epoch: known.epoch, from, to }))
    }
}

impl Step {
    fn part(&self) -> Part<'_> {
        let Self { pair, owner, epoch, from, to } = self;
        Part::Moved(CursorMove { pair, owner, epoch: *epoch, from: *from, to: *to })
    }

    fn made(&self, answer: Result<bool, JoinError>) -> Result<(), SettleInError> {
        match answer? {
            true => Ok(()),
            false => Err(SettleInError::Fenced((*self.pair).clone())),
        }
    }
}

impl Settling {
    /// It is over. How many of its facts each of its transactions was to settle, the fewest first.
    pub(super) fn end(self) -> Vec<usize> {
        let known = lock(&self.runs.0).runs.remove(&self.run.number);
        known.map_or_else(Vec::new, |known| known.settled.into_iter().collect())
    }
}

impl Drop for Settling {
    fn drop(&mut self) {
        lock(&self.runs.0).runs.remove(&self.run.number);
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::Timestamp;
    use sendoff_core::journal::Fact;

    use super::*;

    fn at(number: u64) -> Position {
        Position::new(number).unwrap()
    }

    /// A run with the facts at 3, 5, 7 and 9, where the cursor is at 2.
    fn run() -> (Arc<SettlingRuns>, Settling, Vec<Delivery>) {
        let runs = Arc::<SettlingRuns>::default();
        let facts = [3, 5, 7, 9].map(|number| {
            let fact = Fact::builder(("a", "{}")).build().unwrap();
            let recorded_at = Timestamp::from_micros(0);
            Arc::new(Recorded { position: at(number), recorded_at, fact })
        });
        let pair = Arc::new(PairId::new("t", "p").unwrap());
        let leads = Leads { pair, owner: "n".into(), epoch: 4, stored: at(2) };
        let settling = runs.begin(leads, &facts);
        let delivery = |fact| Delivery::of_fact(fact, 1).in_run(&settling.run);
        let deliveries = facts.iter().map(delivery).collect();
        (runs, settling, deliveries)
    }

    #[test]
    fn each_transaction_moves_the_cursor_from_where_the_one_before_put_it() {
        let (runs, settling, facts) = run();
        let step = |facts| {
            let step = runs.step(facts).unwrap().unwrap();
            (step.from.get(), step.to.get())
        };
        assert_eq!(step(&facts[..1]), (2, 3));
        assert_eq!(step(&facts[1..3]), (3, 7));
        assert_eq!(step(&facts[1..2]), (3, 5), "its transaction was rolled back");
        assert_eq!(step(&facts[..]), (2, 9), "or both were");
        assert!(runs.step(&[]).unwrap().is_none());
        assert_eq!(settling.end(), [1, 2, 3, 4]);
    }

    #[test]
    fn nothing_is_passed_over() {
        let (runs, settling, facts) = run();
        let swapped = [facts[1].clone(), facts[0].clone()];
        let hole = [facts[0].clone(), facts[2].clone()];
        for (wrong, position) in [(&facts[1..], 5), (&swapped[..], 5), (&hole[..], 3)] {
            let error = runs.step(wrong).unwrap_err();
            assert!(
                matches!(error, SettleInError::OutOfTurn { position: first } if first == at(position)),
                "{error:?}"
            );
        }
        assert_eq!(settling.end(), [0_usize; 0]);
    }

    #[test]
    fn what_does_not_run_is_not_settled() {
        let (runs, settling, facts) = run();
        let refused = |facts: &[Delivery]| {
            let error = runs.step(facts).unwrap_err();
            assert!(matches!(error, SettleInError::NotRunning), "{error:?}");
        };
        let parked = Delivery::of_fact(facts[0].fact().unwrap(), 2);
        refused(&[parked]);
        drop(settling);
        refused(&facts);
    }
}
