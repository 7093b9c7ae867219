use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Notify;

/// Where a stopped node stands still: nothing it does reaches the outside while the gate is shut.
///
/// Not a `watch` channel: that wakes its receivers in random order, and a seed would not repeat.
#[derive(Debug, Clone, Default)]
pub(super) struct Gate(Arc<State>);

#[derive(Debug, Default)]
struct State {
    shut: AtomicBool,
    opened: Notify,
}

impl Gate {
    pub(super) fn set(&self, open: bool) {
        self.0.shut.store(!open, Ordering::Relaxed);
        self.0.opened.notify_waiters();
    }

    /// Waits until it is open. Answers whether it had to.
    pub(super) async fn pass(&self) -> bool {
        let mut waited = false;
        loop {
            let opened = self.0.opened.notified();
            if !self.0.shut.load(Ordering::Relaxed) {
                return waited;
            }
            waited = true;
            opened.await;
        }
    }
}
