//! Publishers that fail, hang, panic or say they are unavailable.

use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::journal::Fact;
use sendoff_core::journal::publish::{CursorStatus, Poison};
use sendoff_core::{Delivery, EventId, Failure, Jitter, RetryPolicy, Sink, Verdict, async_trait};
use sendoff_engine::journal::publish::{PairOptions, Publishing, Which};
use sendoff_engine::sink::{BatchSink, HandlerSink};
use sendoff_engine::{After, Before, RetryOptions};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;

use super::{MINUTE, append, cursor, everything, journal, stored};
use crate::SECOND;

/// Holds J3: a target that is down for five minutes, whether it says so or every fact fails.
#[tokio::test(start_paused = true)]
async fn a_pair_goes_on_by_itself_after_five_minutes() {
    let journal = journal();
    let (silent, unwell, fine) = (Latch::new("silent"), Latch::new("unwell"), Latch::new("fine"));
    silent.refuse(|_| Some(Failure::retry("connection refused")));
    unwell.set_healthy(false);
    append(&journal, 150).await;
    let node = Publishing::builder(&journal)
        .pair(&everything(), silent.publisher())
        .pair(&everything(), unwell.publisher())
        .pair(&everything(), fine.publisher())
        .start()
        .await
        .unwrap();
    fine.wait_for(150).await;
    tokio::time::sleep(5 * MINUTE).await;
    let down = cursor(&journal, "silent").await;
    assert_eq!((down.status, down.position.get()), (CursorStatus::Active, 0));
    append(&journal, 50).await;
    silent.accept();
    unwell.set_healthy(true);
    let healed = tokio::time::Instant::now();
    for latch in [&silent, &unwell] {
        latch.wait_for(200).await;
        assert_eq!(latch.positions(), (1..=200).collect::<Vec<_>>());
    }
    assert!(healed.elapsed() <= MINUTE / 4, "{:?}", healed.elapsed());
    assert_eq!(node.statistics().parked, 0);
    node.close().await;
}

/// Its target wants no more facts: somebody has to know, and says when it goes on, from where it stands.
#[tokio::test(start_paused = true)]
async fn a_pair_that_is_disabled_stops_with_the_reason_until_it_is_reset() {
    let (journal, gone, fine) = (journal(), Latch::new("gone"), Latch::new("fine"));
    append(&journal, 10).await;
    let node = Publishing::builder(&journal)
        .pair(&everything(), gone.publisher())
        .pair(&everything(), fine.publisher())
        .start()
        .await
        .unwrap();
    stored(&journal, "gone", 10).await;
    gone.refuse(|_| Some(Failure::disable("it wants no more")));
    append(&journal, 20).await;
    fine.wait_for(30).await;
    let failed = async || cursor(&journal, "gone").await.status == CursorStatus::Failed;
    within(MINUTE, "it stops", failed).await;
    let down = cursor(&journal, "gone").await;
    assert_eq!((down.position.get(), &*down.last_error.unwrap()), (10, "it wants no more"));
    append(&journal, 10).await;
    fine.wait_for(40).await;
    gone.accept();
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(gone.positions(), (1..=10).collect::<Vec<_>>());
    journal.publishers().reset(&Which::all()).await.unwrap();
    gone.wait_for(40).await;
    assert_eq!(gone.positions(), (1..=40).collect::<Vec<_>>());
    node.close().await;
}

/// A publisher that panics or hangs has failed, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_panic_and_a_hang_are_failures() {
    let (journal, fine) = (journal(), Latch::new("fine"));
    append(&journal, 3).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let wild = BatchSink::new("wild", move |_| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move {
            match run {
                0 => panic!("wild"),
                1 => pending().await,
                _ => Ok(()),
            }
        }
    });
    let options = PairOptions { publish_timeout: SECOND, ..PairOptions::default() };
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), Arc::new(wild), options)
        .pair(&everything(), fine.publisher())
        .start()
        .await
        .unwrap();
    stored(&journal, "wild", 3).await;
    stored(&journal, "fine", 3).await;
    assert!(runs.load(Ordering::Relaxed) >= 3);
    node.close().await;
}

/// In a batch, by itself, after a probe, and when what was parked is tried again.
#[tokio::test(start_paused = true)]
async fn a_handler_is_told_which_attempt_it_is() {
    let journal = journal();
    let facts: Vec<_> = (0..3).map(|_| Fact::builder(("moved", "{}")).build().unwrap()).collect();
    let ids: Vec<_> = facts.iter().map(Fact::id).collect();
    journal.append(facts).await.unwrap();
    let seen = Arc::new(Mutex::new(BTreeMap::<EventId, Vec<u32>>::new()));
    let (told, poison) = (Arc::clone(&seen), ids[1]);
    let handler = move |delivery: Delivery| {
        let mut seen = told.lock().unwrap();
        let attempts = seen.entry(delivery.id()).or_default();
        attempts.push(delivery.attempt);
        let fails = delivery.id() == poison && attempts.len() < 6;
        async move { if fails { Err(Failure::retry("not yet")) } else { Ok(()) } }
    };
    let options = PairOptions {
        retry: RetryOptions { max_attempts: 2, ..RetryOptions::default() },
        poison: Poison::Park,
        ..PairOptions::default()
    };
    let publisher = Arc::new(HandlerSink::new("p", handler));
    let node = Publishing::builder(&journal).pair_with(&everything(), publisher, options);
    let node = node.start().await.unwrap();
    let of = |id| seen.lock().unwrap().get(&id).cloned().unwrap_or_default();
    let published = async || of(poison).len() == 6;
    within(60 * MINUTE, "the parked one is published", published).await;
    assert_eq!([of(ids[0]), of(poison), of(ids[2])], [vec![1], (1..=6).collect(), vec![1]]);
    node.close().await;
}

/// Takes one fact of each batch, and says nothing of the others.
struct OneAtATime(Latch);

#[async_trait]
impl Sink for OneAtATime {
    fn name(&self) -> &str {
        "one at a time"
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        self.0.deliver(&deliveries[..1]).await
    }
}

/// What a sink did not try is tried in the next run, and nothing is skipped.
#[tokio::test(start_paused = true)]
async fn facts_that_a_sink_has_no_verdict_for_are_given_to_it_again() {
    let (journal, latch) = (journal(), Latch::new("p"));
    append(&journal, 20).await;
    let sink = Arc::new(OneAtATime(latch.clone()));
    let node = Publishing::builder(&journal).pair(&everything(), sink).start().await.unwrap();
    latch.wait_for(20).await;
    stored(&journal, "one at a time", 20).await;
    assert_eq!(latch.positions(), (1..=20).collect::<Vec<_>>());
    node.close().await;
}

/// Interceptors are around what is published as around what a handler gets: one that refuses is a
/// failure of its fact, and each is told of every verdict.
#[tokio::test(start_paused = true)]
async fn interceptors_are_around_what_is_published() {
    let (journal, latch) = (journal(), Latch::new("p"));
    append(&journal, 5).await;
    let (refusals, told) = (Arc::new(AtomicU32::new(0)), Arc::new(Mutex::new(Vec::new())));
    let (refused, log) = (Arc::clone(&refusals), Arc::clone(&told));
    let node = Publishing::builder(&journal)
        .intercept(Before(move |delivery: &Delivery| {
            let third = delivery.position().is_some_and(|position| position.get() == 3);
            match third && refused.fetch_add(1, Ordering::Relaxed) == 0 {
                true => Err("not yet".into()),
                false => Ok(()),
            }
        }))
        .intercept(After(move |delivery: &Delivery, failure: Option<&Failure>| {
            let position = delivery.position().ok_or("a fact")?.get();
            log.lock().unwrap().push((position, failure.is_none()));
            Ok(())
        }))
        .pair(&everything(), latch.publisher())
        .start()
        .await
        .unwrap();
    latch.wait_for(5).await;
    node.close().await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    let told = told.lock().unwrap();
    assert_eq!(told[..3], [(1, true), (2, true), (3, false)]);
    assert!(told[3..].iter().map(|(position, _)| *position).eq([3, 4, 5]), "{told:?}");
}

/// Panics whenever it is asked.
#[derive(Debug)]
struct Rude;

impl RetryPolicy for Rude {
    fn delay(&self, _: u32, _: Jitter) -> Duration {
        panic!("rude")
    }
}

/// A retry policy is code of users too: one that panics delays its own pair.
#[tokio::test(start_paused = true)]
async fn a_retry_policy_that_panics_stops_nobody() {
    let (journal, fine) = (journal(), Latch::new("fine"));
    append(&journal, 3).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let failing = BatchSink::new("failing", move |_| {
        let run = counted.fetch_add(1, Ordering::Relaxed);
        async move { if run < 8 { Err(Failure::retry("not yet").into()) } else { Ok(()) } }
    });
    let rude = PairOptions {
        retry_policy: Some(Arc::new(Rude)),
        parked_policy: Some(Arc::new(Rude)),
        ..PairOptions::default()
    };
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), Arc::new(failing), rude)
        .pair(&everything(), fine.publisher())
        .start()
        .await
        .unwrap();
    fine.wait_for(3).await;
    append(&journal, 2).await;
    fine.wait_for(5).await;
    let all = async || runs.load(Ordering::Relaxed) > 8;
    within(60 * MINUTE, "the other goes on as well", all).await;
    node.close().await;
}

/// Holds J3: a target that says it is unavailable burns no attempt: what fails once afterwards is tried
/// as often as any other.
#[tokio::test(start_paused = true)]
async fn an_unavailable_target_burns_no_attempt() {
    let (journal, latch) = (journal(), Latch::new("p"));
    append(&journal, 5).await;
    latch.set_healthy(false);
    let options = PairOptions {
        retry: RetryOptions { max_attempts: 4, ..RetryOptions::default() },
        poison: Poison::Park,
        ..PairOptions::default()
    };
    let node = Publishing::builder(&journal).pair_with(&everything(), latch.publisher(), options);
    let node = node.start().await.unwrap();
    tokio::time::sleep(10 * MINUTE).await;
    assert_eq!(latch.calls(), 0);
    let left = AtomicU32::new(3);
    latch.refuse(move |fact| {
        let fails = fact.position.get() == 1
            && left
                .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1))
                .is_ok();
        fails.then(|| Failure::retry("not yet"))
    });
    latch.set_healthy(true);
    latch.wait_for(5).await;
    assert_eq!(latch.positions(), [1, 2, 3, 4, 5]);
    assert_eq!(journal.publishers().parked(&Which::all(), None, 10).await.unwrap(), []);
    node.close().await;
}
