//! The last events whose runs ended well, in bounded memory.

use std::collections::{BTreeSet, VecDeque};

use sendoff_core::EventId;

/// Of so many it is remembered: a proof of a commit may be older than a settlement by as much. Forgetting
/// costs latency only.
const REMEMBERED: usize = 4_096;

#[derive(Debug, Default)]
pub(super) struct Recent {
    ids: BTreeSet<EventId>,
    order: VecDeque<EventId>,
}

impl Recent {
    pub(super) fn add(&mut self, id: EventId) {
        if self.ids.insert(id) {
            self.order.push_back(id);
        }
        if self.order.len() > REMEMBERED
            && let Some(oldest) = self.order.pop_front()
        {
            self.ids.remove(&oldest);
        }
    }

    pub(super) fn has(&self, id: EventId) -> bool {
        self.ids.contains(&id)
    }
}
