//! Batches whose future is dropped at every await.

use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use sendoff_core::{Delivery, Event};
use sendoff_engine::NodeOptions;
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions};
use sendoff_engine::store::{Birth, InspectStore, NewRow};

use super::node::relay_options;
use super::{EVENT, OrdealHarness};
use crate::history::{Expectations, Fault, FaultKind, History, check};
use crate::wait::within;

const PLENTY: Duration = Duration::from_secs(60);
const HOLD: Duration = Duration::from_millis(500);
/// More than a batch waits for.
const MOST: usize = 200;

/// Is over, without an answer, when it would be polled once more than so many times.
struct Polled<F> {
    future: F,
    left: usize,
}

impl<F: Future + Unpin> Future for Polled<F> {
    type Output = Option<F::Output>;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Self::Output> {
        if self.left == 0 {
            return Poll::Ready(None);
        }
        self.left -= 1;
        Pin::new(&mut self.future).poll(cx).map(Some)
    }
}

/// Fault 21: a batch whose future is dropped at its first, second, third… wait is done or not, but
/// never half, and the connection it was on serves the next one.
pub async fn a_batch_dropped_at_any_await_is_never_half_done(
    harness: &impl OrdealHarness,
    mode: ClaimMode,
) {
    let history = History::new();
    let store = harness.store().await;
    let options = RelayOptions { hold: HOLD, node: NodeOptions::default(), ..relay_options(mode) };
    let log = history.clone();
    let handler = move |delivery: Delivery| {
        let run = log.delivery_started("node/batch", &delivery);
        async move {
            tokio::task::yield_now().await;
            run.finished(true);
            Ok(())
        }
    };
    let relay = Relay::builder(store.clone()).options(options).build(handler).unwrap();
    let mut written = 0;
    for polls in 1..MOST {
        let events: Vec<_> = (0..2).map(|n| Event::json(EVENT, &n).unwrap()).collect();
        events.iter().for_each(|event| history.committed(event));
        let due = |event: &Event| NewRow { event: event.clone(), birth: Birth::Due };
        harness.write(&store, &events.iter().map(due).collect::<Vec<_>>()).await;
        written += events.len() as u64;
        let batch = Box::pin(relay.process_once());
        let ended = Polled { future: batch, left: polls }.await;
        // Whoever is dropped after the delivery is like one that went down.
        history.fault(Fault::everywhere(FaultKind::Crash));
        if ended.is_some_and(|ended| ended.is_ok_and(|report| report.is_some())) {
            break;
        }
        assert!(polls + 1 < MOST, "a batch waits for more than {MOST} things");
    }
    let over = async || {
        relay.process_once().await.unwrap();
        store.counts().await.unwrap().pending() == 0
    };
    within(PLENTY, "everything to end", over).await;
    let counts = store.counts().await.unwrap();
    assert_eq!((counts.done, counts.dead), (written, 0));
    let verdict = check(&history, &Expectations { healed: true, ..Default::default() });
    assert!(verdict.is_clean(), "{verdict}");
}
