//! What a node has in hand of one key.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::EventId;
use sendoff_core::order::{Chain, Ending, KeyToken, RunSoFar};

use super::{KeyEnd, Link};
use crate::settle::Completion;
use crate::source::Deadline;
use crate::source::holds::Run;
use crate::store::{HeldKey, Outcome};

/// The events of one key in hand: one in work, and those that wait for it. Some go by the key's hold, some
/// are held by themselves, from memory.
#[derive(Debug, Default)]
pub(super) struct Hand {
    pub(super) chain: Chain,
    pub(super) waiting: VecDeque<Link>,
    running: Option<(EventId, Run)>,
    pub(super) hold: Option<KeyHold>,
    /// Holds that are given back at once: the key was taken again while it was in work here.
    pub(super) again: Vec<KeyHold>,
}

/// The hold of a key, and how far its run has come.
#[derive(Debug)]
pub(super) struct KeyHold {
    pub(super) token: KeyToken,
    pub(super) until: Deadline,
    /// Whether somebody else has it.
    pub(super) lost: bool,
    whole: bool,
    pub(super) cut: bool,
    pub(super) retry: Option<Duration>,
    /// Events that go by it and are not over.
    pub(super) in_hand: usize,
    /// How much was read with it.
    pub(super) bytes: usize,
    over: Vec<Completion>,
    /// Whether something of it is on its way into the database, and it is held on.
    pub(super) sent: bool,
}

impl KeyHold {
    pub(super) fn new(token: KeyToken, until: Deadline, whole: bool, cut: bool) -> Self {
        Self {
            token,
            until,
            lost: false,
            whole,
            cut,
            retry: None,
            in_hand: 0,
            bytes: 0,
            over: Vec::new(),
            sent: false,
        }
    }

    /// Whether something is to be written: what is over, or that nothing is in hand any more.
    pub(super) fn has_something_to_say(&self) -> bool {
        !self.sent && (!self.over.is_empty() || self.in_hand == 0)
    }

    fn ending(&self) -> Ending {
        let (whole, cut, retry) = (self.whole, self.cut, self.retry);
        RunSoFar { in_hand: self.in_hand > 0, whole, cut, retry }.ending()
    }

    fn end(self, key: &Arc<str>) -> KeyEnd {
        let (ending, until, bytes) = (self.ending(), self.until, self.bytes);
        let held = HeldKey { key: key.clone(), token: self.token };
        let mut end = KeyEnd::new(held, self.over, ending, until);
        end.bytes = bytes;
        end
    }
}

impl Hand {
    /// Whether nothing of it is in work and no hold is there.
    pub(super) fn is_idle(&self) -> bool {
        self.running.is_none() && self.waiting.is_empty() && self.hold.is_none()
    }

    /// Whether it can be forgotten.
    pub(super) fn is_over(&self) -> bool {
        self.is_idle() && self.again.is_empty()
    }

    pub(super) fn is_running(&self, run: Run) -> bool {
        self.running.is_some_and(|(_, running)| running == run)
    }

    /// Whether one is in work of which others may have the key by now: what comes after it is theirs to begin, and
    /// here there is nothing that it could follow.
    pub(super) fn is_left_behind(&self) -> bool {
        self.running.is_some() && self.chain.is_empty()
    }

    pub(super) fn running_id(&self) -> Option<EventId> {
        self.running.map(|(id, _)| id)
    }

    /// Begins a run that was read from the table.
    pub(super) fn begin(&mut self, links: Vec<Link>) -> Option<Link> {
        self.chain = Chain::of_run(links.iter().map(|link| link.ticket().id()));
        if let Some(hold) = &mut self.hold {
            hold.in_hand = links.len();
        }
        self.waiting = links.into();
        self.next()
    }

    /// This one begins.
    pub(super) fn start(&mut self, link: Link) -> Option<Link> {
        let ticket = link.ticket();
        self.running = Some((ticket.id(), ticket.run()));
        Some(link)
    }

    fn next(&mut self) -> Option<Link> {
        let next = self.waiting.pop_front()?;
        self.start(next)
    }

    /// The one in work ended, and is settled by the key. Given back where no hold is there.
    pub(super) fn ended(&mut self, completion: Completion) -> Option<Completion> {
        let Some(hold) = &mut self.hold else { return Some(completion) };
        if let Outcome::Retry { delay, .. } | Outcome::Wait { delay, .. } = completion.outcome {
            hold.retry = Some(delay);
        }
        hold.in_hand = hold.in_hand.saturating_sub(1);
        hold.over.push(completion);
        None
    }

    /// The one in work ended well.
    pub(super) fn advance(&mut self) -> Option<Link> {
        self.running = None;
        self.chain.advance();
        self.next()
    }

    /// The one in work did not end well, or nobody knows.
    pub(super) fn cut(&mut self) -> Vec<Link> {
        self.running = None;
        self.let_go()
    }

    /// Whatever waits is let go.
    pub(super) fn let_go(&mut self) -> Vec<Link> {
        self.chain.cut();
        let dropped: Vec<Link> = self.waiting.drain(..).collect();
        let by_key = dropped.iter().filter(|link| link.ticket().goes_by_key()).count();
        if let Some(hold) = self.hold.as_mut().filter(|_| by_key > 0) {
            hold.cut = true;
            hold.in_hand = hold.in_hand.saturating_sub(by_key);
        }
        dropped
    }

    /// Whether something is to be written of it.
    pub(super) fn has_something_to_say(&self) -> bool {
        let hold = self.hold.as_ref();
        !self.again.is_empty() || hold.is_some_and(KeyHold::has_something_to_say)
    }

    /// What is to be written of it next.
    pub(super) fn take_end(&mut self, key: &Arc<str>) -> Option<KeyEnd> {
        if let Some(hold) = self.again.pop() {
            return Some(hold.end(key));
        }
        if !self.hold.as_ref()?.has_something_to_say() {
            return None;
        }
        if let Some(hold) = self.hold.take_if(|hold| hold.in_hand == 0) {
            return Some(hold.end(key));
        }
        let hold = self.hold.as_mut()?;
        hold.sent = true;
        let (held, over) = (HeldKey { key: key.clone(), token: hold.token }, &mut hold.over);
        Some(KeyEnd::new(held, std::mem::take(over), Ending::HeldOn, hold.until))
    }
}
