//! When the target of one sink counts as unavailable, and when it is tried again. Decides; the time is
//! told.

use std::time::Duration;

use sendoff_core::{EventId, Failure, FailureClass, Sink};
use tokio::time::Instant;
use tracing::{debug, info, warn};

use super::outage::{Outage, Pauses};
use super::{error_text, shielded};
use crate::operate::Observer;
use crate::options::CircuitOptions;
use crate::rarely::Rarely;

/// The longest that a target which asked to be left alone is not probed at all. The events that it said so for wait as long as it
/// asked. But a handler may have other targets for its other events, which must not wait for one of them.
const PROBED_EVERY: Duration = Duration::from_secs(60);

/// The circuit of one sink. While it is closed everything flows; while it is open nothing does, but for
/// one event at a time that probes whether the target is back.
#[derive(Debug)]
pub(crate) struct Circuit {
    options: CircuitOptions,
    state: State,
    /// What comes and goes, batch by batch, is said once a minute.
    told: Rarely,
}

#[derive(Debug)]
enum State {
    Closed {
        /// The events that failed since the last success, each once, until there are enough of them.
        failed: Vec<EventId>,
        /// What is known of the target, where one of these said that it is unavailable.
        doubt: Option<Doubt>,
    },
    Open {
        outage: Outage,
        probe_at: Instant,
    },
}

/// A target that is unavailable, for too few events to be sure.
#[derive(Debug, Clone, Copy)]
struct Doubt {
    outage: Outage,
    /// A failure after this is another one, and not of the same moment.
    goes_on_at: Instant,
}

impl Doubt {
    fn begin(pauses: Pauses, now: Instant) -> Self {
        Self { outage: Outage::begin(pauses, now), goes_on_at: now + pauses.first }
    }

    /// Another event failed, or the same one once more.
    fn goes_on(&mut self, pauses: Pauses, now: Instant) {
        if now >= self.goes_on_at {
            self.outage.goes_on(pauses);
            self.goes_on_at = now + self.outage.pause();
        }
    }
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
    /// The target is unavailable, for an event or two: it is closed as yet.
    Doubted,
    /// It opened. Whether that is the first thing that is told of it; and whether it is said, or was a moment ago.
    Opened { is_first: bool, is_said: bool },
    /// It has been open for so long, and the last probe failed. Once a minute.
    StillOpen(Duration),
}

/// What a run learned of its target.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Learned {
    /// Nothing that matters: it is there, or this failure is the event's own.
    Nothing,
    /// Nothing, and another event may probe it at once.
    ProbeAgain,
    /// It is unavailable: the event that failed waits, uncounted.
    Unavailable { delay: Duration, news: Option<News> },
    /// It is back, after so long; and whether it was said that its circuit was open.
    Back { after: Duration, was_open: bool },
}

impl Learned {
    /// What a failure of this class is about, now that this is known.
    pub(crate) fn class(self, own: FailureClass) -> FailureClass {
        match self {
            Self::Unavailable { delay, .. } => FailureClass::Unavailable { delay },
            Self::Nothing | Self::ProbeAgain | Self::Back { .. } => own,
        }
    }

    /// Says in the log, and in the metrics, what a person should know of the target of a sink.
    pub(crate) fn say(self, sink: &dyn Sink, failure: Option<&Failure>, observer: &Observer) {
        let name = || shielded(|| sink.name().to_owned()).unwrap_or_default();
        let tell = |unavailable| {
            observer.tell(|metrics| metrics.target_unavailable(&name(), unavailable));
        };
        match (self, failure) {
            (Self::Back { after, was_open }, _) => {
                tell(false);
                match was_open {
                    true => info!(handler = name(), ?after, "the target is back: its events go on"),
                    false => debug!(handler = name(), ?after, "the target is back"),
                }
            }
            (Self::Unavailable { news: Some(News::Doubted), .. }, _) => tell(true),
            (
                Self::Unavailable { delay, news: Some(News::Opened { is_first, is_said }) },
                Some(failure),
            ) => {
                if is_first {
                    tell(true);
                }
                if !is_said {
                    return;
                }
                warn!(
                    handler = name(),
                    next_try = ?delay,
                    error = error_text(failure),
                    "the target is unavailable: its events wait, and no attempt is used up"
                );
            }
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
        Self {
            options,
            state: State::Closed { failed: Vec::new(), doubt: None },
            told: Rarely::default(),
        }
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

    /// Its target may be probed at once, whatever is known of it: somebody has looked after it.
    pub(crate) fn try_now(&mut self, now: Instant) {
        if let State::Open { probe_at, .. } = &mut self.state {
            *probe_at = now;
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
            None => self.succeeded(now),
            Some(class) => match self.failed(id, class, began, now) {
                Blame::Event if class == FailureClass::Dead && began == Began::AsProbe => {
                    Learned::ProbeAgain
                }
                Blame::Event => Learned::Nothing,
                Blame::Target { delay, news } => Learned::Unavailable { delay, news },
            },
        }
    }

    /// An event was delivered.
    fn succeeded(&mut self, now: Instant) -> Learned {
        match &mut self.state {
            State::Closed { failed, doubt } => {
                failed.clear();
                let back = |doubt: Doubt| Learned::Back {
                    after: doubt.outage.lasted(now),
                    was_open: false,
                };
                doubt.take().map_or(Learned::Nothing, back)
            }
            State::Open { outage, .. } => {
                let after = outage.lasted(now);
                self.state = State::Closed { failed: Vec::new(), doubt: None };
                Learned::Back { after, was_open: self.told.over(now).is_some() }
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
        // The target is left alone as long as it asked for.
        let probe_after = |pause: Duration| now + pause.max(asked.min(PROBED_EVERY));
        match &mut self.state {
            State::Closed { failed, doubt } => {
                if failed.len() < opens_after && !failed.contains(&id) {
                    failed.push(id);
                }
                if opens_after > 0 && failed.len() >= opens_after {
                    let outage = doubt.map_or_else(|| Outage::begin(pauses, now), |it| it.outage);
                    let (pause, is_first) = (outage.pause(), doubt.is_none());
                    self.state = State::Open { outage, probe_at: probe_after(pause) };
                    let is_said = self.told.again(now).is_some();
                    let news = Some(News::Opened { is_first, is_said });
                    return Blame::Target { delay: asked.max(pause), news };
                }
                if !unavailable {
                    return Blame::Event;
                }
                let news = doubt.is_none().then_some(News::Doubted);
                let doubt = doubt.get_or_insert_with(|| Doubt::begin(pauses, now));
                doubt.goes_on(pauses, now);
                Blame::Target { delay: asked.max(doubt.outage.pause()), news }
            }
            State::Open { outage, probe_at } => {
                let mut news = None;
                if began == Began::AsProbe {
                    outage.goes_on(pauses);
                    *probe_at = probe_after(outage.pause());
                    if self.told.again(now).is_some() {
                        news = Some(News::StillOpen(outage.lasted(now)));
                    }
                } else if !asked.is_zero() {
                    // Of a run from before, whose answer is as new as any.
                    *probe_at = probe_after(Duration::ZERO).max(*probe_at);
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
        assert_eq!(circuit.succeeded(now), Learned::Nothing);
        for _ in 0..4 {
            let other = EventId::generate();
            assert_eq!(fail(&mut circuit, other, Began::Freely, now), Blame::Event);
        }
        let fifth = fail(&mut circuit, EventId::generate(), Began::Freely, now);
        let opened = Some(News::Opened { is_first: true, is_said: true });
        assert_eq!(fifth, Blame::Target { delay: SECOND, news: opened });
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
        let after = now.duration_since(begun);
        assert_eq!(circuit.succeeded(now), Learned::Back { after, was_open: true });
        assert_eq!((circuit.begin(now), circuit.probe_at()), (Began::Freely, None));
    }

    #[test]
    fn runs_from_before_it_opened_change_nothing_but_a_success_closes_it() {
        let now = Instant::now();
        let mut circuit = open(now);
        let late = fail(&mut circuit, EventId::generate(), Began::Freely, now);
        assert_eq!(late, Blame::Target { delay: SECOND, news: None });
        assert_eq!(circuit.probe_at(), Some(now + SECOND));
        assert!(matches!(circuit.succeeded(now), Learned::Back { .. }) && !circuit.is_open());
    }

    #[test]
    fn what_says_that_the_target_is_unavailable_is_believed_and_what_is_dead_stays_so() {
        let now = Instant::now();
        let mut circuit = Circuit::new(CircuitOptions::off());
        let id = EventId::generate();
        let unavailable = |delay| FailureClass::Unavailable { delay };
        for news in [Some(News::Doubted), None, None, None, None, None] {
            let blame = circuit.failed(id, unavailable(Duration::ZERO), Began::Freely, now);
            assert_eq!(blame, Blame::Target { delay: SECOND, news });
        }
        let longer = circuit.failed(id, unavailable(60 * SECOND), Began::Freely, now);
        assert_eq!(longer, Blame::Target { delay: 60 * SECOND, news: None });
        let mut circuit = open(now);
        circuit.begin(now);
        assert_eq!(circuit.failed(id, FailureClass::Dead, Began::AsProbe, now), Blame::Event);
        assert!(circuit.is_open() && circuit.lets_begin(now), "another event probes");
    }

    /// An outage that too few events meet to open a circuit is one all the same.
    #[test]
    fn one_event_is_enough_to_know_of_an_outage_and_waits_longer_and_longer() {
        let begun = Instant::now();
        for options in [CircuitOptions::default(), CircuitOptions::off()] {
            let (mut circuit, mut now, mut delays) = (Circuit::new(options), begun, Vec::new());
            let (id, class) =
                (EventId::generate(), FailureClass::Unavailable { delay: Duration::ZERO });
            for _ in 0..6 {
                match circuit.failed(id, class, Began::Freely, now) {
                    Blame::Target { delay, news } => {
                        assert_eq!(news.is_some(), now == begun, "told once");
                        delays.push(delay.as_secs());
                        now += delay;
                    }
                    Blame::Event => unreachable!("it is the target's"),
                }
                // What says nothing of the target changes nothing.
                assert_eq!(fail(&mut circuit, id, Began::Freely, now), Blame::Event);
            }
            assert_eq!(delays, [1, 2, 4, 8, 15, 15]);
            assert!(!circuit.is_open());
            let after = now.duration_since(begun);
            assert_eq!(circuit.succeeded(now), Learned::Back { after, was_open: false });
            assert_eq!(circuit.succeeded(now), Learned::Nothing);
        }
    }

    /// Holds fault 9: not only the event is left alone for as long as a target asked for.
    #[test]
    fn a_target_that_asks_to_be_left_alone_is_not_probed_meanwhile() {
        let now = Instant::now();
        let asks = |seconds: u32| FailureClass::Unavailable { delay: seconds * SECOND };
        let mut circuit = Circuit::new(CircuitOptions::default());
        for _ in 0..5 {
            circuit.failed(EventId::generate(), asks(30), Began::Freely, now);
        }
        assert_eq!(circuit.probe_at(), Some(now + 30 * SECOND));
        let now = now + 30 * SECOND;
        circuit.begin(now);
        let class = FailureClass::RetryAfter { delay: 40 * SECOND };
        circuit.failed(EventId::generate(), class, Began::AsProbe, now);
        assert_eq!(circuit.probe_at(), Some(now + 40 * SECOND));
        // A run that began before it opened ends now, and knows better.
        let longer = circuit.failed(EventId::generate(), asks(50), Began::Freely, now);
        assert_eq!(longer, Blame::Target { delay: 50 * SECOND, news: None });
        assert_eq!(circuit.probe_at(), Some(now + 50 * SECOND));
        circuit.failed(EventId::generate(), asks(1), Began::Freely, now);
        assert_eq!(circuit.probe_at(), Some(now + 50 * SECOND));
        // Others may have a target that is there.
        let hours = circuit.failed(EventId::generate(), asks(7_200), Began::Freely, now);
        assert_eq!(hours, Blame::Target { delay: 7_200 * SECOND, news: None });
        assert_eq!(circuit.probe_at(), Some(now + PROBED_EVERY));
    }

    #[test]
    fn whoever_looked_after_a_target_has_it_tried_at_once() {
        let now = Instant::now();
        let mut circuit = open(now);
        circuit.try_now(now);
        assert!(circuit.lets_begin(now) && circuit.is_open());
        circuit.begin(now);
        assert!(!circuit.lets_begin(now), "one at a time");
        let mut circuit = Circuit::new(CircuitOptions::default());
        circuit.try_now(now);
        assert!(!circuit.is_open());
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
