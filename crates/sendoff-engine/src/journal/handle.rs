//! The handle of a journal: appending, reading, deciding, tailing.

use std::fmt;
use std::sync::Arc;

use futures_util::stream::Stream;
use sendoff_core::journal::{
    Append, Condition, Fact, Holder, IntoFact, Invalid, Position, Query, Recorded, Tail,
};
use tokio::sync::{Mutex, Notify, watch};

use super::error::{AppendError, DecideError};
use super::model::{Decided, Model};
use super::pages::{Pages, pages};
use super::publish::{SettlingRuns, Surveys};
use super::shelf::Shelf;
use super::store::{AppendIn, AppendInBlocking, Basis, JournalStore, Mark, Receipt};
use super::tail::{TailOptions, TailReader};
use crate::sink::{Tracer, Traces};
use crate::store::{StoreError, within};

/// A journal. Cheap to clone.
///
/// Every call that waits for the database ends: after the store's
/// [`longest_wait`](JournalStore::longest_wait) (its `patience` and its `store_timeout`, 15 s by default)
/// it answers [`Timeout`](StoreError::Timeout). Whether an append is there is not known then
/// ([`AppendError::is_in_doubt`]): repeated with the same ids it is there once.
pub struct Journal<S>(Arc<Shared<S>>);

struct Shared<S> {
    store: S,
    appended: Arc<Notify>,
    operated: watch::Sender<()>,
    turn: Mutex<()>,
    shelf: Shelf,
    surveys: Arc<Surveys>,
    runs: Arc<SettlingRuns>,
    traces: Traces,
}

impl<S: JournalStore> Journal<S> {
    /// The journal in this store.
    pub fn new(store: S) -> Self {
        Self::with(store, Traces::default())
    }

    /// The same, whose facts are written in the application's traces.
    pub fn traced(store: S, tracer: impl Tracer) -> Self {
        Self::with(store, Traces::by(tracer))
    }

    fn with(store: S, traces: Traces) -> Self {
        let (appended, operated) = (Arc::new(Notify::new()), watch::Sender::new(()));
        Self(Arc::new(Shared {
            store,
            appended,
            operated,
            turn: Mutex::new(()),
            shelf: Shelf::default(),
            surveys: Arc::default(),
            runs: Arc::default(),
            traces,
        }))
    }

    /// Its store.
    pub fn store(&self) -> &S {
        &self.0.store
    }

    /// Appends facts together, in a transaction of their own.
    ///
    /// ```
    /// use sendoff_core::journal::Fact;
    /// use sendoff_engine::journal::{Journal, MemoryJournal};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let journal = Journal::new(MemoryJournal::new());
    /// let opened = Fact::builder(("wallet.opened", "{}")).tag("wallet_id", "w1");
    /// let receipts = journal.append([opened]).await?;
    /// assert_eq!(receipts[0].position.get(), 1);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn append<F: IntoFact>(
        &self,
        facts: impl IntoIterator<Item = F>,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_as(&self.append_of(checked(facts)?, None)?).await
    }

    /// Appends facts together if the condition holds, in a transaction of their own.
    pub async fn append_if<F: IntoFact>(
        &self,
        facts: impl IntoIterator<Item = F>,
        condition: Condition,
    ) -> Result<Vec<Receipt>, AppendError> {
        self.append_as(&self.append_of(checked(facts)?, Some(condition))?).await
    }

    /// Appends what was checked before, in a transaction of its own.
    pub async fn append_as(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        let receipts = self.bounded(self.0.store.append(append)).await?;
        self.wake();
        Ok(receipts)
    }

    /// Appends facts in a transaction of the caller's, under a condition or none. They are there when
    /// it commits.
    ///
    /// Their tags and types stay locked until then, so keep it short: decisions about them wait.
    /// Two appends in one transaction take two sets of locks, and may deadlock with another
    /// transaction's; the database ends one of them, and the answer is
    /// [`Busy`](AppendError::Busy).
    pub async fn append_in<Tx, F: IntoFact>(
        &self,
        tx: &mut Tx,
        facts: impl IntoIterator<Item = F>,
        condition: Option<Condition>,
    ) -> Result<Vec<Receipt>, AppendError>
    where
        Tx: ?Sized,
        S: AppendIn<Tx>,
    {
        let append = self.append_of(checked(facts)?, condition)?;
        self.0.store.append_in(tx, &append).await
    }

    /// [`append_in`](Self::append_in) for a driver that blocks.
    pub fn append_in_blocking<Tx, F: IntoFact>(
        &self,
        tx: &Tx,
        facts: impl IntoIterator<Item = F>,
        condition: Option<Condition>,
    ) -> Result<Vec<Receipt>, AppendError>
    where
        Tx: ?Sized,
        S: AppendInBlocking<Tx>,
    {
        let append = self.append_of(checked(facts)?, condition)?;
        self.0.store.append_in_blocking(tx, &append)
    }

    /// These facts, in the trace that is going on, where there is one.
    pub(super) fn append_of(
        &self,
        mut facts: Vec<Fact>,
        condition: Option<Condition>,
    ) -> Result<Append, Invalid> {
        if let Some(trace) = self.0.traces.current() {
            facts = facts.into_iter().map(|fact| fact.traced(&trace)).collect();
        }
        Append::new(facts, condition)
    }

    /// Tells the tails of this process that there may be something new: after the commit of a
    /// transaction that was appended in. Without it they find it at their next look.
    pub fn wake(&self) {
        self.0.appended.notify_waiters();
    }

    /// Waits for the database no longer than its store says.
    pub(super) async fn bounded<T, E: From<StoreError>>(
        &self,
        call: impl Future<Output = Result<T, E>>,
    ) -> Result<T, E> {
        within(self.0.store.longest_wait(), call).await
    }

    /// Whoever decides here by itself, where the store has no locks to decide under.
    pub(super) fn turn(&self) -> &Mutex<()> {
        &self.0.turn
    }

    /// What decisions under locks were made of.
    pub(super) fn shelf(&self) -> &Shelf {
        &self.0.shelf
    }

    /// Looks at the cursors, for all who wait for a pair.
    pub(super) fn surveys(&self) -> &Arc<Surveys> {
        &self.0.surveys
    }

    /// Runs whose publishers settle facts in transactions of their own.
    pub(super) fn runs(&self) -> &Arc<SettlingRuns> {
        &self.0.runs
    }

    /// What [`wake`](Self::wake) tells.
    pub(super) fn appended(&self) -> &Arc<Notify> {
        &self.0.appended
    }

    /// Told when an operator has changed something about publishers through this journal, so that the
    /// nodes of this process need not wait for their next round.
    pub(super) fn operated(&self) -> &watch::Sender<()> {
        &self.0.operated
    }

    /// What the query means above a position, as far as it is visible now.
    ///
    /// For looking, not for deciding: something with a lower position may still commit. A decision is
    /// read by [`decide`](Self::decide), and what must see everything reads a
    /// [`tail`](Self::tail).
    pub fn read(
        &self,
        query: Query,
        after: Position,
    ) -> impl Stream<Item = Result<Recorded, StoreError>> + Send {
        pages(&self.0.store, query, None, after, Position::END)
    }

    /// Reads everything a model asks for, and the condition under which it stays true.
    ///
    /// Nothing is missed: appends that are open and could matter are waited for, and whatever is
    /// appended afterwards does not fit the condition.
    pub async fn decide<M: Model>(&self, mut model: M) -> Result<Decided<M>, DecideError> {
        let query = model.query();
        query.check()?;
        let Mark { position: mark, run } = self.bounded(self.0.store.mark(&query)).await?;
        let (store, mut pages) = (&self.0.store, Pages::up_to(mark));
        let (mut closing, mut next) = (model.closing(), Some(Position::START));
        while let Some(after) = next.filter(|after| *after < mark) {
            let (closing, page) = (closing.take(), pages.page(after));
            let basis = Basis { query: &query, closing: closing.as_ref(), page };
            let found = self.bounded(store.read_from_last(basis)).await?;
            // What one server has read says nothing of what another has.
            if run.zip(found.run).is_some_and(|(mark, page)| mark != page) {
                return Err(StoreError::Unavailable(OtherServer.into()).into());
            }
            for fact in &found.facts {
                apply(&mut model, fact)?;
            }
            next = pages.turned(&found);
        }
        Ok(Decided { model, condition: query.none_after(mark).read_in(run) })
    }

    /// Everything above a position, in order, as it becomes certain.
    pub async fn tail(
        &self,
        after: Position,
        options: TailOptions,
    ) -> Result<TailReader, StoreError> {
        self.open(Tail::after(after), options).await
    }

    /// Everything that is appended from now on.
    pub async fn tail_from_now(&self, options: TailOptions) -> Result<TailReader, StoreError> {
        self.open(Tail::from_now(), options).await
    }

    async fn open(&self, tail: Tail, options: TailOptions) -> Result<TailReader, StoreError> {
        let source = self.bounded(self.0.store.tail()).await?;
        let wait = self.0.store.longest_wait();
        Ok(TailReader::new(source, tail, options, wait, Arc::clone(&self.0.appended)))
    }

    /// The highest position that was taken.
    pub async fn head(&self) -> Result<Position, StoreError> {
        self.bounded(self.0.store.head()).await
    }

    /// Whoever may hold a tail back at this moment: transactions that have appended and are not over.
    pub async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        self.bounded(self.0.store.holders()).await
    }
}

/// Sessions of one journal ended up at two servers.
#[derive(Debug, thiserror::Error)]
#[error("two servers answered, or one that was started meanwhile; decide again")]
struct OtherServer;

/// Takes a fact into account.
pub(super) fn apply(model: &mut impl Model, fact: &Recorded) -> Result<(), DecideError> {
    let position = fact.position;
    model.apply(fact).map_err(|source| DecideError::Model { position, source })
}

fn checked<F: IntoFact>(facts: impl IntoIterator<Item = F>) -> Result<Vec<Fact>, Invalid> {
    facts.into_iter().map(IntoFact::into_fact).collect()
}

impl<S> Clone for Journal<S> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<S: fmt::Debug> fmt::Debug for Journal<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Journal").field("store", &self.0.store).finish_non_exhaustive()
    }
}
