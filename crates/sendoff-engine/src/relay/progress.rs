//! How far a batch of a relay has come.

use std::collections::VecDeque;
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::EventId;
use tokio::time::Instant;

use super::batch::BatchReport;
use crate::dispatch::{Disabled, Route};
use crate::lock::lock;
use crate::store::{Outcome, StoreError};

/// What of a batch was not begun yet, and what became of the rest: looked at beside the run that is
/// under way.
#[derive(Debug)]
pub(super) struct Progress(Mutex<State>);

#[derive(Debug)]
struct State {
    waiting: VecDeque<Waiting>,
    /// Not stored yet.
    answers: Vec<(EventId, Outcome)>,
    running: Option<(Route, Instant)>,
    begun: usize,
    /// What was stored before the end.
    stored: BatchReport,
    failed: Option<StoreError>,
    disabled: Option<(Route, Disabled)>,
}

/// An event that was not begun yet.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waiting {
    /// Its place in the batch.
    pub(super) at: usize,
    pub(super) id: EventId,
    pub(super) route: Route,
}

/// What need not wait for the run that is under way.
#[derive(Debug)]
pub(super) struct GiveWay {
    pub(super) answers: Vec<(EventId, Outcome)>,
    /// Events of other handlers.
    pub(super) waiting: Vec<EventId>,
}

/// How a batch ended.
#[derive(Debug)]
pub(super) struct Ended {
    /// Not stored yet.
    pub(super) answers: Vec<(EventId, Outcome)>,
    pub(super) begun: usize,
    pub(super) stored: BatchReport,
    pub(super) failed: Option<StoreError>,
    /// Whose target wants no more.
    pub(super) disabled: Option<Disabled>,
}

impl Progress {
    pub(super) fn new(waiting: impl IntoIterator<Item = Waiting>) -> Self {
        Self(Mutex::new(State {
            waiting: waiting.into_iter().collect(),
            answers: Vec::new(),
            running: None,
            begun: 0,
            stored: BatchReport::default(),
            failed: None,
            disabled: None,
        }))
    }

    /// The next event, and how many wait after it.
    pub(super) fn next(&self) -> Option<(Waiting, usize)> {
        let mut state = lock(&self.0);
        let next = state.waiting.pop_front()?;
        Some((next, state.waiting.len()))
    }

    /// It cannot be begun now; perhaps after the others.
    pub(super) fn pass_over(&self, waiting: Waiting) {
        lock(&self.0).waiting.push_back(waiting);
    }

    pub(super) fn has_begun(&self) -> bool {
        lock(&self.0).begun > 0
    }

    pub(super) fn begin(&self, route: Route) {
        let mut state = lock(&self.0);
        state.begun += 1;
        state.running = Some((route, Instant::now()));
    }

    /// The run is over, with an answer unless it was cut off.
    pub(super) fn end(&self, id: EventId, outcome: Option<Outcome>) {
        let mut state = lock(&self.0);
        state.running = None;
        state.answers.extend(outcome.map(|outcome| (id, outcome)));
    }

    /// A handler said that its target wants no more. One for a batch: the next says it again.
    pub(super) fn disabled(&self, route: Route, disabled: Disabled) {
        lock(&self.0).disabled.get_or_insert((route, disabled));
    }

    /// Whether this handler did.
    pub(super) fn is_disabled(&self, route: Route) -> bool {
        lock(&self.0).disabled.as_ref().is_some_and(|(of, _)| *of == route)
    }

    /// What was not begun yet.
    pub(super) fn waiting(&self) -> Vec<EventId> {
        lock(&self.0).waiting.iter().map(|waiting| waiting.id).collect()
    }

    /// When to look whether a run has gone on for so long that others need not wait for it.
    pub(super) fn gives_way_at(&self, patience: Duration) -> Instant {
        let state = lock(&self.0);
        let since = state.running.filter(|(route, _)| state.has_others(*route));
        since.map_or_else(Instant::now, |(_, since)| since) + patience
    }

    /// What a run that has gone on for so long keeps waiting.
    pub(super) fn give_way(&self, patience: Duration) -> Option<GiveWay> {
        let mut state = lock(&self.0);
        let (route, since) = state.running?;
        if since.elapsed() < patience || !state.has_others(route) {
            return None;
        }
        let answers = std::mem::take(&mut state.answers);
        let (own, others): (VecDeque<_>, VecDeque<_>) =
            state.waiting.drain(..).partition(|waiting| waiting.route == route);
        state.waiting = own;
        Some(GiveWay { answers, waiting: others.into_iter().map(|waiting| waiting.id).collect() })
    }

    /// What was given way to is stored, or is not.
    pub(super) fn stored(&self, report: Result<BatchReport, StoreError>) {
        let mut state = lock(&self.0);
        match report {
            Ok(report) => state.stored.add(report),
            Err(error) => state.failed = Some(error),
        }
    }

    pub(super) fn ended(self) -> Ended {
        let state = self.0.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
        let State { answers, begun, stored, failed, disabled, .. } = state;
        let disabled = disabled.map(|(_, disabled)| disabled);
        Ended { answers, begun, stored, failed, disabled }
    }
}

impl State {
    fn has_others(&self, route: Route) -> bool {
        !self.answers.is_empty() || self.waiting.iter().any(|waiting| waiting.route != route)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn a_long_run_gives_way_to_what_is_answered_and_to_other_handlers() {
        let id = EventId::generate();
        let of =
            |at, route| Waiting { at, id: EventId::generate(), route: Route::of_number(route) };
        let (quick, slow) = (of(0, 1), of(1, 2));
        let progress = Progress::new([quick, slow, of(2, 2), of(3, 1)]);
        assert_eq!(progress.next().map(|(next, after)| (next.at, after)), Some((0, 3)));
        progress.begin(quick.route);
        progress.end(id, Some(Outcome::Done));
        assert_eq!(progress.next().map(|(next, after)| (next.at, after)), Some((1, 2)));
        progress.begin(slow.route);
        assert!(progress.give_way(SECOND).is_none(), "it has only begun");
        assert_eq!(progress.gives_way_at(SECOND), Instant::now() + SECOND);
        tokio::time::sleep(SECOND).await;
        let way = progress.give_way(SECOND).unwrap();
        assert_eq!((way.answers.len(), way.waiting.len()), (1, 1));
        assert!(progress.give_way(SECOND).is_none(), "nobody else waits");
        assert_eq!(progress.waiting().len(), 1, "its own stay");
    }
}
