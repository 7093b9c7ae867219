//! Publishers that settle facts in transactions of their own.

use std::sync::Arc;

use sendoff_core::journal::{Append, Fact, Position, Query, Topic};
use sendoff_core::{Delivery, Failure};
use sendoff_engine::HandlerResult;
use sendoff_engine::capture::JoinError;
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::{
    Move, Moved, PairOptions, PublishStore, Publishing, Seen, SettleInError,
};
use sendoff_engine::sink::BatchSink;
use tokio::sync::{mpsc, oneshot};

use super::{append, builder, cursor, often, pair, stored};
use crate::journal::cases::found;
use crate::journal::{Ending, Projecting, PublishHarness};

/// Facts that are projected.
const FACTS: usize = 12;

/// A call of the publisher, which ends with what it is told.
type Call = (Vec<Delivery>, oneshot::Sender<HandlerResult>);

/// A node whose publisher of all that `append` appends waits for what the case says.
async fn waiting<S: PublishStore>(
    journal: &Journal<S>,
) -> (Publishing, mpsc::UnboundedReceiver<Call>) {
    let (told, calls) = mpsc::unbounded_channel();
    let sink = BatchSink::new("p", move |facts| {
        let told = told.clone();
        async move {
            let (say, said) = oneshot::channel();
            told.send((facts, say)).map_err(|_| "the case is over")?;
            // Where nothing is said it panics.
            Ok(said.await.expect("the case says what to do")?)
        }
    });
    // Its name is that of all: what the case projects is not among it.
    let moved = Topic::builder("everything").types(["moved"]).build().unwrap();
    let settles = PairOptions { settles_in: true, batch: 3, ..often() };
    let node = builder(journal).pair_with(&moved, Arc::new(sink), settles).start().await.unwrap();
    (node, calls)
}

/// The positions of these facts, as facts.
fn projecting(facts: Vec<Delivery>, ending: Ending) -> Projecting {
    let effect = |fact: &Delivery| {
        let position = fact.position().unwrap().get();
        Fact::builder(("projected", position.to_string())).tag("w", 1).build().unwrap()
    };
    let effect = Append::new(facts.iter().map(effect).collect::<Vec<_>>(), None).unwrap();
    Projecting { facts, effect, ending }
}

/// Whose effects there are, in their order.
async fn projected<S: PublishStore>(journal: &Journal<S>) -> Vec<u64> {
    let effects = found(journal, Query::of_type("projected")).await;
    effects.iter().map(|effect| effect.event().read_json().unwrap()).collect()
}

/// Holds J8: effects and their cursor commit together, whatever the publisher says then; and where they do not, the
/// facts come again, also where it says that all was well.
pub async fn each_fact_has_its_effect_once_whatever_its_publisher_says(
    harness: impl PublishHarness,
) {
    let journal = harness.journal();
    append(journal, FACTS).await;
    let facts = found(journal, Query::of_type("moved")).await;
    let expected: Vec<_> = facts.iter().map(|fact| fact.position.get()).collect();
    let (node, mut calls) = waiting(journal).await;
    let (mut done, mut round) = (Vec::new(), 0);
    while done != expected {
        let (facts, say) = calls.recv().await.unwrap();
        let next: Vec<_> = facts.iter().map(|fact| fact.position().unwrap().get()).collect();
        assert!(expected[done.len()..].starts_with(&next), "{next:?} after {done:?}");
        // One way after the other.
        let ending = if round % 5 < 2 { Ending::RollBack } else { Ending::Commit };
        harness.settle_in(&projecting(facts, ending)).await.unwrap();
        if ending == Ending::Commit {
            done.extend(next);
        }
        match round % 5 {
            0 | 3 => say.send(Err(Failure::from("it went wrong"))).unwrap(),
            1 | 2 => say.send(Ok(())).unwrap(),
            // It panics.
            _ => drop(say),
        }
        round += 1;
    }
    stored(journal, "p", *expected.last().unwrap()).await;
    node.close().await;
    assert!(calls.try_recv().is_err());
    assert_eq!(projected(journal).await, expected);
    assert_eq!(cursor(journal, "p").await.errors, 0);
}

/// Holds J8: neither an old leader nor one whose cursor was moved or is locked.
pub async fn a_leader_that_was_replaced_settles_nothing(harness: impl PublishHarness) {
    let journal = harness.journal();
    append(journal, 1).await;
    let (node, mut calls) = waiting(journal).await;
    let (facts, say) = calls.recv().await.unwrap();
    let committing = projecting(facts, Ending::Commit);
    if let Some(lock) = harness.lock_cursor(&pair("p")).await {
        let error = harness.settle_in(&committing).await.unwrap_err();
        assert!(matches!(error, SettleInError::Join(JoinError::Busy(_))), "{error:?}");
        // Where the cursor will be then is not known before, whatever is visible of it.
        let (epoch, there) = (cursor(journal, "p").await.epoch, Position::new(1).unwrap());
        let asks = [Move::asks(Arc::new(pair("p")), epoch, there)];
        let asked = async || journal.store().advance(node.owner(), &asks).await.unwrap();
        assert_eq!(asked().await, [Moved::Busy]);
        lock.release().await;
        assert_eq!(asked().await, [Moved::Fenced]);
    }
    let epoch = cursor(journal, "p").await.epoch;
    let led = Arc::new(pair("p"));
    journal.store().give(node.owner(), &[(Arc::clone(&led), epoch)]).await.unwrap();
    let seen = Seen { pair: led, leader: None, epoch };
    assert_eq!(journal.store().take("another", &[seen]).await.unwrap().len(), 1);
    let error = harness.settle_in(&committing).await.unwrap_err();
    assert!(matches!(&error, SettleInError::Fenced(of) if *of == pair("p")), "{error:?}");
    say.send(Err(error.into())).unwrap();
    node.close().await;
    assert_eq!(cursor(journal, "p").await.position.get(), 0);
    assert!(projected(journal).await.is_empty());
}
