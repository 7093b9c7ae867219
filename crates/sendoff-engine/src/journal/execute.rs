//! Carrying out commands.

use std::future::Future;
use std::time::Duration;

use sendoff_core::journal::{Append, Condition, Fact, IntoFact, Invalid};

use tokio::time::{Instant, timeout_at};

use super::error::{AppendError, ExecuteError};
use super::handle::Journal;
use super::store::{JournalStore, Receipt};
use crate::store::StoreError;

/// How often a command is tried. Who loses that often would lose again.
pub(super) const TRIES: u32 = 8;
/// The pause after losing once; it doubles, and is spread so that the losers do not meet again.
pub(super) const FIRST_PAUSE: Duration = Duration::from_millis(2);
const LONGEST_PAUSE: Duration = Duration::from_millis(200);

/// What a command's handler decided: facts, and the condition they rely on.
#[derive(Debug, Clone, Default)]
pub struct Decision {
    facts: Vec<Fact>,
    condition: Option<Condition>,
}

impl Decision {
    /// That nothing is to happen.
    pub fn nothing() -> Self {
        Self::default()
    }

    /// That these facts happen if the condition still holds.
    pub fn given(condition: Condition) -> Self {
        Self { facts: Vec::new(), condition: Some(condition) }
    }

    /// Adds a fact.
    pub fn fact(mut self, fact: impl IntoFact) -> Result<Self, Invalid> {
        self.facts.push(fact.into_fact()?);
        Ok(self)
    }
}

/// A command that was carried out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Executed {
    /// What became of each fact; none where the handler decided on none.
    pub receipts: Vec<Receipt>,
    /// How often the handler ran, but for a run of [`execute_locked`](Journal::execute_locked) by what was known
    /// that had to be made again under locks.
    pub tries: u32,
}

impl<S: JournalStore> Journal<S> {
    /// Runs a handler that reads the journal and decides, and appends what it decided on. If others
    /// were quicker (the condition does not hold any more, or they have it locked), the handler runs
    /// again, with the journal as it is then; eight times at most. Where commands meet often,
    /// [`execute_locked`](Self::execute_locked) lets them wait for one another instead.
    ///
    /// An append whose answer was lost is repeated with the same facts, and so is there once. Where that
    /// is not answered either, the error is [in doubt](ExecuteError::is_in_doubt).
    ///
    /// ```
    /// use sendoff_core::journal::{Fact, Item, Query, Tag};
    /// use sendoff_engine::journal::{Decision, Journal, MemoryJournal, fold};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    /// let journal = Journal::new(MemoryJournal::new());
    /// let open = |wallet: &'static str| {
    ///     let journal = journal.clone();
    ///     async move {
    ///         let opened = Query::of(Item::any().of_type("opened").tagged(Tag::new("id", wallet)?));
    ///         let exists = fold(opened, false, |exists, _| { *exists = true; Ok(()) });
    ///         let decided = journal.decide(exists).await?;
    ///         if decided.model.state {
    ///             return Err("it is open already".into());
    ///         }
    ///         let fact = Fact::builder(("opened", "{}")).tag("id", wallet);
    ///         Ok::<_, sendoff_core::BoxError>(Decision::given(decided.condition).fact(fact)?)
    ///     }
    /// };
    /// assert_eq!(journal.execute(|| open("w1")).await?.receipts.len(), 1);
    /// assert!(journal.execute(|| open("w1")).await.is_err());
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    ///
    /// What the handler answers; [`Contended`](ExecuteError::Contended) when it lost every time.
    pub async fn execute<F, Fut, E>(&self, mut handler: F) -> Result<Executed, ExecuteError<E>>
    where
        F: FnMut() -> Fut,
        Fut: Future<Output = Result<Decision, E>>,
    {
        let mut pause = FIRST_PAUSE;
        let mut tries = 0;
        loop {
            tries += 1;
            let Decision { facts, condition } = handler().await.map_err(ExecuteError::Handler)?;
            if facts.is_empty() {
                return Ok(Executed { receipts: Vec::new(), tries });
            }
            let append = self
                .append_of(facts, condition)
                .map_err(|invalid| ExecuteError::Append(invalid.into()))?;
            match self.append_surely(&append).await {
                Ok(receipts) => return Ok(Executed { receipts, tries }),
                Err(last @ (AppendError::Conflict(_) | AppendError::Busy(_))) => {
                    if tries >= TRIES {
                        return Err(ExecuteError::Contended { tries, last });
                    }
                }
                Err(error) => return Err(ExecuteError::Append(error)),
            }
            pause = rest(pause).await;
        }
    }

    /// Repeats an append whose end nobody knows, until it is known: one time for the append, and another
    /// to find out.
    pub(super) async fn append_surely(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let until = Instant::now() + self.store().longest_wait() * 2;
        self.append_until(until, append, false).await
    }

    /// Finds out what became of an append that was not answered.
    pub(super) async fn find_out(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let until = Instant::now() + self.store().longest_wait();
        self.append_until(until, append, true).await
    }

    async fn append_until(
        &self,
        until: Instant,
        append: &Append,
        mut in_doubt: bool,
    ) -> Result<Vec<Receipt>, AppendError> {
        let (mut pause, mut tries) = (FIRST_PAUSE, 0);
        loop {
            tries += 1;
            let late = || Err(StoreError::Timeout.into());
            let answer = timeout_at(until, self.append_as(append)).await.unwrap_or_else(|_| late());
            let again = match &answer {
                Err(AppendError::Store(StoreError::Busy(_))) => true,
                // Perhaps it waits for itself: the first time may not be over. To decide again now could
                // be to carry the command out twice.
                Err(AppendError::Busy(_)) => in_doubt,
                Err(error) => error.is_in_doubt(),
                Ok(_) => false,
            };
            in_doubt |= answer.as_ref().is_err_and(AppendError::is_in_doubt);
            if !again || tries >= TRIES || Instant::now() >= until {
                return match answer {
                    // That it does not fit any more says that it is not there: otherwise it would have been
                    // found. No other error says anything of the first time.
                    Err(AppendError::Conflict(conflict)) => Err(conflict.into()),
                    Err(error) if in_doubt && !error.is_in_doubt() => late(),
                    answer => answer,
                };
            }
            pause = rest(pause).await;
        }
    }
}

/// Waits, and says how long to wait the next time.
pub(super) async fn rest(pause: Duration) -> Duration {
    tokio::time::sleep(pause.mul_f64(0.5 + fastrand::f64())).await;
    (pause * 2).min(LONGEST_PAUSE)
}
