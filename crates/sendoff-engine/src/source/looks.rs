//! Claims of this node that are under way: a settlement that was fenced may have been by one of
//! them.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use tokio::sync::Notify;

use crate::lock::lock;

/// The claims of this node whose rows are not taken in yet.
///
/// A row whose hold ran out can be claimed again by the node that has run it, and then its
/// settlement finds a token that nobody here knows before the claim is answered. Whether somebody
/// else has the row is known only when every claim is over that was under way by then.
#[derive(Debug, Default)]
pub(crate) struct Looks {
    state: Mutex<State>,
    ended: Notify,
}

#[derive(Debug, Default)]
struct State {
    last: u64,
    open: BTreeSet<u64>,
}

/// A claim, until it is dropped: after its rows were taken in.
#[derive(Debug)]
#[must_use = "dropped, the claim is over"]
pub(crate) struct Look {
    looks: Arc<Looks>,
    number: u64,
}

/// Stands for the claims that had begun at some moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Mark(u64);

impl Looks {
    /// To be called before the claim is sent.
    pub(crate) fn begin(self: &Arc<Self>) -> Look {
        let mut state = lock(&self.state);
        state.last += 1;
        let number = state.last;
        state.open.insert(number);
        Look { looks: self.clone(), number }
    }

    /// The claims that have begun by now.
    pub(crate) fn mark(&self) -> Mark {
        Mark(lock(&self.state).last)
    }

    /// Whether all of them are over.
    pub(crate) fn are_over(&self, mark: Mark) -> bool {
        lock(&self.state).open.first().is_none_or(|&first| first > mark.0)
    }

    /// Waits until all of them are over.
    pub(crate) async fn over(&self, mark: Mark) {
        loop {
            let ended = self.ended.notified();
            if self.are_over(mark) {
                return;
            }
            ended.await;
        }
    }
}

impl Drop for Look {
    fn drop(&mut self) {
        lock(&self.looks.state).open.remove(&self.number);
        self.looks.ended.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_mark_waits_for_the_claims_before_it_and_for_no_later_one() {
        let looks = Arc::new(Looks::default());
        assert!(looks.are_over(looks.mark()));
        let (first, second) = (looks.begin(), looks.begin());
        let mark = looks.mark();
        let _later = looks.begin();
        drop(second);
        assert!(!looks.are_over(mark));
        tokio::join!(biased; looks.over(mark), async { drop(first) });
        assert!(looks.are_over(mark) && !looks.are_over(looks.mark()));
    }
}
