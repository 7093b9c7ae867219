//! Carrying out commands under the locks of what they decide by.

use std::time::Duration;

use sendoff_core::journal::{Append, Fact, Position};
use sendoff_core::limits;
use tokio::sync::MutexGuard;
use tokio::time::{Instant, timeout};

use super::error::{AppendError, DecideError, ExecuteError};
use super::execute::{Executed, FIRST_PAUSE, TRIES, rest};
use super::handle::{Journal, apply};
use super::model::{Decided, Model};
use super::pages::Pages;
use super::shelf::{Known, Subject};
use super::store::{Basis, JournalStore, Locked, LockedDecision, Receipt};
use crate::store::StoreError;

/// By then servers have found out that two wait for one another, and ended one of them.
const DEADLOCK: Duration = Duration::from_secs(2);

/// What makes it the caller's turn, for as long as it is kept.
enum Turn<'j> {
    /// Locks in the database, and what was read under them, unless it is too much to be kept.
    Locked { transaction: Box<dyn LockedDecision + 'j>, known: Option<Known> },
    /// Where there are none: nobody else decides through this journal.
    Here(MutexGuard<'j, ()>),
}

impl Turn<'_> {
    /// What to keep for the next one.
    fn known(&mut self) -> Option<Known> {
        match self {
            Self::Locked { known, .. } => known.take(),
            Self::Here(_) => None,
        }
    }
}

/// Why a decision by what this process knows was not the one.
enum Unproved {
    /// It is one that changes nothing, or none: whether it is right only the journal can say.
    Look,
    /// Others have appended, or are about to; and how long the decision took.
    Stale { took: Duration, last: AppendError },
    /// The append failed.
    Failed(AppendError),
}

impl<S: JournalStore> Journal<S> {
    /// Decides and appends in one transaction that has locked what the model is made of: whoever else
    /// decides by the same waits for its turn, instead of losing and trying again as with
    /// [`execute`](Self::execute). For commands that often meet.
    ///
    /// The price: even those who only meet by chance wait for one another, for as long as the reading, the
    /// decision and the append take, and so do appends of what the model is made of. The decision is
    /// no future, so that nothing is awaited in it; let it be short: after three seconds the server
    /// takes the locks back. What is decided later is appended only if nobody else was quicker, and is
    /// [`Slow`](ExecuteError::Slow) otherwise. Let the model be made of all that
    /// is appended to: two of which each appends what the other decides by deadlock, the server ends
    /// one of them, and that one tries again. A process that stops in the middle has its transaction
    /// ended by the server within seconds.
    ///
    /// What a decision was made of is kept in memory (16 MiB a journal). The next one of this process about the same
    /// model is made of that at first, without locks, and appended under the condition that it is all there is; if it
    /// is not, or if the decision is to do nothing, it is made again under locks. So the decision may run more than
    /// once; and where facts were deleted meanwhile, it may still be made of them, as with [`decide`](Self::decide).
    ///
    /// SQLite and memory, which have one writer, have no locks to
    /// decide under: there the clones of this journal wait for one another, and who loses against
    /// anybody else tries again.
    ///
    /// ```
    /// use sendoff_core::journal::{Fact, Query, Tag};
    /// use sendoff_engine::journal::{Journal, MemoryJournal, fold};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let journal = Journal::new(MemoryJournal::new());
    /// let course = Tag::new("course", "c1")?;
    /// let seats = || {
    ///     fold(Query::tagged(course.clone()), 0, |taken, _| {
    ///         *taken += 1;
    ///         Ok(())
    ///     })
    /// };
    /// let done = journal
    ///     .execute_locked(seats, |seats| {
    ///         if seats.state >= 20 {
    ///             return Err("there is no seat left".into());
    ///         }
    ///         let taken = Fact::builder(("seat.taken", "{}")).tags([course.clone()]).build()?;
    ///         Ok::<_, sendoff_core::BoxError>(vec![taken])
    ///     })
    ///     .await?;
    /// assert_eq!(done.receipts.len(), 1);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the decision answers; [`Decide`](ExecuteError::Decide) with
    /// [`Busy`](DecideError::Busy) when its turn did not come in time. An append that is not answered is
    /// repeated with the same facts; where that is not answered either, the error is
    /// [in doubt](ExecuteError::is_in_doubt).
    pub async fn execute_locked<M, E>(
        &self,
        mut model: impl FnMut() -> M,
        mut decision: impl FnMut(M) -> Result<Vec<Fact>, E>,
    ) -> Result<Executed, ExecuteError<E>>
    where
        M: Model,
    {
        let begun = Instant::now();
        let first = model();
        let subject = Subject::of(&first);
        let mut place = self.shelf().turn(&subject).await;
        if let Some(known) = place.take() {
            match self.by_memory(known, first, &mut decision).await {
                Ok((receipts, known)) => {
                    if let Some(known) = known {
                        place.keep(known);
                    }
                    return Ok(Executed { receipts, tries: 1 });
                }
                Err(Unproved::Look) => {}
                Err(Unproved::Stale { took, last }) if took >= limits::DECISION => {
                    return Err(ExecuteError::Slow { took, last });
                }
                // It has waited already.
                Err(Unproved::Stale { last: AppendError::Busy(busy), .. })
                    if begun.elapsed() >= DEADLOCK =>
                {
                    return Err(ExecuteError::Decide(DecideError::Busy(busy)));
                }
                Err(Unproved::Stale { .. }) => place.others_append(),
                Err(Unproved::Failed(error)) => return Err(ExecuteError::Append(error)),
            }
        }
        let (mut pause, mut tries) = (FIRST_PAUSE, 0);
        let tries_until = Instant::now() + self.store().longest_wait();
        loop {
            tries += 1;
            let (decided, mut turn) = self.locked(model()).await.map_err(ExecuteError::Decide)?;
            let Decided { model, condition } = decided;
            let begun = Instant::now();
            let decides = decision(model);
            let took = begun.elapsed();
            let append = match decides {
                Ok(facts) if facts.is_empty() => Ok(None),
                Ok(facts) => self
                    .append_of(facts, Some(condition))
                    .map(Some)
                    .map_err(|invalid| ExecuteError::Append(invalid.into())),
                Err(refused) => Err(ExecuteError::Handler(refused)),
            };
            let known = turn.known().map(|known| place.compared(known));
            let Ok(Some(append)) = append else {
                if let Turn::Locked { transaction, .. } = turn {
                    // What does not come to its end is dropped, and so are its locks.
                    let _ = timeout(self.store().longest_wait(), transaction.release()).await;
                }
                if let Some(known) = known {
                    place.keep(known);
                }
                return append.map(|_| Executed { receipts: Vec::new(), tries });
            };
            match self.append_locked(turn, &append).await {
                Ok(receipts) => {
                    if let Some(known) = known.and_then(|known| known.with(&append, &receipts)) {
                        place.keep(known);
                    }
                    return Ok(Executed { receipts, tries });
                }
                // A deadlock, or the locks were gone.
                Err(last @ (AppendError::Conflict(_) | AppendError::Busy(_))) => {
                    if took >= limits::DECISION {
                        return Err(ExecuteError::Slow { took, last });
                    }
                    if tries >= TRIES || Instant::now() >= tries_until {
                        return Err(ExecuteError::Contended { tries, last });
                    }
                }
                Err(error) => return Err(ExecuteError::Append(error)),
            }
            pause = rest(pause).await;
        }
    }

    /// Decides by what is known of the model, and appends under the condition that it is all there is: one
    /// round trip, in which nobody waits for the decision.
    async fn by_memory<M, E>(
        &self,
        known: Known,
        mut model: M,
        decision: &mut impl FnMut(M) -> Result<Vec<Fact>, E>,
    ) -> Result<(Vec<Receipt>, Option<Known>), Unproved>
    where
        M: Model,
    {
        for fact in known.facts() {
            apply(&mut model, fact).map_err(|_| Unproved::Look)?;
        }
        let begun = Instant::now();
        let facts = decision(model).map_err(|_| Unproved::Look)?;
        let took = begun.elapsed();
        let append = self.append_of(facts, Some(known.condition())).map_err(|_| Unproved::Look)?;
        let answer = match self.append_as(&append).await {
            Err(error) if error.is_in_doubt() => self.find_out(&append).await,
            // It was there before: whether the decision is right to want it again only the journal can say.
            Ok(receipts) if !receipts.iter().all(|receipt| receipt.fresh) => {
                return Err(Unproved::Look);
            }
            answer => answer,
        };
        match answer {
            Ok(receipts) => {
                let known = known.with(&append, &receipts);
                Ok((receipts, known))
            }
            Err(AppendError::Store(StoreError::Busy(_))) => Err(Unproved::Look),
            Err(last @ (AppendError::Conflict(_) | AppendError::Busy(_))) => {
                Err(Unproved::Stale { took, last })
            }
            Err(error) => Err(Unproved::Failed(error)),
        }
    }

    /// The model as it is while it is the caller's turn.
    async fn locked<M: Model>(&self, mut model: M) -> Result<(Decided<M>, Turn<'_>), DecideError> {
        let subject = Subject::of(&model);
        let Subject { query, closing } = &subject;
        query.check()?;
        let mut pages = Pages::up_to(Position::END);
        let first = pages.page(Position::START);
        let basis = Basis { query, closing: closing.as_ref(), page: first };
        let lock = self.store().lock(basis);
        let Some(locked) = self.bounded(lock).await? else {
            let turn = timeout(self.store().longest_wait(), self.turn().lock()).await;
            let turn = turn.map_err(|late| DecideError::Busy(late.into()))?;
            return Ok((self.decide(model).await?, Turn::Here(turn)));
        };
        let Locked { mut mark, mut found, mut transaction } = locked;
        let mut known = Some(Known::of(subject.clone()));
        loop {
            for fact in &found.facts {
                apply(&mut model, fact)?;
                mark.position = mark.position.max(fact.position);
            }
            let after = pages.turned(&found);
            known = known.and_then(|known| known.and(found.facts));
            let Some(after) = after else { break };
            found = self.bounded(transaction.read(query, pages.page(after))).await?;
        }
        let known = known.and_then(|known| known.up_to(mark));
        let condition = subject.query.none_after(mark.position).read_in(mark.run);
        Ok((Decided { model, condition }, Turn::Locked { transaction, known }))
    }

    async fn append_locked(
        &self,
        turn: Turn<'_>,
        append: &Append,
    ) -> Result<Vec<Receipt>, AppendError> {
        let transaction = match turn {
            Turn::Locked { transaction, .. } => transaction,
            Turn::Here(_turn) => return self.append_surely(append).await,
        };
        match self.bounded(transaction.append(append)).await {
            // Whether it is there nobody knows. The condition says whether it still may be.
            Err(error) if error.is_in_doubt() => self.find_out(append).await,
            answer => {
                if answer.is_ok() {
                    self.wake();
                }
                answer
            }
        }
    }
}
