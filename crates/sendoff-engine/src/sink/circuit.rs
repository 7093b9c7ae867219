//! When the target of one sink counts as unavailable, and when it is tried again. Decides; the time is
//! told.

use std::time::Duration;

use sendoff_core::{EventId, Failure, FailureClass, Sink};
use tokio::time::Instant;
use tracing::{info, warn};

use super::outage::{Outage, Pauses};
use super::{error_text, shielded};
use crate::options::CircuitOptions;
use crate::rarely::Rarely;

/// The circuit of one sink. While it is closed everything flows; while it is open nothing does, but for
/// one event at a time that probes whether the target is back.
#[derive(Debug)]
pub(crate) struct Circuit {
    options: CircuitOptions,
    state: State,
}

#[derive(Debug)]
enum State {
    /// The events that failed since the last success, each once, until there are enough of them.
    Closed {
        failed: Vec<EventId>,
    },
    Open {
        outage: Outage,
        probe_at: Instant,
        told: Rarely,
    },
}

/// How a run began.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Began {
    /// The circuit was closed.
    Freely,
    /// To find out whether the target is back.
    AsProbe,
}

/// Whose a failure is, and what it changed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Blame {
    /// The event's own, as far as can be told.
    Event,
    /// The target's: no attempt, and no other try before this delay is over.
    Target { delay: Duration, news: Option<News> },
}

/// What somebody should be told of a circuit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum News {
    /// It opened.
    Opened,
    /// It has been open for so long, and the last probe failed. Once a minute.
    StillOpen(Duration),
}

/// What a run learned of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learned {
    /// Nothing that matters: it is there, or this failure is the event's own.
    Nothing,
    /// It is unavailable: the event that failed waits, uncounted.
    Unavailable { delay: Duration, news: Option<News> },
    /// It is back, after so long.
    Back { after: Duration },
}

impl Learned {
    /// What a failure of this class is about, now that this is known.
    pub(crate) fn class(self, own: FailureClass) -> FailureClass {
        match self {
            Self::Unavailable { delay, .. } => FailureClass::Unavailable { delay },
            Self::Nothing | Self::Back { .. } => own,
        }
    }

    /// Says in the log what a person should know of the target of a sink.
    pub(crate) fn say(self, sink: &dyn Sink, failure: Option<&Failure>) {
        let name = || shielded(|| sink.name().to_owned()).unwrap_or_default();
        match (self, failure) {
            (Self::Back { after }, _) => {
                info!(handler = name(), ?after, "the target is back: its events go on");
            }
            (Self::Unavailable { delay, news: Some(News::Opened) }, Some(failure)) => warn!(
                handler = name(),
                next_try = ?delay,
                error = error_text(failure),
                "the target is unavailable: its events wait, and no attempt is used up"
            ),
            (Self::Unavailable { delay, news: Some(News::StillOpen(since)) }, Some(failure)) => {
                warn!(
                    handler = name(),
                    ?since,
                    next_try = ?delay,
                    error = error_text(failure),
                    "the target is still unavailable"
                );
            }
            _ => {}
        }
    }
}

impl Circuit {
    pub(crate) fn new(options: CircuitOptions) -> Self {
        Self { options, state: State::Closed { failed: Vec::new() } }
    }

    pub(crate) fn is_open(&self) -> bool {
        matches!(self.state, State::Open { .. })
    }

    /// When the next probe may begin, while it is open.
    pub(crate) fn probe_at(&self) -> Option<Instant> {
        match self.state {
            State::Closed { .. } => None,
            State::Open { probe_at, .. } => Some(probe_at),
        }
    }

    /// Whether a run may begin.
    pub(crate) fn lets_begin(&self, now: Instant) -> bool {
        self.probe_at().is_none_or(|at| now >= at)
    }

    /// A run begins. The next probe follows when this one has failed, or takes too long.
    pub(crate) fn begin(&mut self, now: Instant) -> Began {
        match &mut self.state {
            State::Closed { .. } => Began::Freely,
            State::Open { probe_at, .. } => {
                *probe_at = now + self.options.longest_pause;
                Began::AsProbe
            }
        }
    }

    /// An event was delivered in a run that began so, or failed with this class.
    pub(crate) fn learn(
        &mut self,
        id: EventId,
        failed: Option<FailureClass>,
        began: Began,
        now: Instant,
    ) -> Learned {
        match failed {
            None => self.succeeded(now).map_or(Learned::Nothing, |after| Learned::Back { after }),
            Some(class) => match self.failed(id, class, began, now) {
                Blame::Event => Learned::Nothing,
                Blame::Target { delay, news } => Learned::Unavailable { delay, news },
            },
        }
    }

    /// An event was delivered. Answers for how long the circuit was open, if it was.
    fn succeeded(&mut self, now: Instant) -> Option<Duration> {
        match &mut self.state {
            State::Closed { failed } => {
                failed.clear();
                None
            }
            State::Open { outage, .. } => {
                let open = outage.lasted(now);
                self.state = State::Closed { failed: Vec::new() };
                Some(open)
            }
        }
    }

    /// An event failed in a run that began so.
    fn failed(&mut self, id: EventId, class: FailureClass, began: Began, now: Instant) -> Blame {
        let (asked, unavailable) = match class {
            FailureClass::Dead => {
                // Whatever the target does, this event is over, and says nothing of it: on to the next.
                if let (State::Open { probe_at, .. }, Began::AsProbe) = (&mut self.state, began) {
                    *probe_at = now;
                }
                return Blame::Event;
            }
            FailureClass::Retry => (Duration::ZERO, false),
            FailureClass::RetryAfter { delay } => (delay, false),
            FailureClass::Unavailable { delay } => (delay, true),
        };
        let CircuitOptions { opens_after, first_pause, longest_pause } = self.options;
        let pauses = Pauses { first: first_pause, longest: longest_pause };
        match &mut self.state {
            State::Closed { failed } => {
                if failed.len() < opens_after && !failed.contains(&id) {
                    failed.push(id);
                }
                if opens_after > 0 && failed.len() >= opens_after {
                    let (outage, told) = (Outage::begin(pauses, now), Rarely::said(now));
                    self.state = State::Open { outage, probe_at: now + first_pause, told };
                    return Blame::Target {
                        delay: asked.max(first_pause),
                        news: Some(News::Opened),
                    };
                }
                if unavailable {
                    Blame::Target { delay: asked.max(first_pause), news: None }
                } else {
                    Blame::Event
                }
            }
            State::Open { outage, probe_at, told } => {
                let mut news = None;
                if began == Began::AsProbe {
                    outage.goes_on(pauses);
                    *probe_at = now + outage.pause();
                    if told.again(now).is_some() {
                        news = Some(News::StillOpen(outage.lasted(now)));
                    }
                }
                Blame::Target { delay: asked.max(outage.pause()), news }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    fn fail(circuit: &mut Circuit, id: EventId, began: Began, now: Instant) -> Blame {
        circuit.failed(id, FailureClass::Retry, began, now)
    }

    fn open(now: Instant) -> Circuit {
        let mut circuit = Circuit::new(CircuitOptions::default());
        for _ in 0..5 {
            fail(&mut circuit, EventId::generate(), Began::Freely, now);
        }
        assert!(circuit.is_open());
        circuit
    }

    /// Holds D7: five different events in a row are the target's failure, one that fails by itself is not.
    #[test]
    fn it_opens_when_different_events_fail_in_a_row() {
        let now = Instant::now();
        let mut circuit = Circuit::new(CircuitOptions::default());
        let poison = EventId::generate();
        for _ in 0..20 {
            assert_eq!(fail(&mut circuit, poison, Began::Freely, now), Blame::Event);
        }
        for _ in 0..3 {
            let other = EventId::generate();
            assert_eq!(fail(&mut circuit, other, Began::Freely, now), Blame::Event);
        }
        assert_eq!(circuit.succeeded(now), None);
        for _ in 0..4 {
            let other = EventId::generate();
            assert_eq!(fail(&mut circuit, other, Began::Freely, now), Blame::Event);
        }
        let fifth = fail(&mut circuit, EventId::generate(), Began::Freely, now);
        assert_eq!(fifth, Blame::Target { delay: SECOND, news: Some(News::Opened) });
        assert!(!circuit.lets_begin(now) && circuit.lets_begin(now + SECOND));
    }

    #[test]
    fn probes_go_one_at_a_time_and_less_and_less_often() {
        let begun = Instant::now();
        let (mut circuit, mut now, mut pauses) = (open(begun), begun, Vec::new());
        for _ in 0..6 {
            let at = circuit.probe_at().unwrap();
            pauses.push(at.duration_since(now).as_secs());
            now = at;
            assert_eq!(circuit.begin(now), Began::AsProbe);
            assert!(!circuit.lets_begin(now + 14 * SECOND), "one at a time");
            assert!(circuit.lets_begin(now + 15 * SECOND), "one that hangs is not waited for");
            fail(&mut circuit, EventId::generate(), Began::AsProbe, now);
        }
        assert_eq!(pauses, [1, 2, 4, 8, 15, 15]);
        circuit.begin(now);
        assert_eq!(circuit.succeeded(now), Some(now.duration_since(begun)));
        assert_eq!((circuit.begin(now), circuit.probe_at()), (Began::Freely, None));
    }

    #[test]
    fn runs_from_before_it_opened_change_nothing_but_a_success_closes_it() {
        let now = Instant::now();
        let mut circuit = open(now);
        let late = fail(&mut circuit, EventId::generate(), Began::Freely, now);
        assert_eq!(late, Blame::Target { delay: SECOND, news: None });
        assert_eq!(circuit.probe_at(), Some(now + SECOND));
        assert!(circuit.succeeded(now).is_some() && !circuit.is_open());
    }

    #[test]
    fn what_says_that_the_target_is_unavailable_is_believed_and_what_is_dead_stays_so() {
        let now = Instant::now();
        let mut circuit = Circuit::new(CircuitOptions::off());
        let id = EventId::generate();
        let unavailable = |delay| FailureClass::Unavailable { delay };
        for _ in 0..9 {
            let blame = circuit.failed(id, unavailable(Duration::ZERO), Began::Freely, now);
            assert_eq!(blame, Blame::Target { delay: SECOND, news: None });
        }
        let longer = circuit.failed(id, unavailable(60 * SECOND), Began::Freely, now);
        assert_eq!(longer, Blame::Target { delay: 60 * SECOND, news: None });
        let mut circuit = open(now);
        circuit.begin(now);
        assert_eq!(circuit.failed(id, FailureClass::Dead, Began::AsProbe, now), Blame::Event);
        assert!(circuit.is_open() && circuit.lets_begin(now), "another event probes");
    }

    #[test]
    fn it_is_spoken_of_once_a_minute() {
        let begun = Instant::now();
        let mut circuit = open(begun);
        let mut told = Vec::new();
        while circuit.probe_at().unwrap() < begun + 180 * SECOND {
            let now = circuit.probe_at().unwrap();
            circuit.begin(now);
            if let Blame::Target { news: Some(News::StillOpen(since)), .. } =
                fail(&mut circuit, EventId::generate(), Began::AsProbe, now)
            {
                told.push(since.as_secs());
            }
        }
        assert_eq!(told, [60, 120]);
    }
}
