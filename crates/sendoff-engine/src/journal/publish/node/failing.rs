//! What follows a failure: waiting, finding out whose fault it is, parking, stopping.

use std::sync::Arc;

use sendoff_core::Jitter;
use sendoff_core::journal::publish::{AfterFailure, Probes, Step};
use sendoff_core::journal::{Position, Recorded};
use tokio::time::Instant;
use tracing::{debug, error};

use super::{Event, Node};
use crate::journal::publish::pair::{Doing, Stop};
use crate::journal::publish::store::{Park, PublishStore};
use crate::journal::publish::work::{Failed, Probed, TriedLater};

impl<S: PublishStore> Node<S> {
    /// What follows a failure.
    pub(super) fn on_failed(&mut self, at: usize, failed: &Failed, stop: &Stop<'_>, now: Instant) {
        let Stop { position, fact, .. } = *stop;
        self.counts.failed(&self.pairs[at].id, 1);
        if failed.is_unavailable() {
            self.counts.unavailable(&self.pairs[at].id);
        }
        let (others, lagging) = self.others_after(at, position);
        let pair = &mut self.pairs[at];
        // Who settles facts in its own transactions can settle none before another.
        let may_try = !pair.options.settles_in;
        let has_others = may_try && (lagging.is_some() || !others.is_empty());
        let Some(held) = &mut pair.held else { return };
        held.errors = held.errors.saturating_add(1);
        let epoch = held.epoch;
        let run = pair.note_failure(failed, stop, has_others, now);
        let (options, trouble) = (&pair.options, &pair.trouble);
        let after = AfterFailure {
            poison: options.poison,
            retry: options.retry_policy(),
            longest_pause: options.unavailable.longest_pause,
            max_attempts: options.retry.max_attempts,
        };
        let mut step = after.step(run, Jitter::new(fastrand::f64()));
        if step == Step::Park && trouble.parked_in_a_row >= options.parked.in_a_row {
            // A target that refuses everything.
            step = Step::Rest(options.unavailable.longest_pause);
        }
        if failed.disables {
            step = Step::Fail;
        }
        debug!(pair = %pair.id, %position, ?step, error = failed.error, "publishing failed");
        let error = failed.error.clone();
        match step {
            Step::Rest(delay) => pair.rest(position, delay, error, now),
            Step::Fail => pair.stop(position, error),
            Step::Park => {
                let parked = vec![(position, failed.clone())];
                self.park(at, parked, position, false, now);
            }
            Step::Probe => {
                let Some(suspect) = fact.map(Arc::clone) else { return };
                pair.doing = Doing::Working;
                let tried = TriedLater {
                    up_to: trouble.probed_up_to,
                    times: usize::try_from(trouble.probes.made).unwrap_or(usize::MAX),
                };
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
                    let probed = outlet.probe(suspect, &after, tried).await;
                    Event::Probed { pair: at, epoch, position, error, probed }
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

    pub(super) fn on_probed(
        &mut self,
        at: usize,
        (position, error): (Position, String),
        probed: Probed,
        now: Instant,
    ) {
        match probed {
            Probed::Well { published, poison, failed, up_to } => {
                let id = &self.pairs[at].id;
                self.counts.failed(id, failed);
                published.chunks(1).for_each(|fact| self.counts.published(id, fact));
                self.park(at, poison, up_to, true, now);
            }
            // It is the target's fault, as far as anybody knows, and ends when it is back.
            Probed::Unavailable { tries, later } => {
                let pair = &mut self.pairs[at];
                self.counts.failed(&pair.id, tries);
                self.counts.unavailable(&pair.id);
                let trouble = &mut pair.trouble;
                trouble.probes.made();
                trouble.probed_up_to = trouble.probed_up_to.max(later.unwrap_or_default());
                let (options, attempts) = (&pair.options, pair.trouble.attempts);
                let delay = options.retry_policy().delay(attempts, Jitter::new(fastrand::f64()));
                let delay = delay.min(options.unavailable.longest_pause);
                pair.rest(position, delay, error, now);
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
        (held.at, held.waits_at) = (up_to, None);
        held.unstored += 1;
        let tried = std::mem::take(&mut pair.trouble.attempts);
        pair.trouble.probes = Probes::default();
        if published {
            pair.goes_on(now);
        }
        let in_a_row = &mut pair.trouble.parked_in_a_row;
        *in_a_row = in_a_row.saturating_add(u32::try_from(count).unwrap_or(u32::MAX));
        pair.due = now;
        pair.doing = Doing::Waiting;
        let delay = pair.options.parked_policy().delay(1, Jitter::new(fastrand::f64()));
        let last_error = parked.last().map(|(_, failed)| failed.error.clone());
        // A probe tries it before and after what passed.
        let mut attempts = tried.max(1) + if published { 2 } else { 0 };
        let parks: Vec<_> = parked
            .into_iter()
            .map(|(position, failed)| {
                error!(pair = %pair.id, %position, error = failed.error, "a fact was parked");
                // Those after it were tried by a probe each, and after something passed.
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
