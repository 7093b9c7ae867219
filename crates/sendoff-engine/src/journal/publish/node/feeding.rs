//! The journal's end, read while there is a pair to read it for.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use sendoff_core::journal::Position;
use sendoff_core::report;
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tracing::warn;

use super::{Event, FAILED_PAUSE, Node};
use crate::journal::publish::feed::{Fed, Feed};
use crate::journal::publish::pair::{Doing, Pair};
use crate::journal::publish::service::proved_head;
use crate::journal::publish::store::PublishStore;
use crate::store::StoreError;

/// The longest pause before the journal's end is read again; some errors need somebody to mend them.
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// So many rounds in a row the same end of the journal is a reason to look. It may be a number whose
/// transaction is open, or was undone: nobody will ever read that one.
const LOOKS_FOR_AN_END: u32 = 20;
/// When to look for something new where no pair waits for it.
pub(super) const NOBODY_WAITS: Duration = Duration::from_secs(60);

/// The feed's task and what it tells; both end when this is dropped.
pub(super) struct Feeding {
    told: mpsc::Receiver<Fed>,
    beginning: Beginning,
    _task: JoinSet<()>,
}

/// Where a feed begins, and whether what lies before that can be read: only if all of it is decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Beginning {
    /// It has not said yet: there is no window to work from.
    Opening,
    /// Nobody knows whether everything up to here is decided.
    Undecided(Position),
    /// The same, and somebody finds out.
    Deciding(Position),
    /// Everything before the window is decided.
    Decided,
}

/// What the feed tells; never, where there is none.
pub(super) async fn fed(feed: &mut Option<Feeding>) -> Option<Fed> {
    match feed {
        Some(feed) => feed.told.recv().await,
        None => std::future::pending().await,
    }
}

/// The journal's end, as rounds see it.
#[derive(Debug, Default)]
pub(super) struct SeenEnd {
    at: Position,
    looks: u32,
}

impl SeenEnd {
    /// Whether to look for what a round saw after what was read.
    fn asks_for_a_look(&mut self, head: Position, read_to: Position) -> bool {
        if head != self.at {
            *self = Self { at: head, looks: 0 };
        }
        let asks = head > read_to && self.looks < LOOKS_FOR_AN_END;
        self.looks += u32::from(asks);
        asks
    }
}

impl<S: PublishStore> Node<S> {
    /// A round saw the journal's end. Where nobody rings, that is how appends of other processes are
    /// heard of, whatever the pairs' intervals are by then.
    pub(super) fn saw_end(&mut self, head: Position) {
        if self.is_fed() && self.seen_end.asks_for_a_look(head, self.window.end()) {
            self.journal.wake();
        }
    }

    /// Keeps a feed while there is a pair to feed.
    pub(super) fn keep_fed(&mut self, now: Instant) {
        let leads = self.pairs.iter().any(|pair| pair.held.is_some());
        if !leads {
            self.feed = None;
            return;
        }
        if self.feed.is_some() || now < self.feed_not_before {
            return;
        }
        // Positions that are in doubt are worth nothing; the next round brings them. Nobody waits for a
        // pair that is busy meanwhile.
        let held = self.pairs.iter().filter_map(|pair| pair.held.as_ref());
        let pairs_at: Vec<_> = held.filter(|held| !held.is_stale()).map(|held| held.at).collect();
        if pairs_at.is_empty() {
            return;
        }
        let (tell, told) = mpsc::channel(1);
        let feed = Feed {
            journal: self.journal.clone(),
            options: Arc::clone(&self.options),
            pairs_at,
            tell,
            look_at: self.look_at.subscribe(),
            interval: self.shortest,
            appetite: Arc::clone(&self.feed_appetite),
        };
        let mut task = JoinSet::new();
        task.spawn(feed.run());
        self.feed = Some(Feeding { told, beginning: Beginning::Opening, _task: task });
    }

    /// Whether there is a window to work from.
    pub(super) fn is_fed(&self) -> bool {
        self.feed.as_ref().is_some_and(|feed| feed.beginning != Beginning::Opening)
    }

    /// Whether what lies after a position, up to the window, can be read: all of it is decided. Where
    /// nobody knows, somebody finds out.
    pub(super) fn may_read_past(&mut self, after: Position) -> bool {
        let Some(feed) = &mut self.feed else { return false };
        match feed.beginning {
            Beginning::Decided => true,
            Beginning::Undecided(from) | Beginning::Deciding(from) if after >= from => true,
            Beginning::Opening | Beginning::Deciding(_) => false,
            Beginning::Undecided(from) => {
                feed.beginning = Beginning::Deciding(from);
                let (journal, options) = (self.journal.clone(), Arc::clone(&self.options));
                self.events.spawn(async move {
                    Event::Decided(from, proved_head(&journal, &options).await.map(drop))
                });
                false
            }
        }
    }

    pub(super) fn on_decided(&mut self, from: Position, decided: Result<(), StoreError>) {
        let asked = [Beginning::Undecided(from), Beginning::Deciding(from)];
        let Some(feed) = self.feed.as_mut().filter(|feed| asked.contains(&feed.beginning)) else {
            return;
        };
        match decided {
            Ok(()) => {
                feed.beginning = Beginning::Decided;
                self.wake_lagging();
            }
            Err(error) => {
                feed.beginning = Beginning::Undecided(from);
                warn!(error = report(&error), "the journal cannot be read; trying again");
            }
        }
    }

    /// Lets pairs go on that wait for what lies before the window.
    pub(super) fn wake_lagging(&mut self) {
        let (now, floor) = (Instant::now(), self.window.floor());
        for pair in self.pairs.iter_mut().filter(|pair| pair.doing != Doing::Resting) {
            if pair.held.as_ref().is_some_and(|held| held.at < floor) {
                pair.due = pair.due.min(now);
            }
        }
    }

    /// Whether more rows are wanted: the fastest pair decides, and who is slower reads for itself.
    pub(super) fn is_hungry(&self) -> bool {
        let Some(feed) = &self.feed else { return false };
        let held = self.pairs.iter().filter_map(|pair| pair.held.as_ref());
        let fastest = held.map(|held| held.at).max();
        feed.beginning == Beginning::Opening || fastest.is_some_and(|at| self.window.wants_more(at))
    }

    pub(super) fn on_fed(&mut self, fed: Option<Fed>) {
        match fed {
            Some(Fed::FromPair(at)) => self.begin_window(at, Beginning::Undecided(at)),
            Some(Fed::FromNow(at)) => self.begin_window(at, Beginning::Decided),
            Some(Fed::Rows(rows, up_to)) => {
                let any = !rows.is_empty();
                self.window.extend(rows, up_to);
                self.read_to.store(up_to.get(), Ordering::Release);
                if any {
                    self.wake_eager();
                }
            }
            Some(Fed::Lost(error)) => {
                warn!(error = report(&error), "the journal's end cannot be read; trying again");
                self.lose_feed();
            }
            None => self.lose_feed(),
        }
    }

    fn begin_window(&mut self, at: Position, beginning: Beginning) {
        self.window.begin(at);
        self.feed_pause = FAILED_PAUSE;
        if let Some(feed) = &mut self.feed {
            feed.beginning = beginning;
        }
        self.wake_eager();
    }

    fn lose_feed(&mut self) {
        self.feed_not_before = Instant::now() + self.feed_pause;
        self.feed_pause = (self.feed_pause * 2).min(LONGEST_PAUSE);
        self.doubt_all();
    }

    fn wake_eager(&mut self) {
        let now = Instant::now();
        let woken = |pair: &&mut Pair| pair.options.eager && pair.doing != Doing::Resting;
        for pair in self.pairs.iter_mut().filter(woken) {
            pair.due = pair.due.min(now);
        }
    }

    /// Tells the feed when the first pair wants to know whether there is something new.
    pub(super) fn schedule_look(&mut self) {
        let waiting = |pair: &&Pair| pair.workable() && pair.doing == Doing::Waiting;
        let first = self.pairs.iter().filter(waiting).map(|pair| pair.due).min();
        // Where nobody waits, whoever begins to will say so.
        let due = first.unwrap_or_else(|| Instant::now() + NOBODY_WAITS);
        self.look_at.send_if_modified(|at| {
            let changed = first.map_or(*at < Instant::now(), |first| *at != first);
            if changed {
                *at = due;
            }
            changed
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_end_that_cannot_be_read_is_looked_for_a_few_times_only() {
        let at = |number: u64| Position::new(number).unwrap();
        let mut seen = SeenEnd::default();
        assert!(!seen.asks_for_a_look(at(7), at(7)), "everything is read");
        for _ in 0..LOOKS_FOR_AN_END {
            assert!(seen.asks_for_a_look(at(9), at(7)));
        }
        assert!(!seen.asks_for_a_look(at(9), at(7)));
        assert!(seen.asks_for_a_look(at(10), at(7)), "somebody took another number");
    }
}
