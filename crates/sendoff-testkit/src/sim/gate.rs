//! Stops a node at its edge to the outside, as SIGSTOP would.

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
    /// To be shut for good at the next moment at which a transaction of the node is open.
    trap: AtomicBool,
    /// It never opens again.
    for_good: AtomicBool,
    /// The node is no more.
    gone: AtomicBool,
    changed: Notify,
}

impl Gate {
    /// Shuts or opens it. One that was shut for good stays shut.
    pub(super) fn set(&self, open: bool) {
        let open = open && !self.is_shut_for_good();
        self.0.shut.store(!open, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    /// Asks for it to be shut for good when the node is in the middle of a transaction.
    pub(super) fn set_trap(&self) {
        self.0.trap.store(true, Ordering::Relaxed);
    }

    /// Whether it was asked to shut for good and has not yet; asked once, it does not say so again.
    pub(super) fn take_trap(&self) -> bool {
        self.0.trap.swap(false, Ordering::Relaxed)
    }

    pub(super) fn shut_for_good(&self) {
        self.0.for_good.store(true, Ordering::Relaxed);
        self.set(false);
    }

    /// The node went down: nothing passes any more, and nothing of it is left.
    pub(super) fn end(&self) {
        self.0.gone.store(true, Ordering::Relaxed);
        self.0.changed.notify_waiters();
    }

    pub(super) fn is_shut_for_good(&self) -> bool {
        self.0.for_good.load(Ordering::Relaxed)
    }

    fn is_shut(&self) -> bool {
        self.0.shut.load(Ordering::Relaxed) && !self.is_gone()
    }

    pub(super) fn is_gone(&self) -> bool {
        self.0.gone.load(Ordering::Relaxed)
    }

    /// Waits until it is open. Answers whether it had to.
    pub(super) async fn pass(&self) -> bool {
        let waited = self.until_free().await;
        if self.is_gone() {
            std::future::pending().await
        }
        waited
    }

    /// Waits while the node is stopped; a node that went down is not. Answers whether it had to.
    pub(super) async fn until_free(&self) -> bool {
        let mut waited = false;
        loop {
            let changed = self.0.changed.notified();
            if !self.is_shut() {
                return waited;
            }
            waited = true;
            changed.await;
        }
    }
}

/// What the database keeps for a session of a node until the node ends it, and a node that is
/// stopped ends nothing.
#[derive(Debug)]
pub(super) struct Kept<T: Send + 'static> {
    gate: Gate,
    what: Option<T>,
}

impl<T: Send + 'static> Kept<T> {
    pub(super) fn new(gate: &Gate, what: T) -> Self {
        Self { gate: gate.clone(), what: Some(what) }
    }

    pub(super) fn get_mut(&mut self) -> Option<&mut T> {
        self.what.as_mut()
    }

    /// The node ends it itself.
    pub(super) fn take(&mut self) -> Option<T> {
        self.what.take()
    }
}

impl<T: Send + 'static> Drop for Kept<T> {
    fn drop(&mut self) {
        // An engine does not stand still here when its process does: what it drops meanwhile, it
        // would drop when it runs again.
        if self.gate.is_shut()
            && let Ok(runtime) = tokio::runtime::Handle::try_current()
        {
            let (gate, what) = (self.gate.clone(), self.what.take());
            runtime.spawn(async move {
                gate.until_free().await;
                drop(what);
            });
        }
    }
}
