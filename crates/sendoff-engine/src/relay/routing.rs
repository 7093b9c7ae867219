//! Who handles an event of a relay, and for whom nothing is taken now.

use std::sync::Arc;

use sendoff_core::{Delivery, Event, GLOBAL_AGGREGATE, Paused, Sink};

use crate::dispatch::{
    Handlers, Kind, Now, RegisterError, Registration, Removed, Roster, Route, Run, Runs, Strange,
    check_sink, demand, name_of,
};
use crate::options::{CircuitOptions, OptionsError};
use crate::sink::shielded;
use crate::store::{ANY, Claimed, EventKind, Except};

/// Who handles an event, and how many runs of each handler go on at once.
pub(super) struct Routing {
    by: By,
    runs: Runs,
}

enum By {
    /// One place for everything, and its name.
    Only(Arc<dyn Sink>, String),
    /// A handler for each aggregate type and event type.
    Pair(Roster),
    /// A handler for each event type, whatever it is about.
    Topic(Roster),
}

/// The same at one moment.
pub(super) enum RoutingNow<'r> {
    Only(&'r dyn Sink),
    Pair(Now<'r>),
    Topic(Now<'r>),
}

const ONLY: usize = 1;

impl RoutingNow<'_> {
    pub(super) fn route(&self, event: &Event) -> Route {
        match self {
            Self::Only(_) => Route::of_number(ONLY),
            Self::Pair(handlers) => handlers.route_of(event),
            Self::Topic(handlers) => {
                let topic = EventKind { aggregate_type: GLOBAL_AGGREGATE, ..EventKind::of(event) };
                handlers.route_as(event, topic)
            }
        }
    }

    /// The handler; none if it was removed.
    pub(super) fn sink(&self, route: Route) -> Option<&dyn Sink> {
        match self {
            Self::Only(sink) => Some(*sink),
            Self::Pair(handlers) | Self::Topic(handlers) => handlers.sink(route),
        }
    }
}

impl Routing {
    pub(super) fn only(sink: Arc<dyn Sink>, workers: usize, circuit: CircuitOptions) -> Self {
        let runs = Runs::new(&[Some(demand(&*sink))], workers, circuit);
        let name = name_of(&*sink);
        Self { by: By::Only(sink, name), runs }
    }

    pub(super) fn by_pair(handlers: Handlers, workers: usize, circuit: CircuitOptions) -> Self {
        let runs = Runs::new(&handlers.demands(), workers, circuit);
        Self { by: By::Pair(Roster::new(handlers)), runs }
    }

    pub(super) fn by_topic(handlers: Handlers, workers: usize, circuit: CircuitOptions) -> Self {
        let runs = Runs::new(&handlers.demands(), workers, circuit);
        Self { by: By::Topic(Roster::new(handlers)), runs }
    }

    fn roster(&self) -> Option<&Roster> {
        match &self.by {
            By::Only(..) => None,
            By::Pair(roster) | By::Topic(roster) => Some(roster),
        }
    }

    pub(super) fn now(&self) -> RoutingNow<'_> {
        match &self.by {
            By::Only(sink, _) => RoutingNow::Only(&**sink),
            By::Pair(roster) => RoutingNow::Pair(roster.now()),
            By::Topic(roster) => RoutingNow::Topic(roster.now()),
        }
    }

    /// Whether what they say of themselves can be kept.
    pub(super) fn check(&self) -> Result<(), OptionsError> {
        match &self.by {
            By::Only(sink, name) => check_sink(name, &**sink),
            By::Pair(roster) | By::Topic(roster) => roster.now().check(),
        }
    }

    /// Registers handlers, all of them or none.
    pub(super) fn register(&self, more: Handlers) -> Result<(), RegisterError> {
        let roster = self.roster().ok_or(RegisterError::OneForAll)?;
        roster.change(|handlers| handlers.add(more), |next| self.runs.reshape(&next.demands()))
    }

    /// Removes a handler, if there is one.
    pub(super) fn unregister(&self, of: &Registration) -> Option<Removed> {
        let there = |handlers: &mut Handlers| handlers.remove(of).ok_or(());
        let reshape = |next: &Handlers| self.runs.reshape(&next.demands());
        self.roster()?.change(there, reshape).ok()
    }

    /// What it handles, as other nodes are told.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        match &self.by {
            By::Only(..) => takes_all(),
            By::Pair(roster) => roster.now().kinds(),
            By::Topic(roster) => {
                let topics = roster.now().kinds().into_iter();
                topics.map(|(_, event_type)| (ANY.to_owned(), event_type)).collect()
            }
        }
    }

    /// How many handlers there are.
    pub(super) fn handlers(&self) -> usize {
        self.roster().map_or(1, |roster| roster.now().count())
    }

    /// One more run of a handler, if it may have one.
    pub(super) fn begin(&self, route: Route) -> Option<Run<'_>> {
        self.runs.begin(route)
    }

    /// The routes of a batch. Those come last whose handlers are at work elsewhere: one that hangs is
    /// met when nobody waits for it.
    pub(super) fn in_order<'d>(
        &self,
        deliveries: impl Iterator<Item = &'d Delivery>,
    ) -> Vec<(usize, Route)> {
        let mut routes = self.as_they_come(deliveries);
        if self.handlers() > 1 {
            routes.sort_by_key(|(_, route)| self.runs.goes_on(*route));
        }
        routes
    }

    /// The routes of a batch, in its order.
    pub(super) fn as_they_come<'d>(
        &self,
        deliveries: impl Iterator<Item = &'d Delivery>,
    ) -> Vec<(usize, Route)> {
        let now = self.now();
        deliveries.map(|delivery| now.route(&delivery.event)).enumerate().collect()
    }

    /// Whether operators paused an event, or who handles it.
    pub(super) fn is_paused(&self, route: Route, event: &Event, paused: &Paused) -> bool {
        let is_paused = || match &self.by {
            By::Only(_, name) => paused.has_handler(name),
            By::Pair(roster) | By::Topic(roster) => roster.now().is_paused(route, paused),
        };
        paused.has_type(event.event_type()) || is_paused()
    }

    /// This is paused. The target of a handler that was, and is not any more, is tried at once: whoever resumes it has
    /// looked after it.
    pub(super) fn hear(&self, paused: &Paused) {
        let routes = match &self.by {
            By::Only(_, name) if paused.has_handler(name) => vec![Route::of_number(ONLY)],
            By::Only(..) => Vec::new(),
            By::Pair(roster) | By::Topic(roster) => roster.now().paused(paused),
        };
        self.runs.pause(&routes);
    }

    /// Whether nothing could be begun, whatever was claimed.
    pub(super) fn takes_nothing(&self, paused: &Paused) -> bool {
        if paused.is_all() {
            return true;
        }
        match &self.by {
            By::Only(_, name) if paused.has_handler(name) => true,
            By::Only(sink, _) => {
                matches!(shielded(|| sink.is_healthy()), Ok(false)) || !self.runs.full().is_empty()
            }
            // What it has no run for would be claimed again and again.
            By::Pair(roster) | By::Topic(roster) => {
                roster.now().is_beyond_claims(&self.runs.full())
            }
        }
    }

    /// The handler of the first of these rows, if others have rows among them.
    pub(super) fn one_of_several(&self, rows: &[Claimed]) -> Option<Route> {
        let now = self.now();
        let routes = rows.iter().filter_map(|row| row.event.as_ref().ok());
        let routes = routes.map(|event| now.route(event)).filter(|route| *route != Route::NOBODY);
        let routes: Vec<_> = routes.collect();
        let first = *routes.first()?;
        routes.iter().any(|route| *route != first).then_some(first)
    }

    /// What is paused, and what these handlers handle.
    fn left_out(&self, mut routes: Vec<Route>, paused: &Paused) -> LeftOut {
        let mut left_out = LeftOut::paused(paused);
        let Some(roster) = self.roster() else { return left_out };
        let handlers = roster.now();
        routes.extend(handlers.paused(paused));
        let owned =
            |kind: EventKind<'_>| (kind.aggregate_type.to_owned(), kind.event_type.to_owned());
        let kinds = handlers.kinds_of(&routes).into_iter().map(owned);
        let kinds = kinds.chain(handlers.seen_of(&routes));
        match &self.by {
            By::Topic(_) => left_out.types.extend(kinds.map(|(_, event_type)| event_type)),
            By::Pair(_) | By::Only(..) => left_out.kinds = kinds.collect(),
        }
        left_out
    }
}

/// What somebody handles who takes everything.
pub(super) fn takes_all() -> Vec<Kind> {
    vec![(ANY.to_owned(), ANY.to_owned())]
}

/// Events that are not taken now.
#[derive(Debug)]
pub(super) struct LeftOut {
    kinds: Vec<Kind>,
    types: Vec<String>,
}

/// The same, as a claim takes them.
#[derive(Debug)]
pub(super) struct LeftOutView<'a> {
    kinds: Vec<EventKind<'a>>,
    types: Vec<&'a str>,
}

impl LeftOut {
    fn paused(paused: &Paused) -> Self {
        Self { kinds: Vec::new(), types: paused.types().map(str::to_owned).collect() }
    }

    /// Those that are paused, and those whose handlers have all the runs they may have.
    pub(super) fn of(routing: Option<&Routing>, paused: &Paused) -> Self {
        match routing {
            Some(routing) => routing.left_out(routing.runs.full(), paused),
            None => Self::paused(paused),
        }
    }

    /// And these.
    pub(super) fn and<'a>(&'a self, strange: &'a Strange) -> LeftOutView<'a> {
        let kinds = self.kinds.iter().map(EventKind::from).chain(strange.kinds());
        let types = self.types.iter().map(String::as_str).chain(strange.types());
        LeftOutView { kinds: kinds.collect(), types: types.collect() }
    }
}

impl LeftOutView<'_> {
    pub(super) fn except(&self) -> Except<'_> {
        Except { kinds: &self.kinds, types: &self.types }
    }
}

/// How a look for one handler's events alone is come to: one at everything says whose they are.
#[derive(Debug, Default)]
pub(super) struct Narrow {
    one: Option<Route>,
    tries: usize,
}

/// So often others may be quicker.
const TRIES: usize = 3;

impl Narrow {
    pub(super) fn is_narrow(&self) -> bool {
        self.one.is_some()
    }

    /// Only for this handler from now on; not if it is narrow already.
    pub(super) fn to(&mut self, one: Route) -> bool {
        let widens = self.one.is_none();
        self.one.get_or_insert(one);
        widens
    }

    /// Back to everything; not if it was that, or too often.
    pub(super) fn widen(&mut self) -> bool {
        self.tries += 1;
        self.one.take().is_some() && self.tries < TRIES
    }

    pub(super) fn left_out(&self, routing: Option<&Routing>, paused: &Paused) -> LeftOut {
        match (self.one, routing) {
            (Some(one), Some(routing)) => {
                let all = routing.roster().map(|roster| roster.now().routes());
                let others = all.into_iter().flatten().filter(|route| *route != one);
                routing.left_out(others.collect(), paused)
            }
            _ => LeftOut::of(routing, paused),
        }
    }
}
