//! How many messages of a batch are sent before the first of them has to be confirmed.
//!
//! What a batch was told is believed window by window, so that one which is not confirmed as a whole in its time has achieved
//! nothing: it is sent again, all of it, and a server that is slow enough is never done with any. So a window is small at
//! first, grows while it is confirmed quickly, and shrinks where it is not.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use tokio::time::Instant;

const FIRST: usize = 128;
const MOST: usize = 1_000;
/// A window that takes a larger part of a batch's time than this is too large, and one that takes a tenth of it at most
/// could be larger.
const PART: u32 = 4;

/// The size of windows, for all batches of a sink.
#[derive(Debug)]
pub(super) struct Windows {
    size: AtomicUsize,
    /// How long a batch may take.
    within: Duration,
}

/// A window under way. One that is dropped took too long.
#[derive(Debug)]
pub(super) struct Window<'w> {
    of: &'w Windows,
    begun: Instant,
    messages: usize,
    is_over: bool,
}

impl Windows {
    pub(super) fn new(within: Duration) -> Self {
        Self { size: AtomicUsize::new(FIRST), within }
    }

    /// Messages of the next one, at most.
    pub(super) fn size(&self) -> usize {
        self.size.load(Ordering::Relaxed)
    }

    /// So many messages are sent.
    pub(super) fn begin(&self, messages: usize) -> Window<'_> {
        Window { of: self, begun: Instant::now(), messages, is_over: false }
    }

    /// Whether one more, which takes as long as the last one, ends in time for a batch that began then.
    pub(super) fn fits(&self, batch_begun: Instant, last_took: Duration) -> bool {
        batch_begun.elapsed() + last_took < self.within
    }

    /// What another batch has learnt meanwhile is not taken back: it goes by what this one saw.
    fn resize(&self, messages: usize, size: usize) {
        let size = size.clamp(1, MOST);
        let known = self.size();
        let is_news = if size > messages { size > known } else { size < known };
        if is_news {
            self.size.store(size, Ordering::Relaxed);
        }
    }
}

impl Window<'_> {
    /// All of it is confirmed, or refused. Answers how long that took.
    pub(super) fn ended(mut self) -> Duration {
        self.is_over = true;
        let took = self.begun.elapsed();
        if took > self.of.within / PART {
            self.of.resize(self.messages, self.messages / 2);
        } else if took < self.of.within / 10 && self.messages >= self.of.size() {
            self.of.resize(self.messages, self.messages * 2);
        }
        took
    }

    /// Its connection is gone, or blocked: that says nothing of its size.
    pub(super) fn lost(mut self) {
        self.is_over = true;
    }
}

impl Drop for Window<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.of.resize(self.messages, self.messages / 4);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_window_is_as_large_as_is_confirmed_in_a_part_of_the_time() {
        let windows = Windows::new(20 * SECOND);
        for size in [FIRST, 2 * FIRST, 4 * FIRST, MOST, MOST] {
            assert_eq!(windows.size(), size);
            windows.begin(size).ended();
        }
        // One that is not full says nothing of a larger one.
        let small = Windows::new(20 * SECOND);
        small.begin(3).ended();
        assert_eq!(small.size(), FIRST);
        for (took, size) in [(1, MOST), (4, MOST), (6, MOST / 2), (3, MOST / 2), (1, MOST)] {
            let window = windows.begin(windows.size());
            advance(took * SECOND).await;
            assert_eq!((window.ended(), windows.size()), (took * SECOND, size), "{took}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_is_cut_off_was_too_large_and_one_that_was_lost_was_not() {
        let windows = Windows::new(20 * SECOND);
        windows.begin(FIRST).lost();
        assert_eq!(windows.size(), FIRST);
        for size in [FIRST / 4, FIRST / 16, FIRST / 64, 1, 1] {
            drop(windows.begin(windows.size()));
            assert_eq!(windows.size(), size);
        }
        // Of two that were under way at once, the smaller one knows best.
        let windows = Windows::new(20 * SECOND);
        drop((windows.begin(FIRST), windows.begin(FIRST / 2)));
        assert_eq!(windows.size(), FIRST / 8);
        windows.begin(FIRST / 8).ended();
        assert_eq!(windows.size(), FIRST / 4);
    }

    #[tokio::test(start_paused = true)]
    async fn none_begins_that_would_not_end_in_time() {
        let (windows, begun) = (Windows::new(20 * SECOND), Instant::now());
        assert!(windows.fits(begun, 15 * SECOND));
        advance(10 * SECOND).await;
        assert!(windows.fits(begun, 9 * SECOND) && !windows.fits(begun, 10 * SECOND));
    }
}
