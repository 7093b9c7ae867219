//! Waiting for what has no signal of its own.

use std::time::Duration;

use tokio::time::{Instant, sleep};

/// Runs a case of a suite to its end, on real threads: two claimers on one thread would never meet.
pub(crate) fn on_threads(case: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .expect("a runtime can be built");
    runtime.block_on(case);
}

/// How long a condition may take on a busy machine.
const DEADLINE: Duration = Duration::from_secs(20);

/// Polls a condition until it holds.
///
/// # Panics
/// With `what`, if it does not hold in time.
pub async fn eventually(what: &str, condition: impl AsyncFnMut() -> bool) {
    within(DEADLINE, what, condition).await;
}

/// Asks until there is an answer.
///
/// # Panics
/// With `what`, if there is none in time.
pub async fn answer<T>(what: &str, mut ask: impl AsyncFnMut() -> Option<T>) -> T {
    let mut found = None;
    eventually(what, async || {
        found = ask().await;
        found.is_some()
    })
    .await;
    found.expect("it was there")
}

/// Polls a condition until it holds, for at most `time`, which may be paused.
///
/// # Panics
/// With `what`, if it does not hold in time.
pub async fn within(time: Duration, what: &str, mut condition: impl AsyncFnMut() -> bool) {
    let deadline = Instant::now() + time;
    while !condition().await {
        assert!(Instant::now() < deadline, "still waiting for: {what}");
        sleep(Duration::from_millis(5)).await;
    }
}
