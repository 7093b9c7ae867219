//! A pair's run: what it is given, and what came of it.

use std::sync::Arc;

use sendoff_core::journal::{Position, Recorded};
use sendoff_core::{FailureClass, limits, report};
use tokio::time::{Instant, timeout};
use tracing::warn;

use super::failing::Stop;
use super::{Event, FAILED_PAUSE, Node};
use crate::journal::publish::store::PublishStore;
use crate::journal::publish::window::{Cut, Row, cut};
use crate::journal::publish::work::{Failed, Ran, publish};
use crate::store::StoreError;

/// Rows that a pair which lags reads in one go, at least.
const PAGE: usize = 100;

impl<S: PublishStore> Node<S> {
    /// Begins a pair's next run.
    pub(super) fn begin(&mut self, at: usize, now: Instant) {
        let feeding = self.is_fed();
        let pair = &mut self.pairs[at];
        let Some(held) = &pair.held else { return };
        if !feeding {
            pair.due = now + FAILED_PAUSE;
            return;
        }
        let (after, epoch) = (held.at, held.epoch);
        let most = if after < pair.trouble.alone_up_to { 1 } else { pair.options.run_of() };
        match self.window.cut(after, &pair.topic, most) {
            Some(cut) => self.run_cut(at, cut, now),
            None => self.read_behind(at, after, epoch),
        }
    }

    /// Publishes what was cut, or goes idle.
    fn run_cut(&mut self, at: usize, cut: Cut, now: Instant) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        let epoch = held.epoch;
        if let Some(error) = cut.broken {
            let failed = Failed { class: FailureClass::Dead, error };
            let stop = Stop { position: cut.up_to, fact: None, batch_end: None };
            self.on_failed(at, &failed, &stop, now);
            return;
        }
        if cut.facts.is_empty() {
            held.at = cut.up_to;
            if cut.up_to < self.window.floor() {
                // There is more to read for itself.
                pair.due = now;
                return;
            }
            pair.found_nothing(now, self.origin);
            return;
        }
        pair.busy = true;
        pair.resting = false;
        let (publisher, options) = (Arc::clone(&pair.publisher), pair.options.clone());
        let Cut { facts, up_to, .. } = cut;
        self.events.spawn(async move {
            let ran = publish(&*publisher, &facts, &options).await;
            Event::Ran { pair: at, epoch, facts, up_to, ran }
        });
    }

    /// Reads what the window does not reach back to.
    fn read_behind(&mut self, at: usize, after: Position, epoch: i64) {
        let pair = &mut self.pairs[at];
        pair.busy = true;
        let (journal, catch_up) = (self.journal.clone(), Arc::clone(&self.catch_up));
        let (up_to, limit) = (self.window.floor(), self.options.store_timeout);
        let most = pair.options.batch.clamp(PAGE, limits::BATCH_ROWS);
        self.events.spawn(async move {
            let read = catch_up.read(journal.store(), after, up_to, most);
            let rows = timeout(limit, read).await.unwrap_or(Err(StoreError::Timeout));
            Event::Read { pair: at, epoch, rows }
        });
    }

    pub(super) fn on_read(
        &mut self,
        at: usize,
        rows: Result<(Vec<Row>, Position), StoreError>,
        now: Instant,
    ) {
        let goes_on = !self.stopping && self.is_fit(now);
        let pair = &mut self.pairs[at];
        match rows {
            Ok((rows, up_to)) if goes_on && pair.workable() => {
                let held_at = pair.held.as_ref().map_or(up_to, |held| held.at);
                let alone = held_at < pair.trouble.alone_up_to;
                let most = if alone { 1 } else { pair.options.run_of() };
                let cut = cut(rows.iter(), up_to, &pair.topic, most);
                self.run_cut(at, cut, now);
            }
            Ok(_) => {}
            Err(error) => {
                warn!(pair = %pair.id, error = report(&error), "the journal cannot be read");
                pair.due = now + FAILED_PAUSE;
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
            let whole = ran.failed.is_none();
            held.at = if whole { up_to } else { facts[ran.done - 1].position };
            held.errors = 0;
            held.unstored += 1;
            pair.empty = 0;
            (pair.due, pair.poll_at) = (now, now);
            pair.trouble.attempts = 0;
            pair.trouble.since = None;
            pair.trouble.parked_in_a_row = 0;
            pair.store(|next| {
                next.published = true;
                next.last_error = None;
            });
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
