//! Hands out the orders of the demo in windows: between two of them everything begun is finished
//! and can be judged.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::options::Amount;

/// Hands out the numbers of the orders to place, and keeps writers to a rate.
///
/// Orders come in windows. Nobody gets a number beyond the window that is open, so that there is a
/// moment at which everything begun is finished and can be judged.
#[derive(Debug)]
pub(crate) struct Quota {
    state: Mutex<State>,
    changed: Condvar,
    interval: Duration,
    window: u64,
}

#[derive(Debug)]
struct State {
    next: u64,
    window_end: u64,
    /// The number after the last order; none is endless.
    end: Option<u64>,
    unfinished: u64,
    stopped: bool,
    due: Instant,
}

/// Where the writers are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rest {
    /// Some are at work, or will be.
    Busy,
    /// Every order of the window is finished; the writers wait for the next one.
    Window,
    /// There will be no more orders.
    End,
}

impl Quota {
    pub(crate) fn new(first: u64, amount: Amount, rate: Option<u32>, window: u64) -> Self {
        let end = match amount {
            Amount::Exactly(count) => Some(first.saturating_add(count)),
            Amount::Endless => None,
        };
        let interval = rate.map_or(Duration::ZERO, |rate| Duration::from_secs(1) / rate);
        let state = State {
            next: first,
            window_end: first.saturating_add(window),
            end,
            unfinished: 0,
            stopped: false,
            due: Instant::now(),
        };
        Self { state: Mutex::new(state), changed: Condvar::new(), interval, window }
    }

    /// Waits for the next order; none when there are no more.
    pub(crate) fn take(&self) -> Option<Ticket<'_>> {
        let mut state = self.lock();
        loop {
            if state.is_over() {
                return None;
            }
            let now = Instant::now();
            if state.next >= state.window_end {
                state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
            } else if state.due > now {
                let wait = state.due - now;
                let woken = self.changed.wait_timeout(state, wait);
                state = woken.unwrap_or_else(PoisonError::into_inner).0;
            } else {
                // Whoever is late by more than a moment does not make up for it in a rush.
                let catch_up = now.checked_sub(Duration::from_millis(100)).unwrap_or(now);
                state.due = state.due.max(catch_up) + self.interval;
                state.unfinished += 1;
                state.next += 1;
                return Some(Ticket { quota: self, order: state.next - 1 });
            }
        }
    }

    pub(crate) fn rest(&self) -> Rest {
        let state = self.lock();
        if state.unfinished > 0 {
            Rest::Busy
        } else if state.is_over() {
            Rest::End
        } else if state.next >= state.window_end {
            Rest::Window
        } else {
            Rest::Busy
        }
    }

    /// Lets the writers go on with the next window.
    pub(crate) fn open_window(&self) {
        let mut state = self.lock();
        state.window_end = state.next.saturating_add(self.window);
        self.changed.notify_all();
    }

    /// Hands out nothing more.
    pub(crate) fn stop(&self) {
        self.lock().stopped = true;
        self.changed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Every change is one that cannot panic half-way.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn is_over(&self) -> bool {
        self.stopped || self.end.is_some_and(|end| self.next >= end)
    }
}

/// An order to place. Dropping it says that it is placed, or given up.
#[derive(Debug)]
pub(crate) struct Ticket<'q> {
    quota: &'q Quota,
    pub(crate) order: u64,
}

impl Drop for Ticket<'_> {
    fn drop(&mut self) {
        self.quota.lock().unfinished -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_is_at_rest_when_every_order_of_it_is_finished() {
        let quota = Quota::new(5, Amount::Exactly(3), None, 2);
        let (first, second) = (quota.take().unwrap(), quota.take().unwrap());
        assert_eq!((first.order, second.order), (5, 6));
        drop(second);
        assert_eq!(quota.rest(), Rest::Busy);
        drop(first);
        assert_eq!(quota.rest(), Rest::Window);

        quota.open_window();
        assert_eq!(quota.take().map(|ticket| ticket.order), Some(7));
        assert!(quota.take().is_none());
        assert_eq!(quota.rest(), Rest::End);
    }

    #[test]
    fn stopping_wakes_a_writer_that_waits_for_its_time_or_its_window() {
        let slow = Quota::new(1, Amount::Endless, Some(1), 10);
        let full = Quota::new(1, Amount::Endless, None, 1);
        std::thread::scope(|scope| {
            for quota in [&slow, &full] {
                drop(quota.take());
                let waiting = scope.spawn(|| quota.take().is_none());
                quota.stop();
                assert!(waiting.join().unwrap());
            }
        });
    }
}
