//! One batch of a relay: fetched, handled, and what became of it committed.

use std::collections::BTreeSet;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{EventId, WaitsFor};
use tokio::time::{Instant, timeout};
use tracing::{Instrument, debug, info_span, warn};

use super::batch::{Batch, BatchReport, Source};
use super::progress::{Ended, Progress, Waiting};
use super::runner::Inner;
use super::running::Stop;
use crate::dispatch::{Disabled, Due, Route, Run, class_of};
use crate::sink::{Learned, discard};
use crate::source::HeldRows;
use crate::store::{Outcome, StoreError};

/// What became of a batch.
#[derive(Debug)]
pub(super) struct Processed {
    pub(super) report: BatchReport,
    /// Whether there may be more than this.
    pub(super) full: bool,
    /// Whether a handler was begun at all.
    pub(super) begun: bool,
    /// Whether it did not come to everything in time.
    pub(super) late: bool,
}

impl Batch {
    /// I1: whether the row is ours, as far as we can know.
    fn keeps(&self, id: EventId) -> bool {
        match &self.source {
            Source::Held(held) => held.is_held(id),
            Source::Locked(locked) => locked.is_open(),
            Source::Keys(keys) => keys.is_held(id),
        }
    }

    /// The key of an event, where it waits for others of that.
    fn key_of(&self, id: EventId) -> Option<Arc<str>> {
        match &self.source {
            Source::Keys(keys) => keys.key_of(id).cloned(),
            Source::Held(_) | Source::Locked(_) => None,
        }
    }
}

/// Whether the next event of its key may begin.
fn follows(outcome: Option<&Outcome>) -> bool {
    outcome.is_some_and(Outcome::lets_others_follow)
}

impl Inner {
    /// One batch; nothing if there is none that could be begun.
    pub(super) async fn process(&self, stop: &Stop) -> Result<Option<Processed>, StoreError> {
        self.consumer.look_at_pauses().await?;
        self.register.look_if_old().await;
        let paused = self.consumer.pauses().now();
        self.routing.hear(&paused);
        // Whatever was claimed would only be put back.
        if self.routing.takes_nothing(&paused) {
            return Ok(None);
        }
        let processed = self.process_batch(stop).await;
        if processed.is_err() {
            self.observer.tell(|metrics| metrics.errors(1));
        }
        processed
    }

    async fn process_batch(&self, stop: &Stop) -> Result<Option<Processed>, StoreError> {
        let began = Instant::now();
        let Some(mut batch) = self.consumer.fetch_for(Some(&self.routing)).await? else {
            return Ok(None);
        };
        let full = batch.full;
        let progress = Progress::new(self.in_order(&batch));
        let (without_run, released) = match &batch.source {
            Source::Held(held) => self.deliver_held(&batch, held, &progress, stop).await,
            Source::Locked(locked) => {
                (locked.awake_while(self.deliver(&batch, &progress, stop)).await, 0)
            }
            Source::Keys(keys) => {
                let release_at = Instant::now() + self.options().handler.start_within;
                let work = self.deliver(&batch, &progress, stop);
                keys.held_while(work, release_at, || progress.waiting()).await
            }
        };
        let Ended { answers, begun, stored, failed, disabled } = progress.ended();
        self.ring_for_retries(&answers);
        batch.answers.extend(answers);
        let committed = batch.commit().await;
        // After the commit: where a database has one writer, a locked batch is it.
        if let Some(disabled) = disabled {
            let limit = self.options().statement_limit();
            disabled.pause(&**self.consumer.store(), self.consumer.pauses(), limit).await;
            // Or the next batch begins before somebody looks.
            let _ = self.consumer.see_pauses().await;
        }
        let committed = failed.map_or(committed, Err);
        let mut report = committed.inspect_err(|_| stop.left_unsettled())?;
        report.untouched += released;
        let late = report.untouched > without_run;
        report.add(stored);
        self.observer.tell(|metrics| {
            metrics.batch_duration(began.elapsed());
            metrics.processed(report.done as u64);
            metrics.retries(report.retried as u64);
            metrics.dead(report.dead as u64);
            metrics.fenced(report.fenced as u64);
        });
        if report.unsettled > 0 {
            stop.left_unsettled();
        }
        Ok(Some(Processed { report, full, begun: begun > 0, late }))
    }

    fn in_order(&self, batch: &Batch) -> Vec<Waiting> {
        let deliveries = batch.records.iter().map(|record| &record.delivery);
        let waiting = |(at, route): (usize, Route)| {
            let id = batch.records.get(at)?.delivery.id();
            Some(Waiting { at, id, route })
        };
        let routes = match batch.source {
            Source::Held(_) | Source::Locked(_) => self.routing.in_order(deliveries),
            // Each after those before it.
            Source::Keys(_) => self.routing.as_they_come(deliveries),
        };
        routes.into_iter().filter_map(waiting).collect()
    }

    /// Delivers a batch, and keeps its holds while that takes. Those of events that wait too long for
    /// the ones before them are released. Says how many had no run, and how many were released.
    async fn deliver_held(
        &self,
        batch: &Batch,
        held: &HeldRows,
        progress: &Progress,
        stop: &Stop,
    ) -> (usize, usize) {
        let (limit, patience) = (self.options().handler.start_within, self.patience());
        let work = self.deliver(batch, progress, stop);
        let due = || patience.map(|patience| progress.gives_way_at(patience));
        let does = || self.give_way(batch, progress);
        let release_at = Instant::now() + limit;
        let (without_run, rows) =
            held.held_while(work, release_at, || progress.waiting(), due, does).await;
        if rows > 0 {
            warn!(?limit, rows, "no worker was free for too long: released to others");
        }
        (without_run, rows)
    }

    /// How long a run may go on before what it keeps waiting is none of its batch's any more: other
    /// handlers' events, and answers. None where there is but one handler.
    fn patience(&self) -> Option<Duration> {
        let options = self.options();
        let shortest = options.poll_interval.min(options.handler.start_within);
        (self.routing.handlers() > 1).then_some(shortest)
    }

    /// Lets nobody wait for a run that goes on and on: stores the answers there are, and puts back what
    /// others handle, for whoever is free.
    async fn give_way(&self, batch: &Batch, progress: &Progress) {
        let Some(patience) = self.patience() else { return };
        let Some(way) = progress.give_way(patience) else { return };
        debug!(answers = way.answers.len(), waiting = way.waiting.len(), "gives way to others");
        self.ring_for_retries(&way.answers);
        let stored = batch.settle_some(way.answers, &way.waiting).await;
        progress.stored(stored);
        if !way.waiting.is_empty() {
            self.alarm.ring();
        }
    }

    /// One event after the other, for as long as the rest may wait. What there is no run for comes after
    /// all others. Told to stop, it lets the one in work finish for a while. What it does not come to is
    /// left unanswered, and so is what is paused by then. Says for how many there was no run in the end.
    async fn deliver(&self, batch: &Batch, progress: &Progress, stop: &Stop) -> usize {
        let since = Instant::now();
        let (mut without_run, mut paused) = (0, 0);
        // Keys of which nothing more is begun: something of them did not end well.
        let mut stopped = BTreeSet::new();
        while let Some((next, after)) = progress.next() {
            let late =
                progress.has_begun() && since.elapsed() >= self.options().handler.start_within;
            if late || stop.told.is_cancelled() {
                break;
            }
            let Some(record) = batch.records.get(next.at) else { continue };
            let key = batch.key_of(next.id);
            if key.as_ref().is_some_and(|key| !stopped.insert(key.clone())) {
                continue;
            }
            // What waited too long may have become somebody else's.
            if !batch.keeps(next.id) {
                debug!(event.id = %next.id, "lost before the delivery began");
                continue;
            }
            if self.is_paused(next.route, record) || progress.is_disabled(next.route) {
                paused += 1;
                continue;
            }
            let Some(run) = self.routing.begin(next.route) else {
                if key.is_some() {
                    continue;
                }
                progress.pass_over(next);
                without_run += 1;
                if without_run > after {
                    break;
                }
                continue;
            };
            without_run = 0;
            progress.begin(next.route);
            let outcome = self.deliver_one((batch, progress), record, &run, stop).await;
            drop(run);
            if let Some(key) = key.filter(|_| follows(outcome.as_ref())) {
                stopped.remove(&key);
            }
            progress.end(next.id, outcome);
        }
        without_run + paused
    }

    fn is_paused(&self, route: Route, due: &Due) -> bool {
        let pauses = self.consumer.pauses();
        pauses.any() && self.routing.is_paused(route, &due.delivery.event, &pauses.now())
    }

    async fn deliver_one(
        &self,
        of: (&Batch, &Progress),
        record: &Due,
        run: &Run<'_>,
        stop: &Stop,
    ) -> Option<Outcome> {
        let (id, event_type) = (record.delivery.id(), record.delivery.event_type());
        let span = info_span!("deliver", event.id = %id, event.r#type = event_type);
        let mut run = pin!(self.run(of, record, run).instrument(span));
        let ended = tokio::select! {
            biased;
            outcome = &mut run => Some(outcome),
            () = stop.told.cancelled() => {
                timeout(self.options().node.drain_timeout, run).await.ok()
            }
        };
        if ended.is_none() {
            stop.has_cut_off();
            warn!(event.id = %id, "cut off by a stop: put back, and not counted");
        }
        ended.flatten()
    }

    /// What became of it; nothing if its handler was removed meanwhile.
    async fn run(
        &self,
        (batch, progress): (&Batch, &Progress),
        due: &Due,
        run: &Run<'_>,
    ) -> Option<Outcome> {
        let follow_up = &batch.follow_up;
        let delivery = &due.delivery;
        let id = delivery.id();
        let routing = self.routing.now();
        let sink = routing.sink(run.route())?;
        let failure = match self.door.deliver_one(sink, delivery).await {
            Err(failure) => failure,
            Ok(()) => {
                let learned = run.learn(id, None);
                learned.say(sink, None, &self.observer);
                if learned != Learned::Nothing {
                    // What waits in the table is claimed now, not at the next interval.
                    self.alarm.ring();
                }
                return Some(Outcome::Done);
            }
        };
        self.observer.tell(|metrics| metrics.errors(1));
        let of = |class| class_of(&failure, class, sink, self.consumer.pauses());
        let own = of(follow_up.class(delivery, &failure, due.waited));
        let learned = run.learn(id, Some(own));
        learned.say(sink, Some(&failure), &self.observer);
        if learned == Learned::ProbeAgain {
            self.alarm.ring();
        }
        if let Some(disabled) = Disabled::by(Some(&failure), sink) {
            progress.disabled(run.route(), disabled);
        }
        // Where it is paused, however long its circuit would leave it alone.
        let class = of(learned.class(own));
        let outcome = follow_up.after(delivery, due.attempt, &failure, class, due.waited);
        discard(failure);
        Some(outcome)
    }

    fn ring_for_retries(&self, answers: &[(EventId, Outcome)]) {
        for (_, outcome) in answers {
            match outcome {
                // Another node's handler.
                Outcome::Wait { waits_for: WaitsFor::Handler, .. } => {}
                Outcome::Retry { delay, .. } | Outcome::Wait { delay, .. } => {
                    self.alarm.ring_after(*delay);
                }
                _ => {}
            }
        }
    }
}
