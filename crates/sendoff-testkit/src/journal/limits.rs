//! How long callers of a journal wait at most, on a real server: over a line that falls silent, for a
//! place and for locks, and for a decision of their own that takes too long.
#![allow(clippy::missing_panics_doc, reason = "a case that panics is a journal that failed it")]
#![allow(clippy::unwrap_used, reason = "a case that cannot unwrap says less, not more")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use futures_util::TryStreamExt;
use futures_util::future::join_all;
use sendoff_core::journal::{Fact, Position, Query};
use sendoff_core::{BoxError, limits};
use sendoff_engine::journal::{
    AppendError, DecideError, ExecuteError, Journal, JournalStore, Model, fold,
};
use sendoff_engine::store::StoreError;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::proxy::Proxy;

/// More than anything takes on a busy machine.
const SLACK: Duration = Duration::from_secs(2);

fn fact(wallet: u32) -> Fact {
    Fact::builder(("moved", "{}")).tag("wallet", wallet).build().unwrap()
}

fn wallet(number: u32) -> Query {
    Query::tagged(format!("wallet={number}").parse().unwrap())
}

fn count(number: u32) -> impl Model {
    fold(wallet(number), 0, |count: &mut u32, _| {
        *count += 1;
        Ok(())
    })
}

async fn in_time<T>(what: &str, wait: Duration, call: impl Future<Output = T>) -> T {
    let begun = Instant::now();
    let answer = tokio::time::timeout(wait + SLACK, call).await;
    answer.unwrap_or_else(|_| panic!("{what}: still waiting after {:?}", begun.elapsed()))
}

/// Every call over a line that fell silent ends in time and says what is not known; once the line is
/// there again, so is the journal, and an append that was in doubt is there once.
pub async fn calls_over_a_silent_line_end<S: JournalStore>(journal: &Journal<S>, proxy: &Proxy) {
    let wait = journal.store().longest_wait();
    let late = |error: &StoreError| matches!(error, StoreError::Timeout);
    // Connections are open.
    journal.append([fact(1)]).await.unwrap();
    journal.decide(count(1)).await.unwrap();
    proxy.silence(true);

    let doubtful = fact(2);
    let append = in_time("append", wait, journal.append([doubtful.clone()])).await.unwrap_err();
    assert!(matches!(&append, AppendError::Store(error) if late(error)), "{append:?}");
    assert!(append.is_in_doubt());
    let read = journal.read(wallet(1), Position::START).try_collect::<Vec<_>>();
    // Nothing was sent where not even a connection is to be had.
    let unanswered =
        |error: &StoreError| late(error) || matches!(error, StoreError::Unavailable(_));
    let read = in_time("read", wait, read).await.unwrap_err();
    assert!(unanswered(&read), "{read:?}");
    let decide = in_time("decide", wait, journal.decide(count(1))).await.map(|_| ()).unwrap_err();
    assert!(matches!(&decide, DecideError::Store(error) if unanswered(error)), "{decide:?}");
    let decides = |_| Ok::<_, BoxError>(vec![fact(3)]);
    let locked = journal.execute_locked(|| count(3), decides);
    let locked = in_time("execute_locked", wait, locked).await.unwrap_err();
    assert!(
        matches!(&locked, ExecuteError::Decide(DecideError::Store(error)) if unanswered(error)),
        "{locked:?}"
    );
    assert!(!locked.is_in_doubt(), "nothing was decided");
    let head = in_time("head", wait, journal.head()).await.unwrap_err();
    assert!(unanswered(&head), "{head:?}");

    proxy.silence(false);
    let again = in_time("append", wait, journal.append([doubtful])).await.unwrap();
    assert_eq!(again.len(), 1);
    let there: Vec<_> = journal.read(wallet(2), Position::START).try_collect().await.unwrap();
    assert_eq!(there.len(), 1, "there once");
}

/// A line that falls silent between a decision and its append: nobody knows whether it is there, and the
/// caller is told. Its locks are free again within seconds.
pub async fn a_decision_over_a_silent_line_is_in_doubt<S: JournalStore>(
    journal: &Journal<S>,
    proxy: &Proxy,
    healthy: &Journal<impl JournalStore>,
) {
    let wait = journal.store().longest_wait();
    let decides = |_| {
        proxy.silence(true);
        Ok::<_, BoxError>(vec![fact(1)])
    };
    let done = journal.execute_locked(|| count(1), decides);
    let done = in_time("execute_locked", wait * 2, done).await.unwrap_err();
    assert!(done.is_in_doubt(), "{done:?}");
    let next = |_| Ok::<_, BoxError>(vec![fact(1)]);
    healthy.execute_locked(|| count(1), next).await.unwrap();
    proxy.silence(false);
}

/// To be called while somebody has an append open on `wallet=1`, and with few places for decisions:
/// whoever waits for a place has so much less patience for locks.
pub async fn patience_is_all_that_a_caller_waits<S: JournalStore>(
    journal: &Journal<S>,
    patience: Duration,
) {
    let decide = async |_| {
        let (begun, next) = (Instant::now(), |_| Ok::<_, BoxError>(vec![fact(1)]));
        let locked = journal.execute_locked(|| count(1), next).await.map(|_| ());
        (begun.elapsed(), locked)
    };
    for (took, answer) in join_all((0..6).map(decide)).await {
        let is_busy = matches!(answer, Err(ExecuteError::Decide(DecideError::Busy(_))));
        assert!(is_busy && took <= patience + SLACK, "waited {took:?}: {answer:?}");
    }
    let append = async |_| {
        let (begun, all) = (Instant::now(), wallet(1).none_after(Position::END));
        let answer = journal.append_if([fact(1)], all).await.map(|_| ());
        (begun.elapsed(), answer)
    };
    for (took, answer) in join_all((0..6).map(append)).await {
        let is_busy = matches!(answer, Err(AppendError::Busy(_)));
        assert!(is_busy && took <= patience + SLACK, "waited {took:?}: {answer:?}");
    }
}

/// A decision that takes longer than its locks last runs once: it is appended if nobody was quicker, and
/// refused by a type of its own if somebody was. Needs a runtime of several threads.
pub async fn a_slow_decision_runs_once<S: JournalStore>(journal: &Journal<S>) {
    let slow = limits::DECISION + Duration::from_secs(1);
    let runs = Arc::new(AtomicU32::new(0));
    let decide = async |rival: bool| {
        // Of which nothing is known yet, so that it is decided under locks.
        let wallet = if rival { 2 } else { 1 };
        runs.store(0, Ordering::SeqCst);
        let (journal, runs, begun) = (journal.clone(), Arc::clone(&runs), Arc::new(Notify::new()));
        let begins = Arc::clone(&begun);
        let (quicker, was_quicker) = std::sync::mpsc::channel::<()>();
        let decides = move |_| {
            runs.fetch_add(1, Ordering::SeqCst);
            begins.notify_one();
            // It blocks, as those do that are too slow; but not what others have on this thread.
            tokio::task::block_in_place(|| {
                if rival {
                    let _ = was_quicker.recv_timeout(slow * 5);
                    std::thread::sleep(SLACK / 4);
                } else {
                    std::thread::sleep(slow);
                }
            });
            Ok::<_, BoxError>(vec![fact(wallet)])
        };
        let deciding = tokio::spawn({
            let journal = journal.clone();
            async move { journal.execute_locked(|| count(wallet), decides).await }
        });
        if rival {
            begun.notified().await;
            let next = |_| Ok::<_, BoxError>(vec![fact(wallet)]);
            journal.execute_locked(|| count(wallet), next).await.unwrap();
            let _ = quicker.send(());
        }
        deciding.await.unwrap()
    };
    let alone = decide(false).await.unwrap();
    assert_eq!((alone.tries, alone.receipts.len()), (1, 1));
    let beaten = decide(true).await.unwrap_err();
    let ExecuteError::Slow { took, .. } = &beaten else { panic!("{beaten:?}") };
    assert!(*took >= limits::DECISION, "{took:?}");
    assert!(!beaten.is_in_doubt());
    assert_eq!(runs.load(Ordering::SeqCst), 1);
}
