//! A pair's run: what it is given, and what came of it.

use std::sync::Arc;

use sendoff_core::journal::{Position, Recorded};
use sendoff_core::{FailureClass, report};
use tokio::time::Instant;
use tracing::warn;

use super::{Event, FAILED_PAUSE, Node};
use crate::journal::publish::pair::{Doing, Stop};
use crate::journal::publish::past::{Page, Wanted};
use crate::journal::publish::settle_in::Leads;
use crate::journal::publish::store::PublishStore;
use crate::journal::publish::window::Cut;
use crate::journal::publish::work::{Failed, Ran};
use crate::store::StoreError;

impl<S: PublishStore> Node<S> {
    /// Begins a pair's next run.
    pub(super) fn begin(&mut self, at: usize, now: Instant) {
        let feeding = self.is_fed();
        let pair = &mut self.pairs[at];
        let Some(held) = &pair.held else { return };
        // Its rest is over: a page that it asks for now must wake it, or those of others take its place.
        pair.doing = Doing::Waiting;
        if !feeding {
            pair.due = now + FAILED_PAUSE;
            return;
        }
        let most = pair.run_of(held.at);
        let floor = self.window.floor();
        loop {
            let pair = &mut self.pairs[at];
            let Some(held) = &mut pair.held else { return };
            let (after, topic) = (held.at, &pair.topic);
            let Some(cut) =
                self.window.cut(after, topic, most).or_else(|| self.past.cut(after, topic, most))
            else {
                // It begins when the page is there; where that fails, when it asks again.
                pair.due = now + FAILED_PAUSE;
                if self.may_read_past(after) {
                    self.past.want(after, floor);
                }
                break;
            };
            if cut.passes_only() && cut.up_to < floor {
                held.at = cut.up_to;
                continue;
            }
            if after < floor {
                self.past.want(after, floor);
            }
            self.run_cut(at, cut, now);
            break;
        }
        self.read_past();
    }

    /// Publishes what was cut, or goes idle.
    fn run_cut(&mut self, at: usize, cut: Cut, now: Instant) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        let epoch = held.epoch;
        if let Some(error) = cut.broken {
            let failed = Failed { class: FailureClass::Dead, disables: false, error };
            let stop = Stop { position: cut.up_to, fact: None, batch_end: None };
            self.on_failed(at, &failed, &stop, now);
            return;
        }
        if cut.facts.is_empty() {
            held.at = cut.up_to;
            pair.found_nothing(now, self.origin);
            return;
        }
        let stored = held.stored;
        pair.doing = Doing::Working;
        let outlet = pair.outlet();
        let Cut { facts, up_to, .. } = cut;
        let settling = outlet.options.settles_in.then(|| {
            let (pair, owner) = (Arc::clone(&pair.id), Arc::clone(&self.owner));
            self.journal.runs().begin(Leads { pair, owner, epoch, stored }, &facts)
        });
        self.events.spawn(async move {
            let ran = match settling {
                Some(settling) => outlet.publish_settling(&facts, settling).await,
                None => outlet.publish(&facts).await,
            };
            Event::Ran { pair: at, epoch, facts, up_to, ran }
        });
    }

    /// Reads the next page that the window does not reach back to.
    fn read_past(&mut self) {
        let Some(wanted) = self.past.next() else { return };
        let (after, most) = (wanted.after, wanted.most);
        let (journal, catch_up) = (self.journal.clone(), Arc::clone(&self.catch_up));
        let (floor, limit) = (self.window.floor(), self.options.statement_limit());
        self.events.spawn(async move {
            let rows = catch_up.read(journal.store(), (after, floor), most, limit).await;
            Event::Read(wanted, rows.map(|(rows, up_to)| Page { after, up_to, rows }))
        });
    }

    pub(super) fn on_read(&mut self, wanted: Wanted, page: Result<Page, StoreError>) {
        match page {
            Ok(page) => {
                self.past.add(wanted, page);
                self.wake_lagging();
                self.read_past();
            }
            Err(error) => {
                warn!(error = report(&error), "the journal cannot be read; trying again");
                self.past.forget();
            }
        }
    }

    pub(super) fn on_ran(
        &mut self,
        at: usize,
        facts: &[Arc<Recorded>],
        up_to: Position,
        ran: &Ran,
        now: Instant,
    ) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        if ran.done > 0 {
            let whole = ran.done == facts.len();
            let last = facts[ran.done - 1].position;
            held.at = if whole { up_to } else { last };
            // Its publisher may have stored that itself.
            let unstored = last > held.stored;
            held.unstored += u32::from(unstored);
            pair.empty = 0;
            (pair.due, pair.poll_at) = (now, now);
            pair.goes_on(now);
            if unstored {
                pair.store(|next| {
                    next.published = true;
                    next.last_error = None;
                });
            }
            self.counts.published(&pair.id, &facts[..ran.done]);
        }
        if let Some(failed) = &ran.failed {
            let (fact, last) = (&facts[ran.done], facts[facts.len() - 1].position);
            let batch_end = (facts.len() > 1).then_some(last);
            let stop = Stop { position: fact.position, fact: Some(fact), batch_end };
            self.on_failed(at, failed, &stop, now);
        }
    }
}
