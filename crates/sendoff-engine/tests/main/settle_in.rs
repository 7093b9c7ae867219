//! Events that are settled in the transaction of their effect, on paused time.

use std::sync::Arc;

use sendoff_core::{Delivery, Event, EventId, Failure, Status};
use sendoff_engine::capture::JoinError;
use sendoff_engine::memory::{MemoryStore, MemoryTx};
use sendoff_engine::store::{Claim, ClaimStore};
use sendoff_engine::{
    AnyHandler, Counters, HandlerResult, Outbox, OutboxBuilder, OutboxOptions, SettleInError,
    fan_out,
};
use sendoff_testkit::clock::ManualClock;
use sendoff_testkit::wait::eventually;
use tokio::sync::{mpsc, oneshot};

use super::{EVENT, SECOND, commit, event, options, row};

/// A run, which ends with what it is told; where nothing is said it panics.
type Run = (Delivery, oneshot::Sender<HandlerResult>);

struct Node {
    store: MemoryStore,
    outbox: Outbox<MemoryStore>,
    runs: mpsc::UnboundedReceiver<Run>,
    counters: Arc<Counters>,
}

impl Node {
    async fn start(store: MemoryStore, options: OutboxOptions) -> Self {
        let counters = Arc::new(Counters::default());
        let (builder, runs) = handling(Outbox::builder(store.clone()).options(options));
        let outbox = builder.metrics(counters.clone()).start().await.unwrap();
        Self { store, outbox, runs, counters }
    }

    async fn next(&mut self) -> (Delivery, MemoryTx, oneshot::Sender<HandlerResult>) {
        let (delivery, say) = self.runs.recv().await.unwrap();
        (delivery, self.store.transaction().unwrap(), say)
    }

    /// The transaction commits, its run succeeds, and that is all.
    async fn ends_well(&self, id: EventId, tx: MemoryTx, say: oneshot::Sender<HandlerResult>) {
        tx.commit().unwrap();
        say.send(Ok(())).unwrap();
        self.outbox.close().await;
        assert_eq!(row(&self.store, id).status, Status::Done);
    }
}

fn handling(
    builder: OutboxBuilder<MemoryStore>,
) -> (OutboxBuilder<MemoryStore>, mpsc::UnboundedReceiver<Run>) {
    let (runs, next) = mpsc::unbounded_channel();
    let handler = move |delivery: Delivery| {
        let runs = runs.clone();
        async move {
            let (say, said) = oneshot::channel();
            let _ = runs.send((delivery, say));
            said.await.expect("the test says what to do")
        }
    };
    (builder.on(EVENT, handler), next)
}

/// A row that its run has settled is settled no second time, and nobody is told that it was fenced.
#[tokio::test(start_paused = true)]
async fn after_the_commit_the_verdict_settles_nothing() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    for said in [Some(Ok(())), Some(Err(Failure::from("too late"))), None] {
        let id = commit(&node.outbox, &event()).await;
        let (delivery, mut tx, say) = node.next().await;
        node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
        assert_eq!(row(&node.store, id).status, Status::New, "not before the commit");
        tx.commit().unwrap();
        // Where nothing is said, the handler panics.
        if let Some(said) = said {
            say.send(said).unwrap();
        }
        let settled = row(&node.store, id);
        assert_eq!((settled.status, settled.attempts), (Status::Done, 0));
    }
    node.outbox.close().await;
    assert!(node.store.rows().iter().all(|row| row.status == Status::Done));
    assert!(node.runs.try_recv().is_err());
    assert_eq!(node.counters.values().fenced, 0);
}

/// A handler that says that it succeeded, and whose transaction is not there, did not.
#[tokio::test(start_paused = true)]
async fn without_the_commit_the_event_comes_again() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    let id = commit(&node.outbox, &event()).await;
    for attempt in 1..=3 {
        let (delivery, mut tx, say) = node.next().await;
        assert_eq!((delivery.id(), delivery.attempt), (id, attempt));
        node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
        tx.rollback();
        match attempt {
            1 => say.send(Ok(())).unwrap(),
            2 => say.send(Err(Failure::from("it went wrong"))).unwrap(),
            // It panics.
            _ => drop(say),
        }
    }
    let (delivery, mut tx, say) = node.next().await;
    assert_eq!(delivery.attempt, 4);
    node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
    node.ends_well(id, tx, say).await;
}

#[tokio::test(start_paused = true)]
async fn a_rollback_that_was_called_a_success_says_so_in_the_row() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    let id = commit(&node.outbox, &event()).await;
    let (delivery, mut tx, say) = node.next().await;
    node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
    drop(tx);
    say.send(Ok(())).unwrap();
    let failed = async || row(&node.store, id).attempts == 1;
    eventually("the attempt to be counted", failed).await;
    let error = row(&node.store, id).last_error.unwrap();
    assert!(error.contains("did not commit"), "{error}");
    drop(node);
}

/// Holds the promise that only what is not known is called a failure: what a database refused was not done.
#[tokio::test(start_paused = true)]
async fn a_handler_that_could_not_settle_its_event_and_succeeded_otherwise_did_succeed() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    let id = commit(&node.outbox, &event()).await;
    let (delivery, mut tx, say) = node.next().await;
    // Another transaction has the row: the first one that settles it, here.
    let mut other = node.store.transaction().unwrap();
    node.outbox.settle_in(&delivery, &mut other).await.unwrap();
    for _ in 0..2 {
        let error = node.outbox.settle_in(&delivery, &mut tx).await.unwrap_err();
        assert!(matches!(error, SettleInError::Join(JoinError::Busy(_))), "{error:?}");
    }
    drop((tx, other));
    say.send(Ok(())).unwrap();
    // The other's end is not known here: its failure counts.
    let failed = async || row(&node.store, id).attempts == 1;
    eventually("the attempt to be counted", failed).await;
    let (delivery, mut tx, say) = node.next().await;
    // Somebody who is no run of ours has it locked now.
    let locked = node.store.lock_row(id).unwrap();
    let error = node.outbox.settle_in(&delivery, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::Join(JoinError::Busy(_))), "{error:?}");
    drop((tx, locked));
    say.send(Ok(())).unwrap();
    node.outbox.close().await;
    let settled = row(&node.store, id);
    assert_eq!((settled.status, settled.attempts), (Status::Done, 1));
}

/// Nobody else may have it while its transaction is open, and the hold is not extended: its end counts.
#[tokio::test(start_paused = true)]
async fn the_hold_is_not_extended_and_the_row_is_nobody_else_s() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    let id = commit(&node.outbox, &event()).await;
    let (delivery, mut tx, say) = node.next().await;
    node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
    let due_at = row(&node.store, id).due_at;
    tokio::time::sleep(120 * SECOND).await;
    assert_eq!(row(&node.store, id).due_at, due_at, "its token is as it was");
    let claim = Claim::new("other", 10, 60 * SECOND);
    assert!(node.store.claim(&claim).await.unwrap().rows.is_empty());
    node.ends_well(id, tx, say).await;
    assert!(node.runs.try_recv().is_err());
}

/// Extensions before it are no harm: the token is asked for as it is then.
#[tokio::test(start_paused = true)]
async fn a_run_that_was_extended_is_settled_by_its_newer_token() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    let id = commit(&node.outbox, &event()).await;
    let (delivery, mut tx, say) = node.next().await;
    let first = row(&node.store, id).due_at;
    tokio::time::sleep(120 * SECOND).await;
    assert_ne!(row(&node.store, id).due_at, first, "it was extended");
    node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
    node.ends_well(id, tx, say).await;
}

/// A zombie's effect is rolled back.
#[tokio::test(start_paused = true)]
async fn a_hold_that_somebody_else_has_settles_nothing() {
    let clock = ManualClock::new();
    let store = MemoryStore::with_clock(Arc::new(clock.clone()));
    let quiet = OutboxOptions { poller_enabled: false, ..options() };
    let mut node = Node::start(store, quiet).await;
    let id = commit(&node.outbox, &event()).await;
    let (delivery, mut tx, say) = node.next().await;
    // By the database's clock the hold is over, before this node had a reason to think so.
    clock.advance(3_600 * SECOND);
    let claim = Claim::new("other", 10, 600 * SECOND);
    assert_eq!(node.store.claim(&claim).await.unwrap().rows.len(), 1);
    let error = node.outbox.settle_in(&delivery, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::Lost(lost) if lost == id), "{error:?}");
    say.send(Err(error.into())).unwrap();
    node.outbox.close().await;
    assert_eq!(row(&node.store, id).locked_by.as_deref(), Some("other"));
}

/// The time limit ends the run, and with it the transaction; what was not committed comes again.
#[tokio::test(start_paused = true)]
async fn a_run_that_takes_too_long_is_rolled_back_and_comes_again() {
    let store = MemoryStore::new();
    let (began, mut begun) = mpsc::unbounded_channel();
    let outbox: Arc<std::sync::OnceLock<Outbox<MemoryStore>>> = Arc::default();
    let handler = {
        let (store, outbox) = (store.clone(), outbox.clone());
        move |delivery: Delivery| {
            let (store, outbox, began) = (store.clone(), outbox.clone(), began.clone());
            async move {
                let mut tx = store.transaction()?;
                outbox.get().unwrap().settle_in(&delivery, &mut tx).await?;
                began.send(delivery.attempt)?;
                if delivery.attempt == 1 {
                    std::future::pending::<()>().await;
                }
                HandlerResult::Ok(tx.commit()?)
            }
        }
    };
    let mut short = options();
    short.handler.timeout = Some(SECOND);
    let started = Outbox::builder(store.clone()).options(short).on(EVENT, handler).start().await;
    outbox.set(started.unwrap()).unwrap();
    let id = commit(outbox.get().unwrap(), &event()).await;
    assert_eq!((begun.recv().await, begun.recv().await), (Some(1), Some(2)));
    eventually("it to be done", async || row(&store, id).status == Status::Done).await;
    outbox.get().unwrap().close().await;
}

#[tokio::test(start_paused = true)]
async fn what_is_held_by_its_key_or_not_at_all_is_refused() {
    let mut node = Node::start(MemoryStore::new(), options()).await;
    let ordered = Event::builder(EVENT).ordering_key("k").json(&1).build().unwrap();
    commit(&node.outbox, &ordered).await;
    let (delivery, mut tx, say) = node.next().await;
    let error = node.outbox.settle_in(&delivery, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::Ordered(_)), "{error:?}");
    say.send(Ok(())).unwrap();

    commit(&node.outbox, &event()).await;
    let (delivery, mut tx, say) = node.next().await;
    let other = Node::start(node.store.clone(), options()).await;
    let error = other.outbox.settle_in(&delivery, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::NotRunning(_)), "another node: {error:?}");
    let writer = Outbox::writer_only(node.store.clone());
    let error = writer.settle_in(&delivery, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::NotRunning(_)), "a writer: {error:?}");

    // Somebody has its row locked.
    let mut locking = node.store.transaction().unwrap();
    node.outbox.settle_in(&delivery, &mut locking).await.unwrap();
    let error = node.outbox.settle_in(&delivery, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::Join(JoinError::Busy(_))), "{error:?}");
    drop(locking);
    node.outbox.settle_in(&delivery, &mut tx).await.unwrap();
    tx.commit().unwrap();
    say.send(Ok(())).unwrap();
    node.outbox.close().await;
    let error = node.outbox.settle_in(&delivery, &mut node.store.transaction().unwrap()).await;
    assert!(matches!(error, Err(SettleInError::NotRunning(_))), "{error:?}");
    other.outbox.close().await;
}

/// An event with several handlers is delivered when all are done: where one could say so for the others, what
/// they have not done would be lost.
#[tokio::test(start_paused = true)]
async fn one_of_several_handlers_cannot_settle_for_the_others() {
    let store = MemoryStore::new();
    let outbox: Arc<std::sync::OnceLock<Outbox<MemoryStore>>> = Arc::default();
    let refused = Arc::new(std::sync::Mutex::new(Vec::new()));
    let stock = {
        let (store, outbox, refused) = (store.clone(), outbox.clone(), refused.clone());
        move |delivery: Delivery| {
            let (store, outbox, refused) = (store.clone(), outbox.clone(), refused.clone());
            async move {
                let mut tx = store.transaction()?;
                match outbox.get().unwrap().settle_in(&delivery, &mut tx).await {
                    Ok(()) => tx.commit()?,
                    Err(error) => refused.lock().unwrap().push(error),
                }
                HandlerResult::Ok(())
            }
        }
    };
    let made = Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let mail = {
        let made = made.clone();
        move |delivery: Delivery| {
            let made = made.clone();
            async move {
                if delivery.attempt < 3 {
                    return Err(Failure::from("no connection"));
                }
                made.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
                HandlerResult::Ok(())
            }
        }
    };
    let both = fan_out([("stock", AnyHandler::new(stock)), ("mail", AnyHandler::new(mail))]);
    let started = Outbox::builder(store.clone()).options(options()).on(EVENT, both).start().await;
    outbox.set(started.unwrap()).unwrap();
    let id = commit(outbox.get().unwrap(), &event()).await;
    let mails = async || made.load(std::sync::atomic::Ordering::SeqCst) == 1;
    sendoff_testkit::wait::within(60 * SECOND, "the mail", mails).await;
    outbox.get().unwrap().close().await;
    assert_eq!(row(&store, id).status, Status::Done);
    let refused = refused.lock().unwrap();
    assert!(matches!(refused[..], [SettleInError::Shared(one)] if one == id), "{refused:?}");
}

/// A run that was cut off may go on by itself. It is told so at once, although the writer still waits for others:
/// in a file with one writer they wait for this very transaction.
#[tokio::test(start_paused = true)]
async fn whoever_asks_while_the_writer_ends_is_answered_at_once() {
    let mut short = options();
    short.node.drain_timeout = SECOND;
    let mut node = Node::start(MemoryStore::new(), short).await;
    commit(&node.outbox, &event()).await;
    let (locked, mut locks, _first) = node.next().await;
    node.outbox.settle_in(&locked, &mut locks).await.unwrap();
    commit(&node.outbox, &event()).await;
    let (delivery, mut tx, _second) = node.next().await;
    let closing = tokio::spawn({
        let outbox = node.outbox.clone();
        async move { outbox.close().await }
    });
    tokio::time::sleep(2 * SECOND).await;
    let asked = tokio::time::timeout(SECOND, node.outbox.settle_in(&delivery, &mut tx)).await;
    let error = asked.expect("it is answered").unwrap_err();
    assert!(matches!(error, SettleInError::NotRunning(_)), "{error:?}");
    drop(locks);
    assert!(closing.await.unwrap().cut_off);
}
