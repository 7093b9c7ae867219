//! One replay, from its first page to its last.

use std::sync::Mutex;
use std::time::Duration;

use futures_util::stream::{self, StreamExt};
use sendoff_core::{Delivery, Origin, ReplayMark, ReplayPosition, Timestamp};
use tokio::time::{Instant, sleep, sleep_until};
use tokio_util::sync::CancellationToken;

use super::chains::{Chain, Finished, LastOfKey, chains, key_of};
use super::{ANSWER, FAILURES, OnReplayFailure, Replay, ReplayError, ReplayFailure, Replayed};
use crate::lock::lock;
use crate::operate::Observer;
use crate::sink::{Door, Handler, HandlerSink, Interceptors, Reactions, Traces, last_words};
use crate::store::{DoneRow, StoreError, within};
use crate::told::is_told;

/// After what time a handler that says that its target is unavailable is asked again.
const UNHEALTHY: Duration = Duration::from_secs(1);

/// Replays until the end, a failure, or until it is told to stop.
pub(super) async fn run(
    replay: &Replay,
    handler: impl Handler,
    cancel: CancellationToken,
) -> Result<Replayed, ReplayError> {
    let run = Run {
        replay,
        sink: HandlerSink::new("replay", handler),
        door: Door {
            interceptors: Interceptors::default(),
            reactions: Reactions::default(),
            traces: Traces::default(),
            limit: replay.options.timeout,
            unhealthy_for: UNHEALTHY,
            observer: Observer::default(),
        },
        pace: Pace::of(replay.options.per_second),
        // Whoever stops the replay and a failure that ends it are heard alike: before the next event.
        halt: cancel,
        state: Mutex::default(),
    };
    let ended = run.pages().await;
    let State { so_far, failed, .. } = std::mem::take(&mut *lock(&run.state));
    let fault = match (ended, failed) {
        (Err(error), _) => error.into(),
        (Ok(()), Some(failure)) => failure.into(),
        (Ok(()), None) => return Ok(so_far),
    };
    Err(ReplayError { so_far: Box::new(so_far), source: fault })
}

struct Run<'r> {
    replay: &'r Replay,
    sink: HandlerSink,
    door: Door,
    pace: Pace,
    halt: CancellationToken,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    so_far: Replayed,
    /// Events that were begun.
    begun: u64,
    /// What of the page is over.
    finished: Finished,
    last_of_key: LastOfKey,
    /// What ended the replay.
    failed: Option<ReplayFailure>,
}

/// How an event ended.
enum End {
    Delivered,
    Unreadable,
    Failed(ReplayFailure),
}

impl Run<'_> {
    async fn pages(&self) -> Result<(), StoreError> {
        let until = self.replay.until().await?;
        let mut after = self.replay.options.from.map(|mark| mark.after);
        lock(&self.state).so_far.mark = self.replay.options.from;
        while !is_told(&self.halt).await {
            let page = self.replay.page(after, until);
            let found = within(ANSWER, self.replay.store.replayable(&page)).await?;
            if !self.deliver(found.rows, until).await {
                return Ok(());
            }
            match found.next {
                Some(next) => self.reached(next, until),
                None => {
                    lock(&self.state).so_far.finished = true;
                    return Ok(());
                }
            }
            after = found.next;
        }
        Ok(())
    }

    /// Everything up to a place is over.
    fn reached(&self, after: ReplayPosition, until: Timestamp) {
        lock(&self.state).so_far.mark = Some(ReplayMark { until, after });
    }

    /// Delivers the rows of a page; false where some are left.
    async fn deliver(&self, rows: Vec<DoneRow>, until: Timestamp) -> bool {
        lock(&self.state).finished = Finished::none_of(&rows);
        let keys = self.replay.options.keys_at_once;
        let chains = stream::iter(chains(rows));
        chains.for_each_concurrent(keys, |chain| self.chain(chain, until)).await;
        lock(&self.state).finished.is_whole()
    }

    /// Delivers rows one after the other, until the end or until nothing more is to begin.
    async fn chain(&self, chain: Chain, until: Timestamp) {
        for (place, row) in chain {
            if !self.begins(&row) {
                return;
            }
            let Some(end) = self.one(row).await else { return };
            if !self.ended(place, end, until) {
                return;
            }
        }
    }

    /// Whether another event may begin.
    fn begins(&self, row: &DoneRow) -> bool {
        let mut state = lock(&self.state);
        let full = self.replay.options.limit.is_some_and(|limit| state.begun >= limit);
        if full || self.halt.is_cancelled() {
            return false;
        }
        state.begun += 1;
        if let Some(key) = key_of(row) {
            let late = state.last_of_key.is_late(key, row.position.seq);
            state.so_far.late += u64::from(late);
        }
        true
    }

    /// Delivers one event, as often as it may be tried; `None` where it was told to stop before that was decided.
    async fn one(&self, row: DoneRow) -> Option<End> {
        let DoneRow { id, position, created_at, event } = row;
        let Ok(event) = event else { return Some(End::Unreadable) };
        let origin = Origin::Replay { done_at: position.done_at };
        let mut delivery = Delivery { event, created_at, attempt: 0, origin };
        loop {
            self.halt.run_until_cancelled(self.pace.turn()).await?;
            delivery.attempt += 1;
            let attempts = delivery.attempt;
            let Err(failure) = self.door.deliver_one(&self.sink, &delivery).await else {
                return Some(End::Delivered);
            };
            let again = self.replay.options.again(failure.class(), attempts);
            let error = last_words(failure);
            match again {
                Some(pause) => self.halt.run_until_cancelled(sleep(pause)).await?,
                None => return Some(End::Failed(ReplayFailure { id, position, attempts, error })),
            }
        }
    }

    /// Notes how an event ended; false where that ends the replay.
    fn ended(&self, place: usize, end: End, until: Timestamp) -> bool {
        let mut state = lock(&self.state);
        match end {
            End::Delivered => state.so_far.delivered += 1,
            End::Unreadable => state.so_far.unreadable += 1,
            End::Failed(failure) => match self.replay.options.on_failure {
                OnReplayFailure::Stop => {
                    state.failed.get_or_insert(failure);
                    self.halt.cancel();
                    return false;
                }
                OnReplayFailure::Skip => {
                    state.so_far.skipped += 1;
                    if state.so_far.failures.len() < FAILURES {
                        state.so_far.failures.push(failure);
                    }
                }
            },
        }
        if let Some(after) = state.finished.add(place) {
            state.so_far.mark = Some(ReplayMark { until, after });
        }
        self.replay.progress.tell(&state.so_far);
        true
    }
}

/// How quickly events follow one another.
#[derive(Debug)]
struct Pace {
    gap: Option<Duration>,
    next: Mutex<Option<Instant>>,
}

impl Pace {
    fn of(per_second: Option<usize>) -> Self {
        let gap = per_second.map(|rate| Duration::from_secs_f64(1.0 / rate.max(1) as f64));
        Self { gap, next: Mutex::default() }
    }

    /// Waits until the next event may begin.
    async fn turn(&self) {
        let Some(gap) = self.gap else { return };
        let at = {
            let (mut next, now) = (lock(&self.next), Instant::now());
            let at = next.map_or(now, |next| next.max(now));
            *next = Some(at + gap);
            at
        };
        sleep_until(at).await;
    }
}
