use std::collections::BTreeMap;
use std::future::pending;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};

use sendoff_core::journal::Fact;
use sendoff_core::journal::publish::CursorStatus;
use sendoff_core::{Delivery, EventId, Failure};
use sendoff_engine::journal::publish::{FnPublisher, HandlerPublisher, PairOptions, Publishing};
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
    assert!(healed.elapsed() <= 2 * MINUTE, "{:?}", healed.elapsed());
    assert_eq!(node.statistics().parked, 0);
    node.close().await;
}

/// A publisher that panics or hangs has failed, and nothing else.
#[tokio::test(start_paused = true)]
async fn a_panic_and_a_hang_are_failures() {
    let (journal, fine) = (journal(), Latch::new("fine"));
    append(&journal, 3).await;
    let runs = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&runs);
    let wild = FnPublisher::new("wild", move |_| {
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
    let options = PairOptions { max_attempts: 2, ..PairOptions::default() };
    let publisher = Arc::new(HandlerPublisher::new("p", handler));
    let node = Publishing::builder(&journal).pair_with(&everything(), publisher, options);
    let node = node.start().await.unwrap();
    let of = |id| seen.lock().unwrap().get(&id).cloned().unwrap_or_default();
    let published = async || of(poison).len() == 6;
    within(60 * MINUTE, "the parked one is published", published).await;
    assert_eq!([of(ids[0]), of(poison), of(ids[2])], [vec![1], (1..=6).collect(), vec![1]]);
    node.close().await;
}
