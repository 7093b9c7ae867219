//! Tasks that must not end before they are told to.

use std::future::Future;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::{Instant, sleep};
use tokio_util::sync::CancellationToken;
use tracing::error;

use crate::sink::shield;

/// How often tasks of ours panicked and were begun again.
#[derive(Debug, Clone, Default)]
pub(crate) struct Restarts(Arc<AtomicU64>);

impl Restarts {
    pub(crate) fn count(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

/// A task that panics is begun again after this long, after twice as long the next time, and so on.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// One that ran for so long in between begins with the first pause again.
const STEADY: Duration = Duration::from_secs(60);

/// Runs a task until it ends by itself. Code of others is shielded where it is called, so a panic that
/// comes here is a mistake of ours: it is said, counted, and the task begins anew.
pub(crate) async fn supervise<F: Future<Output = ()>>(
    name: &'static str,
    restarts: Restarts,
    stop: CancellationToken,
    mut task: impl FnMut() -> F,
) {
    let mut pause = FIRST_PAUSE;
    loop {
        let began = Instant::now();
        let Err(panic) = shield(|| Box::pin(task())).await else { return };
        restarts.0.fetch_add(1, Ordering::Relaxed);
        error!(task = name, error = panic.report(), "a task panicked, and is begun again");
        if began.elapsed() >= STEADY {
            pause = FIRST_PAUSE;
        }
        if stop.run_until_cancelled(sleep(pause)).await.is_none() {
            // Not at once, or a task that panics again and again would keep its thread.
            sleep(FIRST_PAUSE).await;
        }
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

#[cfg(test)]
mod tests {
    use std::panic::panic_any;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_task_that_panics_is_begun_again_later_each_time_and_counted() {
        let (restarts, stop) = (Restarts::default(), CancellationToken::new());
        let began = Instant::now();
        let mut times = Vec::new();
        supervise("test", restarts.clone(), stop, || {
            times.push(began.elapsed().as_millis());
            let panics = times.len() < 5;
            async move {
                if panics {
                    panic_any("told to");
                }
            }
        })
        .await;
        assert_eq!(times, [0, 100, 300, 700, 1_500]);
        assert_eq!(restarts.count(), 4);
    }

    #[tokio::test(start_paused = true)]
    async fn told_to_stop_nobody_waits_for_the_next_try() {
        let stop = CancellationToken::new();
        stop.cancel();
        let (began, mut runs) = (Instant::now(), 0);
        supervise("test", Restarts::default(), stop, || {
            runs += 1;
            let panics = runs < 5;
            async move {
                if panics {
                    panic_any("told to");
                }
            }
        })
        .await;
        assert_eq!(began.elapsed(), 4 * FIRST_PAUSE);
    }
}
