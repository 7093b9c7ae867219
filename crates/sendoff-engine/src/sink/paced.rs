//! How many events a handler gets in a second.

use std::num::{NonZeroU32, NonZeroUsize};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Sink, Verdict};
use tokio::sync::Mutex;
use tokio::time::{Instant, sleep_until};

use super::handler::{Handler, HandlerResult};
use super::typed::EventHandler;

/// Events in a second, and how many of them may come together after a quiet time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rate {
    per_second: NonZeroU32,
    burst: NonZeroU32,
}

impl Rate {
    /// So many in a second, each a part of a second after the one before.
    pub fn per_second(events: NonZeroU32) -> Self {
        Self { per_second: events, burst: NonZeroU32::MIN }
    }

    /// So many together, after a time in which there were fewer than the rate allows.
    #[must_use]
    pub fn with_burst(mut self, events: NonZeroU32) -> Self {
        self.burst = events;
        self
    }

    /// The time between two events. There is none shorter than this.
    fn step(self) -> Duration {
        (Duration::from_secs(1) / self.per_second.get()).max(Duration::from_nanos(1))
    }

    /// Of so many events that are there now: how many go, when they do, and when the next would be due if all of the burst
    /// were used up. `due` is that same time, from the events before.
    fn take(self, due: Instant, now: Instant, wanted: usize) -> (usize, Instant, Instant) {
        let due = due.max(now);
        let (step, ahead) = (self.step(), due.duration_since(now));
        let room = (step * self.burst.get()).saturating_sub(ahead);
        let fit = usize::try_from(room.as_nanos() / step.as_nanos()).unwrap_or(usize::MAX);
        let taken = wanted.min(fit).max(1);
        // The first of them waits for its own place, however many wait before it.
        let at = due.checked_sub(step * (self.burst.get() - 1)).map_or(now, |at| at.max(now));
        let steps = u32::try_from(taken).unwrap_or(u32::MAX);
        (taken, at, due + step * steps)
    }
}

/// A place is taken so long before its time, and no sooner: whoever stops waiting before leaves it to the others. Long
/// enough that a timer's ticks of a millisecond make no rate slower.
const AHEAD: Duration = Duration::from_millis(20);

/// A handler or a sink with a rate of its own; see [`paced`].
#[derive(Debug, Clone)]
pub struct Paced<T> {
    rate: Rate,
    /// Of all clones. Whoever has it is the next to go.
    due: Arc<Mutex<Option<Instant>>>,
    of: T,
}

/// Gives a handler or a sink no more events than a rate allows, on each node: for a target that bears no more, or
/// counts what it is sent. Its other events wait; no attempt is used up, and nobody else waits with them.
///
/// Clones share the rate. A run that waits for its place has one of the handler's runs, and its time limit goes on: with
/// many runs, a low rate and a short limit some of them fail, which uses up attempts. [`at_most`](crate::at_most)
/// gives it fewer runs, [`deadline`](crate::deadline) more time.
///
/// ```
/// use std::num::NonZeroU32;
///
/// use sendoff_core::Delivery;
/// use sendoff_engine::{HandlerResult, Rate, paced};
///
/// let rate = Rate::per_second(NonZeroU32::new(50).unwrap()).with_burst(NonZeroU32::new(10).unwrap());
/// let gentle = paced(rate, |_: Delivery| async { HandlerResult::Ok(()) });
/// # drop(gentle);
/// ```
pub fn paced<T>(rate: Rate, of: T) -> Paced<T> {
    Paced { rate, due: Arc::default(), of }
}

impl<T> Paced<T> {
    /// Comes back when some of so many events may go, and says how many.
    async fn place(&self, wanted: usize) -> usize {
        let (taken, at) = {
            // In the order in which they came.
            let mut due = self.due.lock().await;
            let now = Instant::now();
            let (_, at, _) = self.rate.take(due.unwrap_or(now), now, wanted);
            if at > now + AHEAD {
                sleep_until(at - AHEAD).await;
            }
            let now = Instant::now();
            let (taken, at, next) = self.rate.take(due.unwrap_or(now), now, wanted);
            *due = Some(next);
            (taken, at)
        };
        sleep_until(at).await;
        taken
    }
}

impl<H: Handler> Handler for Paced<H> {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        self.place(1).await;
        self.of.handle(delivery).await
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.of.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        self.of.deadline()
    }
}

impl<E: Send, H: EventHandler<E>> EventHandler<E> for Paced<H> {
    async fn handle(&self, event: E, delivery: Delivery) -> HandlerResult {
        self.place(1).await;
        self.of.handle(event, delivery).await
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.of.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        self.of.deadline()
    }
}

#[async_trait]
impl<S: Sink> Sink for Paced<S> {
    fn name(&self) -> &str {
        self.of.name()
    }

    /// Those that have no place yet are left out, and come again.
    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let taken = self.place(deliveries.len()).await;
        self.of.deliver(&deliveries[..taken.min(deliveries.len())]).await
    }

    fn is_healthy(&self) -> bool {
        self.of.is_healthy()
    }

    fn batch_size(&self) -> usize {
        self.of.batch_size()
    }

    fn runs_at_most(&self) -> Option<NonZeroUsize> {
        self.of.runs_at_most()
    }

    fn deadline(&self) -> Option<Duration> {
        self.of.deadline()
    }

    fn identity(&self) -> Option<usize> {
        self.of.identity()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn rate(per_second: u32, burst: u32) -> Rate {
        let number = |number| NonZeroU32::new(number).unwrap();
        Rate::per_second(number(per_second)).with_burst(number(burst))
    }

    /// When events go that all are there at the beginning, in milliseconds.
    fn gone(rate: Rate, events: usize) -> Vec<u128> {
        let begun = Instant::now();
        let mut due = begun;
        let mut one = |_| {
            let (taken, at, next) = rate.take(due, begun, 1);
            due = next;
            assert_eq!(taken, 1);
            at.duration_since(begun).as_millis()
        };
        (0..events).map(&mut one).collect()
    }

    #[test]
    fn a_burst_goes_at_once_and_the_others_one_by_one() {
        assert_eq!(gone(rate(10, 1), 4), [0, 100, 200, 300]);
        assert_eq!(gone(rate(10, 3), 6), [0, 0, 0, 100, 200, 300]);
        assert_eq!(gone(rate(1, 1), 3), [0, 1_000, 2_000]);
        assert_eq!(gone(rate(u32::MAX, 1), 3), [0, 0, 0]);
        assert_eq!(gone(rate(1, u32::MAX), 3), [0, 0, 0]);
    }

    #[test]
    fn of_a_batch_as_many_go_as_have_a_place_and_at_least_one() {
        let (rate, now) = (rate(10, 5), Instant::now());
        let (taken, at, due) = rate.take(now, now, 100);
        assert_eq!((taken, at), (5, now));
        let (taken, at, due) = rate.take(due, now, 100);
        assert_eq!((taken, at), (1, now + SECOND / 10));
        // A quiet time gives back the burst, and no more.
        let later = due + 60 * SECOND;
        let (taken, at, _) = rate.take(due, later, 100);
        assert_eq!((taken, at), (5, later));
        assert_eq!(rate.take(due, later, 2).0, 2);
    }
}
