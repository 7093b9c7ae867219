//! A journal's database that says nothing any more: whoever asks it is told so, in time.

use std::future::{Future, pending};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use async_trait::async_trait;
use futures_util::TryStreamExt;
use sendoff_core::BoxError;
use sendoff_core::journal::{Append, Fact, Holder, Position, Query, Run};
use sendoff_engine::journal::{
    AppendError, Basis, DecideError, Decision, ExecuteError, Found, Journal, JournalStore, Locked,
    LockedDecision, Mark, MemoryJournal, Model, Page, Receipt, TailOptions, TailSource, fold,
};
use sendoff_engine::store::StoreError;
use tokio::time::{Duration, Instant};

use crate::SECOND;

const WAIT: Duration = Duration::from_secs(7);

/// A journal in memory whose answers can be lost.
#[derive(Clone, Default)]
struct Mute {
    journal: MemoryJournal,
    is_silent: Arc<AtomicBool>,
    /// Appends that are carried out and not answered.
    unanswered: Arc<AtomicU32>,
    /// Appends that are told to wait for others.
    busy: Arc<AtomicU32>,
    /// Whether appends are refused once one was not answered.
    closes: Arc<AtomicBool>,
    /// Whether decisions have locks.
    locks: bool,
    runs: Arc<AtomicU32>,
    /// The runs of the servers that marks and pages come from.
    servers: Option<(i64, i64)>,
}

fn one(left: &AtomicU32) -> bool {
    left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |left| left.checked_sub(1)).is_ok()
}

impl Mute {
    async fn answer(&self) {
        if self.is_silent.load(Ordering::SeqCst) {
            pending().await
        }
    }

    fn silence(&self, is_silent: bool) {
        self.is_silent.store(is_silent, Ordering::SeqCst);
    }
}

#[async_trait]
impl JournalStore for Mute {
    fn longest_wait(&self) -> Duration {
        WAIT
    }

    async fn append(&self, append: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.runs.fetch_add(1, Ordering::SeqCst);
        self.answer().await;
        if one(&self.busy) {
            return Err(AppendError::Busy("somebody has it".into()));
        }
        let unanswered = self.unanswered.load(Ordering::SeqCst) > 0;
        if self.closes.load(Ordering::SeqCst) && !unanswered {
            return Err(StoreError::Closed.into());
        }
        let receipts = self.journal.append(append).await?;
        if one(&self.unanswered) {
            pending().await
        }
        Ok(receipts)
    }

    async fn mark(&self, query: &Query) -> Result<Mark, DecideError> {
        self.answer().await;
        let run = self.servers.map(|(mark, _)| Run::numbered(mark));
        Ok(Mark { run, ..self.journal.mark(query).await? })
    }

    async fn read(&self, query: &Query, page: Page) -> Result<Found, StoreError> {
        self.answer().await;
        let run = self.servers.map(|(_, page)| Run::numbered(page));
        Ok(Found { run, ..self.journal.read(query, page).await? })
    }

    async fn lock(&self, basis: Basis<'_>) -> Result<Option<Locked<'_>>, DecideError> {
        self.answer().await;
        if !self.locks {
            return Ok(None);
        }
        let found = self.journal.read(basis.query, basis.page).await?;
        let transaction = Box::new(Lost(self));
        Ok(Some(Locked { mark: Position::START.into(), found, transaction }))
    }

    async fn head(&self) -> Result<Position, StoreError> {
        self.answer().await;
        self.journal.head().await
    }

    async fn holders(&self) -> Result<Vec<Holder>, StoreError> {
        self.answer().await;
        self.journal.holders().await
    }

    async fn tail(&self) -> Result<Box<dyn TailSource>, StoreError> {
        self.answer().await;
        self.journal.tail().await
    }
}

/// A transaction whose locks the server has taken back.
struct Lost<'m>(&'m Mute);

#[async_trait]
impl LockedDecision for Lost<'_> {
    async fn read(&mut self, query: &Query, page: Page) -> Result<Found, StoreError> {
        self.0.read(query, page).await
    }

    async fn append(self: Box<Self>, _: &Append) -> Result<Vec<Receipt>, AppendError> {
        self.0.answer().await;
        Err(StoreError::Unavailable("the server ended it".into()).into())
    }

    async fn release(self: Box<Self>) {
        self.0.answer().await;
    }
}

fn fact() -> Fact {
    Fact::builder(("a", "{}")).tag("w", 1).build().unwrap()
}

fn nothing() -> impl Model {
    fold(Query::tagged("w=1".parse().unwrap()), (), |(), _| Ok(()))
}

fn mute(locks: bool) -> (Mute, Journal<Mute>) {
    let mute = Mute { locks, ..Mute::default() };
    (mute.clone(), Journal::new(mute))
}

/// Asserts that it takes so long, and no longer.
async fn taking<T>(time: Duration, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let answer = call.await;
    let took = begun.elapsed();
    assert!(took >= time && took <= time + SECOND, "took {took:?}, not {time:?}");
    answer
}

/// Holds I5.
#[tokio::test(start_paused = true)]
async fn every_call_of_a_journal_ends_in_time() {
    let (mute, journal) = mute(true);
    let mut tail = journal.tail(Position::START, TailOptions::default()).await.unwrap();
    mute.silence(true);
    let late = |error: &StoreError| matches!(error, StoreError::Timeout);

    let appended = taking(WAIT, journal.append([fact()])).await.unwrap_err();
    assert!(matches!(&appended, AppendError::Store(error) if late(error)), "{appended:?}");
    assert!(appended.is_in_doubt());
    let read = journal.read(Query::all(), Position::START).try_collect::<Vec<_>>();
    assert!(late(&taking(WAIT, read).await.unwrap_err()));
    let decided = taking(WAIT, journal.decide(nothing())).await.map(|_| ()).unwrap_err();
    assert!(matches!(&decided, DecideError::Store(error) if late(error)), "{decided:?}");
    assert!(late(&taking(WAIT, journal.head()).await.unwrap_err()));
    assert!(late(&taking(WAIT, journal.holders()).await.unwrap_err()));
    let opened = journal.tail(Position::START, TailOptions::default());
    assert!(late(&taking(WAIT, opened).await.unwrap_err()));

    let decides = |_| Ok::<_, BoxError>(vec![fact()]);
    let done = taking(WAIT, journal.execute_locked(nothing, decides)).await.unwrap_err();
    assert!(matches!(&done, ExecuteError::Decide(DecideError::Store(error)) if late(error)));
    assert!(!done.is_in_doubt(), "it was never decided");
    mute.silence(false);
    journal.append([fact()]).await.unwrap();
    assert_eq!(tail.next().await.unwrap().rows.len(), 1);
}

/// Silence that begins while the command decides: whether its facts are there nobody knows, and it says so.
#[tokio::test(start_paused = true)]
async fn a_command_whose_append_is_not_answered_is_in_doubt() {
    for locks in [true, false] {
        let (mute, journal) = mute(locks);
        let decides = |_| {
            mute.silence(true);
            Ok::<_, BoxError>(vec![fact()])
        };
        // One time for the append, and another to find out what became of it.
        let done = taking(WAIT * 2, journal.execute_locked(nothing, decides)).await.unwrap_err();
        assert!(done.is_in_doubt(), "{done:?}");
        // Its refusal is certain.
        mute.silence(false);
        let refuses = |_| {
            mute.silence(true);
            Err::<Vec<Fact>, _>("no")
        };
        let refused = journal.execute_locked(nothing, refuses).await.unwrap_err();
        assert!(matches!(refused, ExecuteError::Handler("no")), "{refused:?}");
    }
}

/// An append that is there, and whose answer was lost, is found by the one that repeats it: a command is
/// never carried out twice, also where the first time keeps the second one waiting.
#[tokio::test(start_paused = true)]
async fn an_append_in_doubt_is_repeated_and_never_decided_again() {
    let (mute, journal) = mute(false);
    mute.unanswered.store(1, Ordering::SeqCst);
    let handler = || async { Ok::<_, BoxError>(Decision::nothing().fact(fact())?) };
    let done = taking(WAIT, journal.execute(handler)).await.unwrap();
    assert_eq!((done.tries, done.receipts[0].fresh), (1, false));

    mute.unanswered.store(1, Ordering::SeqCst);
    mute.runs.store(0, Ordering::SeqCst);
    let decided = AtomicU32::new(0);
    let handler = || {
        decided.fetch_add(1, Ordering::SeqCst);
        let (mute, runs) = (mute.clone(), mute.runs.clone());
        async move {
            // Once the first is not answered.
            tokio::spawn(async move {
                while runs.load(Ordering::SeqCst) < 1 {
                    tokio::task::yield_now().await;
                }
                mute.busy.store(100, Ordering::SeqCst);
            });
            Ok::<_, BoxError>(Decision::nothing().fact(fact())?)
        }
    };
    let done = journal.execute(handler).await.unwrap_err();
    assert!(done.is_in_doubt(), "{done:?}");
    assert_eq!(decided.load(Ordering::SeqCst), 1);
}

/// An error of the repetition says nothing of the first time.
#[tokio::test(start_paused = true)]
async fn a_command_in_doubt_stays_so_whatever_its_repetition_meets() {
    for locks in [true, false] {
        let (mute, journal) = mute(locks);
        mute.unanswered.store(1, Ordering::SeqCst);
        mute.closes.store(true, Ordering::SeqCst);
        let decides = |_| Ok::<_, BoxError>(vec![fact()]);
        let done = journal.execute_locked(nothing, decides).await.unwrap_err();
        assert!(done.is_in_doubt(), "{done:?}");
    }
    let (mute, journal) = mute(false);
    mute.unanswered.store(1, Ordering::SeqCst);
    mute.closes.store(true, Ordering::SeqCst);
    let handler = || async { Ok::<_, BoxError>(Decision::nothing().fact(fact())?) };
    let done = journal.execute(handler).await.unwrap_err();
    assert!(done.is_in_doubt(), "{done:?}");
}

/// While a server takes the place of another, sessions may end up at either: a decision is of one.
#[tokio::test]
async fn what_two_servers_have_read_is_no_decision() {
    for (servers, decides) in [((1, 1), true), ((1, 2), false)] {
        let store = Mute { servers: Some(servers), ..Mute::default() };
        let journal = Journal::new(store);
        journal.append([fact()]).await.unwrap();
        match journal.decide(nothing()).await {
            Ok(decided) => assert!(decides && decided.condition.run == Some(Run::numbered(1))),
            Err(error) => {
                let told = matches!(error, DecideError::Store(StoreError::Unavailable(_)));
                assert!(told && !decides, "{error:?}");
            }
        }
    }
}
