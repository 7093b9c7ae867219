//! When the poller looks at the table before its interval is over.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

use crate::lock::lock;
use crate::until::until;

/// Times are kept in grains of this many milliseconds, so that a thousand retries are a few rings.
const GRAIN: u64 = 10;

/// When the poller should look again before its interval is over.
///
/// Affects latency only (I7): a ring that is lost is covered by the interval, and so are times
/// beyond it, which are not remembered at all. That bounds the memory.
#[derive(Debug)]
pub(crate) struct Alarm {
    interval: Duration,
    started: Instant,
    /// In grains since the start.
    times: Mutex<BTreeSet<u64>>,
    changed: Notify,
}

impl Alarm {
    pub(crate) fn new(interval: Duration) -> Self {
        let started = Instant::now();
        Self { interval, started, times: Mutex::default(), changed: Notify::new() }
    }

    /// Rings at once.
    pub(crate) fn ring(&self) {
        self.set(self.millis() / GRAIN);
    }

    /// Rings after `delay`.
    pub(crate) fn ring_after(&self, delay: Duration) {
        if delay < self.interval {
            let delay = u64::try_from(delay.as_millis()).unwrap_or(u64::MAX);
            self.set(self.millis().saturating_add(delay) / GRAIN + 1);
        }
    }

    /// Waits for the next ring, or for the interval. Cancel-safe: a ring is kept until it is heard.
    pub(crate) async fn wait(&self) {
        self.wait_for(self.interval).await;
    }

    /// The same, for so long at most.
    pub(crate) async fn wait_for(&self, longest: Duration) {
        let end = Instant::now() + longest;
        loop {
            let next = self.next().map_or(end, |at| at.min(end));
            tokio::select! {
                biased;
                () = until(next) => break,
                () = self.changed.notified() => {}
            }
        }
        let now = self.millis() / GRAIN;
        lock(&self.times).retain(|&at| at > now);
    }

    fn set(&self, at: u64) {
        let earliest = {
            let mut times = lock(&self.times);
            times.insert(at) && times.first() == Some(&at)
        };
        if earliest {
            self.changed.notify_one();
        }
    }

    fn next(&self) -> Option<Instant> {
        let grains = *lock(&self.times).first()?;
        Some(self.started + Duration::from_millis(grains.saturating_mul(GRAIN)))
    }

    fn millis(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MINUTE: Duration = Duration::from_secs(60);

    async fn waited(alarm: &Alarm) -> Duration {
        let start = Instant::now();
        alarm.wait().await;
        start.elapsed()
    }

    #[tokio::test(start_paused = true)]
    async fn it_rings_for_the_earliest_time_and_then_for_the_next() {
        let alarm = Alarm::new(MINUTE);
        alarm.ring_after(Duration::from_millis(400));
        alarm.ring_after(Duration::from_millis(200));
        assert_eq!(waited(&alarm).await.as_millis(), 210);
        assert_eq!(waited(&alarm).await.as_millis(), 200);
        assert_eq!(waited(&alarm).await, MINUTE);
    }

    #[tokio::test(start_paused = true)]
    async fn a_ring_during_the_wait_cuts_it_short_and_one_before_it_is_kept() {
        let alarm = Alarm::new(MINUTE);
        alarm.ring();
        assert!(waited(&alarm).await < Duration::from_millis(2));
        alarm.ring_after(Duration::from_secs(30));
        let ring = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            alarm.ring();
        };
        let (waited, ()) = tokio::join!(waited(&alarm), ring);
        assert_eq!(waited.as_secs(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn times_beyond_the_interval_are_left_to_the_interval() {
        let alarm = Alarm::new(MINUTE);
        alarm.ring_after(MINUTE);
        assert!(lock(&alarm.times).is_empty());
    }
}
