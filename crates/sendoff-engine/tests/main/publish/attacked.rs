//! Publishers that want no more in every state, that are paced, and that settle facts in ways that nobody wants.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::journal::publish::{CursorStatus, Poison};
use sendoff_core::{Delivery, Event, Failure};
use sendoff_engine::journal::publish::{PairOptions, ParkedOptions, Publishing, Which};
use sendoff_engine::memory::MemoryStore;
use sendoff_engine::sink::BatchSink;
use sendoff_engine::store::PauseStore;
use sendoff_engine::{Outbox, Rate, RetryOptions, paced};
use sendoff_testkit::journal::Latch;
use sendoff_testkit::wait::within;
use tokio::time::{Instant, sleep};

use super::{Log, MINUTE, append, cursor, everything, journal, stored};
use crate::SECOND;

/// A publisher that has parked its second fact of five, and refuses from then on with what is given.
async fn refuses_what_it_parked(refusal: fn() -> Failure) -> (Log, Latch, Publishing) {
    let (journal, hook) = (journal(), Latch::new("hook"));
    hook.refuse(|fact| (fact.position.get() == 2).then(|| Failure::dead("poison")));
    append(&journal, 5).await;
    let parked = ParkedOptions { base: SECOND, max: SECOND, max_attempts: 5, ..Default::default() };
    let options = PairOptions { poison: Poison::Park, parked, ..PairOptions::default() };
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), hook.publisher(), options)
        .start()
        .await
        .unwrap();
    stored(&journal, "hook", 5).await;
    hook.refuse(move |_| Some(refusal()));
    sleep(60 * MINUTE).await;
    (journal, hook, node)
}

/// A fact is parked; then its publisher is disabled, and nothing new comes.
#[tokio::test(start_paused = true)]
async fn a_parked_fact_uses_up_no_attempt_while_its_publisher_is_disabled() {
    let (journal, hook, node) = refuses_what_it_parked(|| Failure::disable("410")).await;
    assert_eq!(cursor(&journal, "hook").await.status, CursorStatus::Failed);
    let before = hook.calls();
    sleep(60 * MINUTE).await;
    assert_eq!(hook.calls(), before, "nothing is tried while it is stopped");
    hook.accept();
    journal.publishers().reset(&Which::all()).await.unwrap();
    within(10 * MINUTE, "the parked one", async || hook.positions().contains(&2)).await;
    node.close().await;
}

/// The same, where the target is only unavailable.
#[tokio::test(start_paused = true)]
async fn a_parked_fact_uses_up_no_attempt_while_its_target_is_unavailable() {
    let down = || Failure::unavailable(SECOND, "down");
    let (_journal, hook, node) = refuses_what_it_parked(down).await;
    hook.accept();
    within(10 * MINUTE, "the parked one", async || hook.positions().contains(&2)).await;
    node.close().await;
}

/// Disabled for one fact of a batch, in each poison mode; reset while it is still gone, ten times.
#[tokio::test(start_paused = true)]
async fn a_publisher_that_is_reset_while_it_is_gone_stops_again_and_loses_nothing() {
    for poison in [Poison::Wait, Poison::Park, Poison::Fail { after: MINUTE }] {
        let (journal, hook) = (journal(), Latch::new("hook"));
        hook.refuse(|fact| (fact.position.get() >= 7).then(|| Failure::disable("410")));
        append(&journal, 20).await;
        let options = PairOptions { poison, ..PairOptions::default() };
        let node = Publishing::builder(&journal)
            .pair_with(&everything(), hook.publisher(), options)
            .start()
            .await
            .unwrap();
        let failed = async || cursor(&journal, "hook").await.status == CursorStatus::Failed;
        for _ in 0..10 {
            within(5 * MINUTE, "it stops", failed).await;
            assert!(cursor(&journal, "hook").await.position.get() <= 6, "{poison:?}");
            sleep(MINUTE).await;
            journal.publishers().reset(&Which::all()).await.unwrap();
            sleep(SECOND).await;
        }
        within(5 * MINUTE, "it stops", failed).await;
        hook.accept();
        journal.publishers().reset(&Which::all()).await.unwrap();
        hook.wait_for(20).await;
        assert_eq!(hook.positions(), (1..=20).collect::<Vec<_>>(), "{poison:?}");
        node.close().await;
    }
}

/// Facts go at the rate and in order, with a publisher that takes batches.
#[tokio::test(start_paused = true)]
async fn a_paced_publisher_keeps_order_and_rate_and_reports_no_error() {
    let journal = journal();
    append(&journal, 300).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let taken = seen.clone();
    let sink = BatchSink::new("gentle", move |facts: Vec<Delivery>| {
        let seen = taken.clone();
        async move {
            seen.lock().unwrap().extend(facts.iter().map(|fact| fact.position().unwrap().get()));
            Ok(())
        }
    });
    let rate = Rate::per_second(10.try_into().unwrap()).with_burst(3.try_into().unwrap());
    let begun = Instant::now();
    let node = Publishing::builder(&journal)
        .pair(&everything(), Arc::new(paced(rate, sink)))
        .start()
        .await
        .unwrap();
    let mut errors = 0;
    while seen.lock().unwrap().len() < 300 && begun.elapsed() < 10 * MINUTE {
        errors = errors.max(cursor(&journal, "gentle").await.errors);
        sleep(SECOND).await;
    }
    let took = begun.elapsed();
    node.close().await;
    assert_eq!(*seen.lock().unwrap(), (1..=300).collect::<Vec<_>>());
    assert!(errors == 0 && took > 29 * SECOND && took < 40 * SECOND, "{errors} {took:?}");
}

/// Whatever a publisher does, the projection has each fact once.
#[tokio::test(start_paused = true)]
async fn whatever_a_publisher_does_that_settles_in_each_fact_is_projected_once_and_in_order() {
    for seed in 0..25_u64 {
        let (journal, store) = (journal(), MemoryStore::new());
        let mut nodes = Vec::new();
        let zombies = Arc::new(AtomicUsize::new(0));
        for node in 0..2_u64 {
            let rng = Arc::new(Mutex::new(fastrand::Rng::with_seed(seed * 10 + node)));
            let (facts_of, store, zombies) = (journal.clone(), store.clone(), zombies.clone());
            let sink = BatchSink::new("p", move |facts: Vec<Delivery>| {
                let (journal, store) = (facts_of.clone(), store.clone());
                let mut rng = rng.lock().unwrap().fork();
                let zombies = zombies.clone();
                async move {
                    let outbox = Outbox::writer_only(store.clone());
                    let upto = rng.usize(1..=facts.len());
                    let mut parts = vec![&facts[..upto]];
                    if rng.bool() && upto < facts.len() {
                        parts.push(&facts[upto..]);
                    }
                    let is_part = parts.iter().map(|part| part.len()).sum::<usize>() < facts.len();
                    for part in parts {
                        let mut tx = store.transaction()?;
                        for fact in part {
                            let at = fact.position().unwrap().get();
                            let of = Event::json("projected", &at).unwrap();
                            drop(outbox.write(&mut tx, of).await.unwrap());
                        }
                        sleep(SECOND / 10 * rng.u32(0..20)).await;
                        if rng.u8(0..8) == 0 {
                            let (journal, part) = (journal.clone(), part.to_vec());
                            let wait = SECOND / 10 * rng.u32(0..300);
                            zombies.fetch_add(1, Ordering::SeqCst);
                            tokio::spawn(async move {
                                sleep(wait).await;
                                if journal.settle_in(&part, &mut tx).await.is_ok() {
                                    sleep(wait / 2).await;
                                    let _ = tx.commit();
                                }
                            });
                            if rng.bool() {
                                std::future::pending::<()>().await;
                            }
                            return Err("left to another".into());
                        }
                        journal.settle_in(part, &mut tx).await?;
                        match rng.u8(0..8) {
                            0 => {
                                // Again, in the same transaction.
                                let _ = journal.settle_in(part, &mut tx).await;
                                tx.commit()?;
                            }
                            1 => drop(tx),
                            2 => panic!("open"),
                            3 => {
                                tx.commit()?;
                                panic!("committed");
                            }
                            4 => {
                                let wait = SECOND / 10 * rng.u32(0..300);
                                let commits = rng.bool();
                                tokio::spawn(async move {
                                    sleep(wait).await;
                                    if commits {
                                        let _ = tx.commit();
                                    }
                                });
                                if rng.bool() {
                                    std::future::pending::<()>().await;
                                }
                            }
                            5 => {
                                tx.commit()?;
                                return Err("after the commit".into());
                            }
                            _ => tx.commit()?,
                        }
                    }
                    match is_part {
                        true => Err("the rest was not projected".into()),
                        false => Ok(()),
                    }
                }
            });
            let options = PairOptions {
                settles_in: true,
                publish_timeout: 6 * SECOND,
                batch: 7,
                interval: SECOND,
                retry: RetryOptions { base: SECOND, max: SECOND, ..RetryOptions::default() },
                ..PairOptions::default()
            };
            let node = Publishing::builder(&journal)
                .pair_with(&everything(), Arc::new(sink), options)
                .start()
                .await
                .unwrap();
            nodes.push(node);
        }
        append(&journal, 60).await;
        let whole = async || cursor(&journal, "p").await.position.get() == 60;
        within(Duration::from_secs(7_200), &format!("seed {seed}"), whole).await;
        sleep(MINUTE).await;
        let read = |row: &sendoff_engine::store::Row| {
            serde_json::from_slice::<u64>(row.event.payload()).unwrap()
        };
        let mut all: Vec<u64> = store.rows().iter().map(read).collect();
        all.sort_unstable();
        assert_eq!(all, (1..=60).collect::<Vec<_>>(), "seed {seed}");
        for node in nodes {
            node.close().await;
        }
        assert!(store.pauses().await.unwrap().is_empty());
    }
}

/// Of seven facts three are settled, and that is called a success: the others are not passed over.
#[tokio::test(start_paused = true)]
async fn what_a_successful_run_did_not_settle_after_it_settled_some_is_not_passed_over() {
    let (journal, store) = (journal(), MemoryStore::new());
    append(&journal, 7).await;
    let seen = Arc::new(Mutex::new(Vec::new()));
    let (facts_of, target, settled) = (journal.clone(), store.clone(), seen.clone());
    let sink = BatchSink::new("p", move |facts: Vec<Delivery>| {
        let (journal, store, settled) = (facts_of.clone(), target.clone(), settled.clone());
        async move {
            let part = &facts[..facts.len().min(3)];
            let mut tx = store.transaction()?;
            journal.settle_in(part, &mut tx).await?;
            tx.commit()?;
            settled.lock().unwrap().extend(part.iter().map(|fact| fact.position().unwrap().get()));
            Ok(())
        }
    });
    let options = PairOptions { settles_in: true, interval: SECOND, ..PairOptions::default() };
    let node = Publishing::builder(&journal)
        .pair_with(&everything(), Arc::new(sink), options)
        .start()
        .await
        .unwrap();
    sleep(10 * MINUTE).await;
    let at = cursor(&journal, "p").await.position.get();
    node.close().await;
    assert_eq!(
        *seen.lock().unwrap(),
        (1..=7).collect::<Vec<_>>(),
        "settled; the cursor is at {at}"
    );
}
