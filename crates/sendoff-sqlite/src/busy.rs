//! Waiting for another connection's lock.
//!
//! SQLite's own handler climbs a ladder of up to 100 ms, in steps that are the same for everybody, so
//! a writer often sleeps through the moment the lock is free. Ours looks again every one or two
//! milliseconds, at random.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rusqlite::Connection;

/// Different timeouts in one process; the ones that come later get SQLite's handler.
const SLOTS: usize = 8;

/// A busy handler is a plain function and can capture nothing, so each timeout in use has a slot
/// here, and each slot has its function. In microseconds; 0 is a free slot.
static TIMEOUTS: [AtomicU64; SLOTS] = [const { AtomicU64::new(0) }; SLOTS];
static HANDLERS: [fn(i32) -> bool; SLOTS] =
    [wait::<0>, wait::<1>, wait::<2>, wait::<3>, wait::<4>, wait::<5>, wait::<6>, wait::<7>];

/// Makes `conn` wait for locks up to `timeout`.
pub(crate) fn install(conn: &Connection, timeout: Duration) -> rusqlite::Result<()> {
    if timeout.is_zero() {
        return conn.busy_handler(None);
    }
    match slot_of(timeout) {
        Some(slot) => conn.busy_handler(Some(HANDLERS[slot])),
        None => conn.busy_timeout(timeout),
    }
}

/// Sleeps for a step. `Pause` ends when its time is over.
pub(crate) struct Pause(Instant);

impl Pause {
    pub(crate) fn until(timeout: Duration) -> Self {
        Self(Instant::now() + timeout)
    }

    /// Whether there was time for another step.
    pub(crate) fn step(&self) -> bool {
        step(self.0)
    }
}

fn step(deadline: Instant) -> bool {
    if Instant::now() >= deadline {
        return false;
    }
    std::thread::sleep(Duration::from_micros(fastrand::u64(1_000..2_000)));
    true
}

fn slot_of(timeout: Duration) -> Option<usize> {
    let micros = u64::try_from(timeout.as_micros()).unwrap_or(u64::MAX).max(1);
    TIMEOUTS.iter().position(|slot| {
        match slot.compare_exchange(0, micros, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => true,
            Err(taken) => taken == micros,
        }
    })
}

fn wait<const SLOT: usize>(earlier: i32) -> bool {
    thread_local! {
        // One statement waits at a time on a thread, and it says when it begins.
        static SINCE: Cell<Option<Instant>> = const { Cell::new(None) };
    }
    let since = match SINCE.get() {
        Some(since) if earlier > 0 => since,
        _ => Instant::now(),
    };
    SINCE.set(Some(since));
    step(since + Duration::from_micros(TIMEOUTS[SLOT].load(Ordering::Relaxed)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_keeps_its_slot_and_slots_are_limited() {
        let first = slot_of(Duration::from_millis(7)).unwrap();
        assert_eq!(slot_of(Duration::from_millis(7)), Some(first));
        for other in 100..100 + SLOTS as u64 {
            slot_of(Duration::from_millis(other));
        }
        assert_eq!(slot_of(Duration::from_millis(99)), None, "a ninth gets SQLite's handler");
        assert_eq!(slot_of(Duration::from_millis(7)), Some(first));
    }
}
