//! The events of one key that one node has in hand, one after the other.

use std::collections::VecDeque;

use crate::id::EventId;

/// Events that may wait for others of their key in memory, beside those that were read from the table.
pub const HOT_CHAIN: usize = 64;

/// The events of one key on one node, by id: the first is in work, the others wait for it.
///
/// An event from memory joins only where it is known that nothing of its key lies between: every live
/// event below it is in this chain, or ended well here, or there is none. It is not enough to know the
/// nearest one: of two events whose transactions overlapped the lower may have become visible after the
/// higher one began. Everything else goes the way of the table, which has the order.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Chain {
    ids: VecDeque<EventId>,
}

/// The answer to an event from memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Offer {
    /// It may begin.
    Start,
    /// It waits for the one before it.
    Wait,
    /// Something may lie between: it goes the way of the table.
    Refuse,
}

impl Chain {
    /// Events that were read from the table in order, under the key's hold.
    pub fn of_run(ids: impl IntoIterator<Item = EventId>) -> Self {
        Self { ids: ids.into_iter().collect() }
    }

    /// An event from memory. `below` are the live events of its key below it, as the table says; one
    /// `ended_well` if its run on this node did.
    pub fn offer(
        &mut self,
        id: EventId,
        below: &[EventId],
        ended_well: impl Fn(EventId) -> bool,
    ) -> Offer {
        let known = |below: &EventId| self.ids.contains(below) || ended_well(*below);
        let offer = match self.ids.back() {
            _ if below.len() > HOT_CHAIN || !below.iter().all(known) => Offer::Refuse,
            None => Offer::Start,
            Some(last) if below.contains(last) && self.ids.len() < HOT_CHAIN => Offer::Wait,
            Some(_) => Offer::Refuse,
        };
        if offer != Offer::Refuse {
            self.ids.push_back(id);
        }
        offer
    }

    /// The first one is over, and the next may begin.
    pub fn advance(&mut self) {
        self.ids.pop_front();
    }

    /// The first one failed, or nobody knows: whatever waits for it does not follow.
    pub fn cut(&mut self) {
        self.ids.clear();
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.ids.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn ids(count: usize) -> Vec<EventId> {
        (0..count).map(|_| EventId::generate()).collect()
    }

    #[test]
    fn an_event_follows_the_last_one_of_the_chain_and_nothing_else() {
        let id = ids(5);
        let mut chain = Chain::default();
        assert_eq!(chain.offer(id[0], &[], |_| false), Offer::Start);
        assert_eq!(chain.offer(id[1], &id[..1], |_| false), Offer::Wait);
        assert_eq!(chain.offer(id[3], &id[..3], |_| false), Offer::Refuse, "not of this chain");
        assert_eq!(chain.offer(id[3], &id[..1], |_| false), Offer::Refuse, "below the last");
        chain.advance();
        chain.advance();
        assert!(chain.is_empty());
        assert_eq!(chain.offer(id[2], &id[..2], |below| id[..2].contains(&below)), Offer::Start);
        chain.cut();
        assert_eq!(chain.offer(id[4], &id[2..3], |_| false), Offer::Refuse, "it did not end well");
    }

    /// Holds O1: `late` was written before the first one, and committed after that had begun.
    #[test]
    fn an_event_that_became_visible_late_is_not_overlooked() {
        let (late, id) = (EventId::generate(), ids(2));
        let mut chain = Chain::default();
        assert_eq!(chain.offer(id[0], &[], |_| false), Offer::Start);
        assert_eq!(chain.offer(id[1], &[late, id[0]], |_| false), Offer::Refuse);
    }

    #[test]
    fn a_chain_in_memory_has_an_end() {
        let id = ids(HOT_CHAIN + 1);
        let mut chain = Chain::default();
        for (at, event) in id.iter().enumerate() {
            let expected = match at {
                0 => Offer::Start,
                HOT_CHAIN => Offer::Refuse,
                _ => Offer::Wait,
            };
            assert_eq!(chain.offer(*event, &id[..at], |_| false), expected);
        }
    }

    proptest! {
        /// Holds O1: whatever comes in whichever order, and becomes visible whenever, nothing begins before
        /// what lay below it when it was written is over.
        #[test]
        fn no_start_breaks_a_link(steps in prop::collection::vec((0_usize..8, 0_u8..3), 1..80)) {
            let id = ids(8);
            let (mut chain, mut in_hand) = (Chain::default(), Vec::<usize>::new());
            let (mut over, mut visible) = ([false; 8], [false; 8]);
            let mut written_after: Vec<Vec<usize>> = vec![Vec::new(); 8];
            for (event, step) in steps {
                match step {
                    0 if !visible[event] => {
                        visible[event] = true;
                        // Whatever is visible below it now was committed before it was written.
                        written_after[event] = (0..event).filter(|&b| visible[b] && !over[b]).collect();
                    }
                    1 if visible[event] && !over[event] && !in_hand.contains(&event) => {
                        let live = (0..event).filter(|&below| visible[below] && !over[below]);
                        let below: Vec<EventId> = live.map(|below| id[below]).collect();
                        let offer = chain.offer(id[event], &below, |_| false);
                        if offer != Offer::Refuse {
                            in_hand.push(event);
                        }
                    }
                    2 if !in_hand.is_empty() => {
                        let first = in_hand.remove(0);
                        let early = written_after[first].iter().find(|&&below| !over[below]);
                        prop_assert_eq!(early, None, "{} began too early", first);
                        over[first] = true;
                        chain.advance();
                    }
                    _ => {}
                }
            }
        }
    }
}
