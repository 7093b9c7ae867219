//! Relays at work: every event once, failures, stops.

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Failure, FailureClass, Status};
use sendoff_engine::relay::{BatchReport, ClaimMode, Relay, RelayOptions};
use sendoff_engine::{
    CircuitOptions, Counters, HandlerOptions, HandlerResult, NodeOptions, RetryOptions,
};
use tokio::sync::Notify;

use super::{Relayed, contents, options, statuses};
use crate::conformance::Probe;
use crate::conformance::probe::due;
use crate::history::{Expectations, History, check};
use crate::wait::eventually;

/// Two relays with several workers each: every event once, judged by the checker. Holds L1 and S5.
pub async fn consumers_never_get_the_same_event<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let history = History::new();
    let rows: Vec<_> = (0..120).map(|n| due(Event::json("t", &n).expect("an event"))).collect();
    probe.commit(&rows).await;
    rows.iter().for_each(|row| history.committed(&row.event));
    let mut running = Vec::new();
    for node in ["one", "two"] {
        let (history, stop) = (history.clone(), Arc::new(Notify::new()));
        let told = stop.clone();
        let options = RelayOptions { batch: 7, workers: 3, ..options(mode) };
        let relay = Relay::builder(probe.store().clone()).options(options);
        let relay = relay
            .build(move |delivery: Delivery| {
                let run = history.delivery_started(node, &delivery);
                async move {
                    tokio::task::yield_now().await;
                    run.finished(true);
                    Ok(())
                }
            })
            .expect("the configuration is good");
        running.push((stop, tokio::spawn(async move { relay.run(told.notified()).await })));
    }
    eventually("all of them", async || probe.topics().await[0].counts.done == 120).await;
    for (stop, relay) in running {
        stop.notify_one();
        relay.await.expect("no panic");
    }
    for row in &rows {
        let (status, attempts) = match probe.find(row.event.id()).await {
            Some(row) => (row.status, row.attempts),
            None => (Status::Done, 0),
        };
        history.stands(row.event.id(), status, attempts);
    }
    let verdict = check(&history, &Expectations { healed: true, ..Expectations::default() });
    assert!(verdict.is_clean(), "{verdict}");
}

/// One batch, and its report. Holds L1.
pub async fn process_once_handles_one_batch<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    probe.commit_due(5).await;
    let seen = Arc::new(AtomicUsize::new(0));
    let counter = seen.clone();
    let handler = move |_: Delivery| {
        counter.fetch_add(1, Ordering::Relaxed);
        async { Ok(()) }
    };
    let options = RelayOptions { batch: 3, ..options(mode) };
    let relay = Relay::builder(probe.store().clone()).options(options).build(handler).unwrap();
    let report = |done| Some(BatchReport { done, ..BatchReport::default() });
    assert_eq!(relay.process_once().await.unwrap(), report(3));
    assert_eq!(relay.process_once().await.unwrap(), report(2));
    assert_eq!(relay.process_once().await.unwrap(), None);
    assert_eq!(seen.load(Ordering::Relaxed), 5);
}

/// Everything ends, and every kind of end is counted. Holds L1 and M2.
pub async fn a_relay_works_everything_off_and_counts_it<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let kinds: Vec<_> = (0..60).map(|n| if n % 6 == 0 { "bad" } else { "good" }).collect();
    let rows: Vec<_> =
        kinds.iter().map(|kind| due(Event::json(*kind, &0).expect("an event"))).collect();
    probe.commit(&rows).await;
    let counters = Arc::new(Counters::default());
    let options = RelayOptions {
        batch: 20,
        retry: RetryOptions { max_attempts: 2, base: Duration::ZERO, ..RetryOptions::default() },
        // In the end nothing but bad ones is left, which looks like an outage.
        handler: HandlerOptions { circuit: CircuitOptions::off(), ..HandlerOptions::default() },
        pending_interval: Some(Duration::from_millis(1)),
        ..options(mode)
    };
    let relay = Relay::builder(probe.store().clone()).options(options).metrics(counters.clone());
    let relay = relay
        .build(async |delivery: Delivery| -> HandlerResult {
            if delivery.event_type() == "bad" { Err(Failure::retry("bad")) } else { Ok(()) }
        })
        .unwrap();
    let over = async {
        eventually("the end of all", async || {
            probe.pass(1).await;
            let values = counters.values();
            // What is pending is sampled, and told a little later.
            (values.processed, values.dead, values.pending) == (50, 10, 0)
        })
        .await;
    };
    relay.run(over).await;
    assert_eq!(relay.process_once().await.unwrap(), None);
    let values = counters.values();
    assert_eq!((values.processed, values.errors), (50, 20), "each bad one failed twice");
    assert_eq!((values.retries, values.dead), (10, 10));
    assert!(values.batches >= 4 && values.all_batches >= values.last_batch);
    assert!(values.pending_samples >= 1);
    assert_eq!(values.pending, 0);
}

/// Each is a failed attempt, by the classifier's word where there is one, and the hook hears of it.
/// Holds L3.
pub async fn a_slow_handler_a_panic_and_a_classified_failure_cost_one_attempt_each<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let kinds = ["slow", "panic", "hopeless", "odd", "good"];
    let rows: Vec<_> = kinds.map(|kind| due(Event::json(kind, &0).expect("an event"))).to_vec();
    probe.commit(&rows).await;
    let heard: Arc<Mutex<BTreeSet<EventId>>> = Arc::default();
    let hook = heard.clone();
    let options = RelayOptions {
        handler: HandlerOptions {
            timeout: Some(Duration::from_millis(50)),
            ..HandlerOptions::default()
        },
        ..options(mode)
    };
    let relay = Relay::builder(probe.store().clone())
        .options(options)
        .classify(|_, failure| {
            let text = failure.report();
            assert!(!text.contains("odd"), "a classifier may fail too");
            if text.contains("hopeless") { FailureClass::Dead } else { FailureClass::Retry }
        })
        .on_failure(move |delivery, _| {
            hook.lock().unwrap().insert(delivery.id());
            assert_ne!(delivery.event_type(), "odd", "and so may a hook");
        })
        .build(async |delivery: Delivery| -> HandlerResult {
            match delivery.event_type() {
                "slow" => std::future::pending().await,
                "panic" => panic!("a panic"),
                "good" => Ok(()),
                kind => Err(Failure::retry(kind.to_owned())),
            }
        })
        .unwrap();
    let report = relay.process_once().await.unwrap().expect("five are due");
    let expected = BatchReport { done: 1, retried: 3, dead: 1, ..BatchReport::default() };
    assert_eq!(report, expected);
    let ids: Vec<_> = rows.iter().map(|row| row.event.id()).collect();
    for id in &ids[..4] {
        assert_eq!(probe.row(*id).await.attempts, 1);
    }
    let slow = probe.row(ids[0]).await.last_error.expect("an error");
    assert!(slow.contains("did not finish within 50ms"), "{slow}");
    assert_eq!(probe.row(ids[1]).await.last_error.as_deref(), Some("panicked: a panic"));
    assert_eq!(*heard.lock().unwrap(), ids[..4].iter().copied().collect());
}

/// A relay whose handler waits until told, with what it is doing.
fn waiting<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) -> (Relay, Arc<Notify>, Arc<Notify>) {
    let (began, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let (tell, wait) = (began.clone(), go_on.clone());
    let options = RelayOptions {
        node: NodeOptions { drain_timeout: Duration::ZERO, ..NodeOptions::default() },
        workers: 1,
        ..options(mode)
    };
    let relay = Relay::builder(probe.store().clone()).options(options);
    let relay = relay
        .build(move |_: Delivery| {
            let (tell, wait) = (tell.clone(), wait.clone());
            async move {
                tell.notify_one();
                wait.notified().await;
                Ok(())
            }
        })
        .unwrap();
    (relay, began, go_on)
}

/// What a stop cuts off, or never reached, is put back exactly; what was done stays done. Holds L4.
pub async fn a_stop_is_not_an_attempt<H: Relayed>(probe: &Probe<H>, mode: ClaimMode) {
    let written = probe.commit_due(3).await;
    let before = contents(probe, &written[1..]).await;
    let (relay, began, go_on) = waiting(probe, mode);
    relay
        .run(async {
            began.notified().await;
            go_on.notify_one();
            began.notified().await;
        })
        .await;
    assert_eq!(statuses(probe, &written[..1]).await, [Status::Done]);
    assert_eq!(contents(probe, &written[1..]).await, before);
}

/// A run that is dropped rolls back. Holds L4.
pub async fn a_dropped_run_restores_what_was_in_work<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let written = probe.commit_due(3).await;
    let before = contents(probe, &written).await;
    let (relay, began, _) = waiting(probe, mode);
    let run = tokio::spawn(async move { relay.run(std::future::pending()).await });
    began.notified().await;
    run.abort();
    eventually("the rollback", async || contents(probe, &written).await == before).await;
    let (relay, began, _) = waiting(probe, mode);
    // The rows are free again: another one gets them.
    let other = tokio::spawn(async move { relay.run(std::future::pending()).await });
    began.notified().await;
    other.abort();
}

/// A handler that takes longer than the hold keeps its event. Holds S5 and L1.
pub async fn holds_are_extended_while_a_handler_runs<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    let id = probe.commit_due(1).await[0];
    let hold = Duration::from_secs(1);
    let builder = || Relay::builder(probe.store().clone());
    let began = Arc::new(Notify::new());
    let tell = began.clone();
    let slow = move |_: Delivery| {
        tell.notify_one();
        async {
            tokio::time::sleep(Duration::from_millis(2_200)).await;
            Ok(())
        }
    };
    let slow = builder().options(RelayOptions { hold, ..options(mode) }).build(slow).unwrap();
    // Its own hold is longer, and so are its statements' limits.
    let rival = builder().options(options(mode)).build(async |_: Delivery| Ok(())).unwrap();
    let work = tokio::spawn(async move { slow.process_once().await });
    began.notified().await;
    while !work.is_finished() {
        let taken = rival.process_once().await.unwrap();
        assert_eq!(taken, None, "taken from under a running handler");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let report = work.await.unwrap().unwrap();
    assert_eq!(report, Some(BatchReport { done: 1, ..BatchReport::default() }));
    assert_eq!(statuses(probe, &[id]).await, [Status::Done]);
}

/// Counting what is pending is off by default, and has a least interval. Holds M2.
pub async fn pending_is_counted_only_when_asked_and_not_too_often<H: Relayed>(
    probe: &Probe<H>,
    mode: ClaimMode,
) {
    probe.commit_due(3).await;
    for (pending_interval, samples) in [(None, 0), (Some(Duration::from_secs(3_600)), 1)] {
        let counters = Arc::new(Counters::default());
        let options = RelayOptions { batch: 1, pending_interval, ..options(mode) };
        let relay =
            Relay::builder(probe.store().clone()).options(options).metrics(counters.clone());
        let relay = relay.build(async |_: Delivery| Err(Failure::dead("no"))).unwrap();
        relay.process_once().await.unwrap();
        let pending = probe.topics().await[0].counts.pending();
        relay.process_once().await.unwrap();
        assert_eq!(counters.values().pending_samples, samples);
        assert_eq!(counters.values().pending, pending * samples);
    }
}
