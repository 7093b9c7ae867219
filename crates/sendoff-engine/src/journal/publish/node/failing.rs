//! What follows a failure: waiting, finding out whose fault it is, parking, stopping.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::journal::publish::{CursorStatus, Run, Step, after_failed_run};
use sendoff_core::journal::{Position, Recorded};
use sendoff_core::{Jitter, limits};
use tokio::time::Instant;
use tracing::{debug, error};

use super::{Event, Node};
use crate::journal::publish::pair::Doing;
use crate::journal::publish::store::{Park, PublishStore};
use crate::journal::publish::work::{Failed, Probed};

/// The pause of a pair whose target refuses everything.
const REFUSED_PAUSE: Duration = Duration::from_secs(60);

/// Where a run stopped.
pub(super) struct Stop<'a> {
    /// The fact that failed, or the first one that was not published.
    pub(super) position: Position,
    /// None where its row is no fact any more.
    pub(super) fact: Option<&'a Arc<Recorded>>,
    /// Where its batch ended; none where it was published by itself.
    pub(super) batch_end: Option<Position>,
}

impl<S: PublishStore> Node<S> {
    /// What follows a failure.
    pub(super) fn on_failed(&mut self, at: usize, failed: &Failed, stop: &Stop<'_>, now: Instant) {
        let Stop { position, fact, batch_end } = *stop;
        self.counts.failed(&self.pairs[at].id, 1);
        let (others, lagging) = self.others_after(at, position);
        let pair = &mut self.pairs[at];
        let Some(held) = &mut pair.held else { return };
        held.errors = held.errors.saturating_add(1);
        let trouble = &mut pair.trouble;
        // A target that is unavailable says nothing of its facts: no attempt, and no time in which they
        // failed.
        if failed.is_unavailable() {
            trouble.since = None;
        } else {
            trouble.since.get_or_insert(now);
            match batch_end {
                Some(end) => trouble.alone_up_to = trouble.alone_up_to.max(end),
                None => trouble.attempts = trouble.attempts.saturating_add(1),
            }
        }
        let run = Run {
            class: failed.class,
            alone: batch_end.is_none(),
            attempts: trouble.attempts,
            failing_for: trouble.since.map_or(Duration::ZERO, |since| now.duration_since(since)),
            others: lagging.is_some() || !others.is_empty(),
        };
        let (options, jitter) = (&pair.options, Jitter::new(fastrand::f64()));
        let mut step = after_failed_run(
            run,
            options.poison,
            options.retry_policy(),
            options.retry.max_attempts,
            jitter,
        );
        if step == Step::Park && trouble.parked_in_a_row >= options.parked.in_a_row {
            step = Step::Rest(REFUSED_PAUSE);
        }
        debug!(pair = %pair.id, %position, ?step, error = failed.error, "publishing failed");
        let error = failed.error.clone();
        match step {
            Step::Rest(delay) => {
                // Nobody means to be asked again and again without a pause.
                let least =
                    if failed.is_unavailable() { pair.options.interval } else { Duration::ZERO };
                let delay = delay.max(least);
                pair.doing = if delay.is_zero() { Doing::Waiting } else { Doing::Resting };
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
                let Some(suspect) = fact.map(Arc::clone) else { return };
                pair.doing = Doing::Working;
                let epoch = held.epoch;
                let (outlet, topic) = (pair.outlet(), Arc::clone(&pair.topic));
                let (journal, catch_up) = (self.journal.clone(), Arc::clone(&self.catch_up));
                let limit = self.options.statement_limit();
                self.events.spawn(async move {
                    // In order and without a hole: whatever lies before the one that can be published
                    // counts as tried.
                    let (mut after, mut reaches) = (Vec::new(), true);
                    if let Some(floor) = lagging {
                        let (store, between) = (journal.store(), (position, floor));
                        let most = outlet.options.batch;
                        let read = catch_up.others(store, &topic, between, most, limit);
                        (after, reaches) = read.await.unwrap_or_default();
                    }
                    if reaches {
                        after.extend(others);
                    }
                    let probed = outlet.probe(suspect, &after).await;
                    Event::Probed { pair: at, epoch, error, probed }
                });
            }
        }
    }

    /// What could be tried after a fact, from memory, and up to where it would have to be read first.
    fn others_after(
        &self,
        at: usize,
        position: Position,
    ) -> (Vec<Arc<Recorded>>, Option<Position>) {
        let (pair, floor) = (&self.pairs[at], self.window.floor());
        let cut = self.window.cut(position.max(floor), &pair.topic, pair.options.batch);
        (cut.map_or_else(Vec::new, |cut| cut.facts), (position < floor).then_some(floor))
    }

    pub(super) fn on_probed(&mut self, at: usize, error: String, probed: Probed, now: Instant) {
        match probed {
            Probed::Well { published, poison, failed, up_to } => {
                let id = &self.pairs[at].id;
                self.counts.failed(id, failed);
                published.chunks(1).for_each(|fact| self.counts.published(id, fact));
                self.park(at, poison, up_to, true, now);
            }
            // It is the target's fault, and ends when it is back.
            Probed::Unavailable(tries) => {
                let pair = &mut self.pairs[at];
                self.counts.failed(&pair.id, tries);
                let attempts = pair.trouble.attempts;
                let delay =
                    pair.options.retry_policy().delay(attempts, Jitter::new(fastrand::f64()));
                pair.doing = Doing::Resting;
                pair.due = now + delay.min(limits::DELAY);
                pair.store(|next| next.last_error = Some(error));
            }
        }
    }

    /// Parks facts, and goes on after them.
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
        pair.doing = Doing::Waiting;
        let delay = pair.options.parked_policy().delay(1, Jitter::new(fastrand::f64()));
        let last_error = parked.last().map(|(_, failed)| failed.error.clone());
        let mut attempts = tried.max(1) + u32::from(published);
        let parks: Vec<_> = parked
            .into_iter()
            .map(|(position, failed)| {
                error!(pair = %pair.id, %position, error = failed.error, "a fact was parked");
                // Those after it were tried by a probe, before and after something passed.
                let attempts = std::mem::replace(&mut attempts, 2);
                Park { position, attempts, delay, error: failed.error }
            })
            .collect();
        pair.store(|next| {
            next.published |= published;
            next.last_error = last_error;
            next.parked.extend(parks);
        });
        if count > 0 {
            self.counts.parked(&pair.id, count);
        }
    }
}
