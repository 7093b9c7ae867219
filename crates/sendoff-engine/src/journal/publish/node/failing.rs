//! What follows a failure: waiting, finding out whose fault it is, setting aside, stopping.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::{CursorStatus, Run, Step, after_failed_run};
use sendoff_core::journal::{Position, Recorded};
use sendoff_core::{Jitter, limits};
use tokio::time::Instant;
use tracing::{debug, error};

use super::{Event, Node};
use crate::journal::publish::store::{Park, PublishStore};
use crate::journal::publish::work::{Failed, Probed, probe};

/// The pause of a pair whose target refuses everything.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

impl<S: PublishStore> Node<S> {
    /// What follows a failure at a position; `batch_end` is where its batch ended, if it was one.
    pub(super) fn on_failed(
        &mut self,
        at: usize,
        failed: &Failed,
        position: Position,
        batch_end: Option<Position>,
        now: Instant,
    ) {
        self.counts.failed(&self.pairs[at].id, 1);
        let (others, lagging) = self.others_behind(at, position);
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        held.errors = held.errors.saturating_add(1);
        let trouble = &mut pair.trouble;
        let since = *trouble.since.get_or_insert(now);
        match batch_end {
            Some(end) => trouble.alone_up_to = trouble.alone_up_to.max(end),
            None => trouble.attempts = trouble.attempts.saturating_add(1),
        }
        let run = Run {
            class: failed.class,
            alone: batch_end.is_none(),
            attempts: trouble.attempts,
            failing_for: now.duration_since(since),
            others: lagging.is_some() || !others.is_empty(),
        };
        let (options, jitter) = (&pair.options, Jitter::new(fastrand::f64()));
        let mut step =
            after_failed_run(run, options.poison, &*options.retry, options.max_attempts, jitter);
        if step == Step::Park && trouble.parked_in_a_row >= options.parked_in_a_row {
            step = Step::Rest(REFUSED_PAUSE);
        }
        debug!(pair = %pair.id, %position, ?step, error = failed.error, "publishing failed");
        let error = failed.error.clone();
        match step {
            Step::Rest(delay) => {
                pair.resting = !delay.is_zero();
                pair.due = now + delay;
                pair.store(|next| next.last_error = Some(error));
            }
            Step::Fail => {
                error!(pair = %pair.id, %position, error, "the pair stopped as FAILED; reset it");
                held.status = CursorStatus::Failed;
                pair.store(|next| {
                    next.fails = true;
                    next.last_error = Some(error);
                });
            }
            Step::Park => {
                let parked = vec![(position, failed.clone())];
                self.park(at, parked, position, false, now);
            }
            Step::Probe => {
                pair.busy = true;
                let epoch = held.epoch;
                let (publisher, options) = (Arc::clone(&pair.publisher), pair.options.clone());
                let (suspect, topic) = (failed.clone(), Arc::clone(&pair.topic));
                let (journal, catch_up) = (self.journal.clone(), Arc::clone(&self.catch_up));
                self.events.spawn(async move {
                    let mut facts = Vec::new();
                    if let Some(floor) = lagging {
                        let behind = catch_up.others(journal.store(), &topic, position, floor);
                        facts = behind.await.unwrap_or_default();
                    }
                    facts.extend(others);
                    let probed = probe(&*publisher, &facts, &options).await;
                    Event::Probed { pair: at, epoch, suspect, at: position, probed }
                });
            }
        }
    }

    /// What could be tried behind a fact, from memory, and up to where it would have to be read first.
    fn others_behind(
        &self,
        at: usize,
        position: Position,
    ) -> (Vec<Arc<Recorded>>, Option<Position>) {
        let (pair, floor) = (&self.pairs[at], self.window.floor());
        let cut = self.window.cut(position.max(floor), &pair.topic, pair.options.batch);
        (cut.map_or_else(Vec::new, |cut| cut.facts), (position < floor).then_some(floor))
    }

    pub(super) fn on_probed(
        &mut self,
        at: usize,
        suspect: &Failed,
        position: Position,
        probed: Probed,
        now: Instant,
    ) {
        self.counts.failed(&self.pairs[at].id, probed.failed.len());
        if let Some(passed) = probed.passed {
            let up_to = passed.position;
            self.counts.published(&self.pairs[at].id, &[passed]);
            let mut parked = vec![(position, suspect.clone())];
            parked.extend(probed.failed);
            self.park(at, parked, up_to, true, now);
            return;
        }
        // Nothing can be published: it is the target's fault, and ends when it is back.
        let pair = &mut self.pairs[at];
        let attempts = pair.trouble.attempts;
        let delay = pair.options.retry.delay(attempts, Jitter::new(fastrand::f64()));
        pair.resting = true;
        pair.due = now + delay.min(limits::DELAY);
        pair.store(|next| next.last_error = Some(suspect.error.clone()));
    }

    /// Sets facts aside, and goes on behind them.
    fn park(
        &mut self,
        at: usize,
        parked: Vec<(Position, Failed)>,
        up_to: Position,
        published: bool,
        now: Instant,
    ) {
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        let count = parked.len();
        held.at = up_to;
        held.unstored += 1;
        if published {
            held.errors = 0;
            pair.trouble.parked_in_a_row = 0;
            pair.trouble.since = None;
        }
        pair.trouble.parked_in_a_row += u32::try_from(count).unwrap_or(u32::MAX);
        let tried = std::mem::take(&mut pair.trouble.attempts);
        pair.due = now;
        pair.resting = false;
        let delay = pair.options.parked_retry.delay(1, Jitter::new(fastrand::f64()));
        let last_error = parked.last().map(|(_, failed)| failed.error.clone());
        let mut attempts = tried.max(1);
        let parks: Vec<_> = parked
            .into_iter()
            .map(|(position, failed)| {
                error!(pair = %pair.id, %position, error = failed.error, "a fact was set aside");
                // Those that a probe tried were tried once.
                let attempts = std::mem::replace(&mut attempts, 1);
                Park { position, attempts, delay, error: failed.error }
            })
            .collect();
        pair.store(|next| {
            next.published |= published;
            next.last_error = last_error;
            next.parked.extend(parks);
        });
        self.counts.parked(&pair.id, count);
    }
}
