//! Publishers that settle facts in transactions of their own: their effects, here events of an outbox, are made once.

use std::sync::Arc;

use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{CursorStatus, PairId, Poison};
use sendoff_core::{Delivery, Event, Failure};
use sendoff_engine::capture::JoinError;
use sendoff_engine::journal::publish::{
    Change, PairOptions, PublishOptions, PublishStore, Publishing, Seen, SettleInError, Which,
};
use sendoff_engine::lead::NodeCard;
use sendoff_engine::memory::{MemoryStore, MemoryTx};
use sendoff_engine::sink::{BatchSink, HandlerSink};
use sendoff_engine::store::InspectStore;
use sendoff_engine::{HandlerResult, Outbox, RetryOptions};
use sendoff_testkit::wait::within;
use tokio::sync::{mpsc, oneshot};

use super::{Log, MINUTE, append, cursor, everything, journal, stored};
use crate::SECOND;

/// A call of the publisher, which ends with what it is told.
type Call = (Vec<Delivery>, oneshot::Sender<HandlerResult>);

struct Node {
    store: MemoryStore,
    outbox: Outbox<MemoryStore>,
    publishing: Publishing,
    calls: mpsc::UnboundedReceiver<Call>,
}

fn options() -> PairOptions {
    PairOptions {
        settles_in: true,
        publish_timeout: 10 * SECOND,
        interval: SECOND,
        retry: RetryOptions { base: SECOND, max: SECOND, ..RetryOptions::default() },
        ..PairOptions::default()
    }
}

impl Node {
    async fn start(journal: Log, options: PairOptions) -> Self {
        Self::on(journal, MemoryStore::new(), options).await
    }

    async fn on(journal: Log, store: MemoryStore, options: PairOptions) -> Self {
        let (told, calls) = mpsc::unbounded_channel();
        let sink = BatchSink::new("p", move |deliveries| {
            let told = told.clone();
            async move {
                let (say, said) = oneshot::channel();
                told.send((deliveries, say)).map_err(|_| "the test is over")?;
                // Where nothing is said it panics.
                Ok(said.await.expect("the test says what to do")?)
            }
        });
        let builder = Publishing::builder(&journal).options(PublishOptions::default());
        let publishing = builder.pair_with(&everything(), Arc::new(sink), options).start().await;
        let outbox = Outbox::writer_only(store.clone());
        Self { store, outbox, publishing: publishing.unwrap(), calls }
    }

    /// The next call, with a transaction that has its effect.
    async fn next(&mut self) -> (Vec<Delivery>, MemoryTx, oneshot::Sender<HandlerResult>) {
        let called = tokio::time::timeout(5 * MINUTE, self.calls.recv()).await;
        let (facts, say) = called.expect("a call").unwrap();
        let mut tx = self.store.transaction().unwrap();
        for fact in &facts {
            let effect = Event::json("projected", &fact.position().unwrap().get()).unwrap();
            drop(self.outbox.write(&mut tx, effect).await.unwrap());
        }
        (facts, tx, say)
    }

    /// What was projected, in order.
    async fn projected(&self) -> Vec<u64> {
        let (told, mut seen) = mpsc::unbounded_channel();
        let handler = move |delivery: Delivery| {
            let told = told.clone();
            async move { HandlerResult::Ok(told.send(delivery.read_json::<u64>()?)?) }
        };
        let reader = Outbox::builder(self.store.clone()).on("projected", handler).start().await;
        let reader = reader.unwrap();
        let counts = async || self.store.counts().await.unwrap().pending() == 0;
        within(MINUTE, "the projection to be read", counts).await;
        reader.close().await;
        let mut all = Vec::new();
        while let Ok(position) = seen.try_recv() {
            all.push(position);
        }
        all.sort_unstable();
        all
    }
}

/// The transaction of their effect commits.
async fn project(journal: &Log, facts: &[Delivery], mut tx: MemoryTx) {
    journal.settle_in(facts, &mut tx).await.unwrap();
    tx.commit().unwrap();
}

fn positions(facts: &[Delivery]) -> Vec<u64> {
    facts.iter().map(|fact| fact.position().unwrap().get()).collect()
}

fn pair() -> PairId {
    PairId::new("everything", "p").unwrap()
}

/// What was committed never comes again, whatever the publisher says; and what was rolled back does.
#[tokio::test(start_paused = true)]
async fn each_fact_is_projected_once_whatever_the_publisher_says() {
    let journal = journal();
    append(&journal, 3).await;
    let mut node = Node::start(journal.clone(), options()).await;

    // It is rolled back, and the publisher fails.
    let (facts, mut tx, say) = node.next().await;
    assert_eq!(positions(&facts), [1, 2, 3]);
    journal.settle_in(&facts, &mut tx).await.unwrap();
    tx.rollback();
    say.send(Err(Failure::from("it went wrong"))).unwrap();
    // Then by itself. It is rolled back, and called a success.
    let (facts, mut tx, say) = node.next().await;
    assert_eq!(positions(&facts), [1]);
    journal.settle_in(&facts, &mut tx).await.unwrap();
    drop(tx);
    say.send(Ok(())).unwrap();
    // It commits, and panics.
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [1]);
    let waits = cursor(&journal, "p").await;
    assert_eq!((waits.position.get(), waits.errors), (0, 2));
    let why = waits.last_error.unwrap();
    assert!(why.contains("its transaction did not commit"), "{why}");
    project(&journal, &facts, tx).await;
    drop(say);
    // It commits, and fails.
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [2]);
    let there = cursor(&journal, "p").await;
    assert_eq!((there.position.get(), there.errors, there.last_error), (1, 0, None));
    project(&journal, &facts, tx).await;
    say.send(Err(Failure::from("too late"))).unwrap();
    // It commits, and takes too long afterwards.
    let (facts, tx, late) = node.next().await;
    assert_eq!(positions(&facts), [3]);
    project(&journal, &facts, tx).await;
    append(&journal, 1).await;
    // It commits, and all is well.
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [4]);
    project(&journal, &facts, tx).await;
    say.send(Ok(())).unwrap();
    drop(late);
    stored(&journal, "p", 4).await;
    node.publishing.close().await;
    assert!(node.calls.try_recv().is_err());
    assert_eq!(node.projected().await, [1, 2, 3, 4]);
}

/// Time ends a call whose transaction is open: that is rolled back with it, or commits later, and the cursor knows.
#[tokio::test(start_paused = true)]
async fn nothing_goes_on_before_it_is_known_what_became_of_a_transaction() {
    let journal = journal();
    append(&journal, 1).await;
    let mut node = Node::start(journal.clone(), options()).await;
    let (facts, mut tx, _late) = node.next().await;
    journal.settle_in(&facts, &mut tx).await.unwrap();
    append(&journal, 1).await;
    // The call is over after 10 s, and its transaction is not.
    tokio::time::sleep(2 * MINUTE).await;
    assert!(node.calls.try_recv().is_err());
    let again = journal.settle_in(&facts, &mut node.store.transaction().unwrap()).await;
    assert!(matches!(again, Err(SettleInError::NotRunning)), "{again:?}");
    // Nothing is called a failure before that is known either.
    let told = node.publishing.statistics();
    assert_eq!((told.failed, told.fenced), (0, 0));
    tx.commit().unwrap();
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [2]);
    project(&journal, &facts, tx).await;
    say.send(Ok(())).unwrap();
    stored(&journal, "p", 2).await;
    node.publishing.close().await;
    assert_eq!(node.projected().await, [1, 2]);
}

/// Several transactions in one call: those that committed count, up to the first that did not.
#[tokio::test(start_paused = true)]
async fn a_call_may_settle_its_facts_in_several_transactions() {
    let journal = journal();
    append(&journal, 6).await;
    let mut node = Node::start(journal.clone(), options()).await;
    let (facts, tx, say) = node.next().await;
    tx.rollback();
    let effect = async |facts: &[Delivery]| {
        let mut tx = node.store.transaction().unwrap();
        for fact in facts {
            let effect = Event::json("projected", &fact.position().unwrap().get()).unwrap();
            drop(node.outbox.write(&mut tx, effect).await.unwrap());
        }
        journal.settle_in(facts, &mut tx).await.map(|()| tx)
    };
    effect(&facts[..2]).await.unwrap().commit().unwrap();
    effect(&facts[2..4]).await.unwrap().commit().unwrap();
    effect(&facts[4..5]).await.unwrap().rollback();
    // What follows something that was rolled back is refused.
    let error = effect(&facts[5..]).await.unwrap_err();
    assert!(matches!(&error, SettleInError::Fenced(of) if *of == pair()), "{error:?}");
    say.send(Err(error.into())).unwrap();
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [5], "by itself, since it failed");
    assert_eq!(cursor(&journal, "p").await.position.get(), 4);
    project(&journal, &facts, tx).await;
    say.send(Ok(())).unwrap();
    let (facts, tx, say) = node.next().await;
    project(&journal, &facts, tx).await;
    say.send(Ok(())).unwrap();
    stored(&journal, "p", 6).await;
    node.publishing.close().await;
    assert_eq!(node.projected().await, [1, 2, 3, 4, 5, 6]);
}

/// A call that settles nothing itself is stored as ever, and one that settles some of its facts goes on after them.
#[tokio::test(start_paused = true)]
async fn what_is_not_settled_in_a_transaction_is_published_as_ever() {
    let journal = journal();
    append(&journal, 2).await;
    let mut node = Node::start(journal.clone(), options()).await;
    let (_, tx, say) = node.next().await;
    tx.rollback();
    say.send(Ok(())).unwrap();
    append(&journal, 3).await;
    let (facts, tx, say) = node.next().await;
    assert_eq!(
        cursor(&journal, "p").await.position.get(),
        2,
        "it is stored before the next begins"
    );
    tx.rollback();
    let mut tx = node.store.transaction().unwrap();
    let skips = journal.settle_in(&facts[1..], &mut tx).await;
    assert!(matches!(skips, Err(SettleInError::OutOfTurn { position }) if position.get() == 4));
    journal.settle_in(&facts[..1], &mut tx).await.unwrap();
    tx.commit().unwrap();
    say.send(Ok(())).unwrap();
    // Who settles some has not published the others by that.
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [4, 5]);
    tx.rollback();
    say.send(Ok(())).unwrap();
    stored(&journal, "p", 5).await;
    node.publishing.close().await;
    assert!(node.calls.try_recv().is_err());
}

/// An old leader's transaction is refused, and so is one after an operator's.
#[tokio::test(start_paused = true)]
async fn an_old_leader_and_an_old_position_are_fenced() {
    let journal = journal();
    append(&journal, 2).await;
    let mut node = Node::start(journal.clone(), options()).await;
    let (facts, mut tx, say) = node.next().await;
    let moved = Change::MoveTo(Position::new(1).unwrap());
    journal.store().change(&Which::all(), moved).await.unwrap();
    let error = journal.settle_in(&facts, &mut tx).await.unwrap_err();
    assert!(matches!(&error, SettleInError::Fenced(of) if *of == pair()), "{error:?}");
    drop(tx);
    say.send(Err(error.into())).unwrap();
    // It begins where the operator wanted it to.
    let (facts, tx, say) = node.next().await;
    assert_eq!(positions(&facts), [2]);
    project(&journal, &facts, tx).await;
    say.send(Ok(())).unwrap();
    stored(&journal, "p", 2).await;

    append(&journal, 1).await;
    let (facts, mut tx, say) = node.next().await;
    take_over(&journal, &node).await;
    let error = journal.settle_in(&facts, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::Fenced(_)), "{error:?}");
    drop(tx);
    say.send(Err(error.into())).unwrap();
    node.publishing.close().await;
    assert_eq!(cursor(&journal, "p").await.position.get(), 2);
    assert_eq!(node.projected().await, [2]);
}

/// Somebody else has the pair, as after a node was stopped for longer than its lease.
async fn take_over(journal: &Log, node: &Node) {
    let store = journal.store();
    let PublishOptions { renew, lease, .. } = PublishOptions::default();
    let knows = [pair().key()].into();
    let card = NodeCard { owner: "other".into(), knows, renew, lease };
    let other = store.join(&card).await.unwrap();
    let epoch = cursor(journal, "p").await.epoch;
    let pair = Arc::new(pair());
    store.give(node.publishing.owner(), &[(Arc::clone(&pair), epoch)]).await.unwrap();
    let seen = Seen { pair, leader: None, epoch };
    assert_eq!(store.take("other", &[seen]).await.unwrap().len(), 1);
    // It works as long as the test.
    std::mem::forget(other);
}

/// While its transaction is open a pair is nobody else's.
#[tokio::test(start_paused = true)]
async fn a_cursor_that_is_to_move_is_locked() {
    let journal = journal();
    append(&journal, 1).await;
    let mut node = Node::start(journal.clone(), options()).await;
    let (facts, mut tx, say) = node.next().await;
    journal.settle_in(&facts, &mut tx).await.unwrap();
    let error = journal.settle_in(&facts, &mut node.store.transaction().unwrap()).await;
    assert!(matches!(error, Err(SettleInError::Join(JoinError::Busy(_)))), "{error:?}");
    tx.commit().unwrap();
    let error = journal.settle_in(&facts, &mut node.store.transaction().unwrap()).await;
    assert!(matches!(error, Err(SettleInError::Fenced(_))), "{error:?}");
    say.send(Ok(())).unwrap();
    stored(&journal, "p", 1).await;
    node.publishing.close().await;
}

/// A fact that its publisher calls dead is parked, and what is parked is not settled in its turn.
#[tokio::test(start_paused = true)]
async fn what_is_parked_cannot_be_settled_in_a_transaction() {
    let journal = journal();
    append(&journal, 2).await;
    let parks = PairOptions { poison: Poison::Park, ..options() };
    let mut node = Node::start(journal.clone(), parks).await;
    let mut settled = Vec::new();
    let mut refused = 0;
    while settled != [2] || refused == 0 {
        let (facts, mut tx, say) = node.next().await;
        match journal.settle_in(&facts, &mut tx).await {
            Ok(()) if positions(&facts) == [2] => {
                tx.commit().unwrap();
                settled.extend(positions(&facts));
                say.send(Ok(())).unwrap();
            }
            Ok(()) => {
                tx.rollback();
                say.send(Err(Failure::dead("it cannot be projected"))).unwrap();
            }
            Err(error) => {
                assert!(matches!(error, SettleInError::NotRunning), "{error:?}");
                assert_eq!(positions(&facts), [1]);
                refused += 1;
                say.send(Err(error.into())).unwrap();
            }
        }
    }
    stored(&journal, "p", 2).await;
    node.publishing.close().await;
    assert_eq!(cursor(&journal, "p").await.status, CursorStatus::Active);
    assert_eq!(node.projected().await, [2]);
}

/// Without the option a pair stores several calls together, and nobody knows where it is.
#[tokio::test(start_paused = true)]
async fn a_pair_that_does_not_say_so_settles_nothing() {
    let journal = journal();
    append(&journal, 1).await;
    let plain = PairOptions { settles_in: false, ..options() };
    let mut node = Node::start(journal.clone(), plain).await;
    let (facts, mut tx, say) = node.next().await;
    let error = journal.settle_in(&facts, &mut tx).await.unwrap_err();
    assert!(matches!(error, SettleInError::NotRunning), "{error:?}");
    say.send(Ok(())).unwrap();
    stored(&journal, "p", 1).await;
    node.publishing.close().await;
}

/// A handler is called once for each fact, and what it settled is stored before the next.
#[tokio::test(start_paused = true)]
async fn a_handler_settles_one_fact_after_the_other() {
    let (journal, store) = (journal(), MemoryStore::new());
    append(&journal, 5).await;
    let handler = {
        let (journal, store) = (journal.clone(), store.clone());
        move |fact: Delivery| {
            let (journal, store) = (journal.clone(), store.clone());
            async move {
                // Every other one is not for it.
                if fact.position().unwrap().get() % 2 == 1 {
                    let mut tx = store.transaction()?;
                    journal.settle_in(std::slice::from_ref(&fact), &mut tx).await?;
                    tx.commit()?;
                }
                HandlerResult::Ok(())
            }
        }
    };
    let sink = Arc::new(HandlerSink::new("p", handler));
    let builder = Publishing::builder(&journal);
    let node = builder.pair_with(&everything(), sink, options()).start().await.unwrap();
    stored(&journal, "p", 5).await;
    assert_eq!(cursor(&journal, "p").await.errors, 0);
    let statistics = node.statistics();
    assert_eq!(statistics.fenced, 0);
    node.close().await;
}
