//! Who handles an event of a relay, and for whom nothing is taken now.

use std::sync::Arc;

use sendoff_core::{Delivery, Event, GLOBAL_AGGREGATE, Paused, Sink};

use crate::dispatch::{Handlers, Kind, Route, Run, Runs, Strange, demand, name_of};
use crate::options::CircuitOptions;
use crate::sink::shielded;
use crate::store::{ANY, Claimed, EventKind, Except};

/// Who handles an event, and how many runs of each handler go on at once.
pub(super) struct Routing {
    by: By,
    handlers: usize,
    runs: Runs,
}

enum By {
    /// One place for everything, and its name.
    Only(Arc<dyn Sink>, String),
    /// A handler for each aggregate type and event type.
    Pair(Handlers),
    /// A handler for each event type, whatever it is about.
    Topic(Handlers),
}

const ONLY: usize = 1;

impl Routing {
    pub(super) fn only(sink: Arc<dyn Sink>, workers: usize, circuit: CircuitOptions) -> Self {
        let runs = Runs::new(&[demand(&*sink)], workers, circuit);
        let name = name_of(&*sink);
        Self { by: By::Only(sink, name), handlers: 1, runs }
    }

    pub(super) fn by_pair(handlers: Handlers, workers: usize, circuit: CircuitOptions) -> Self {
        let demands = handlers.demands();
        let runs = Runs::new(&demands, workers, circuit);
        Self { by: By::Pair(handlers), handlers: demands.len(), runs }
    }

    pub(super) fn by_topic(handlers: Handlers, workers: usize, circuit: CircuitOptions) -> Self {
        let demands = handlers.demands();
        let runs = Runs::new(&demands, workers, circuit);
        Self { by: By::Topic(handlers), handlers: demands.len(), runs }
    }

    /// What it handles, as other nodes are told.
    pub(super) fn kinds(&self) -> Vec<Kind> {
        match &self.by {
            By::Only(..) => takes_all(),
            By::Pair(handlers) => handlers.kinds(),
            By::Topic(handlers) => {
                let topics = handlers.kinds().into_iter();
                topics.map(|(_, event_type)| (ANY.to_owned(), event_type)).collect()
            }
        }
    }

    /// How many handlers there are.
    pub(super) fn handlers(&self) -> usize {
        self.handlers
    }

    pub(super) fn route(&self, event: &Event) -> Route {
        match &self.by {
            By::Only(..) => Route::of_number(ONLY),
            By::Pair(handlers) => handlers.route(event),
            By::Topic(handlers) => {
                let topic = EventKind { aggregate_type: GLOBAL_AGGREGATE, ..EventKind::of(event) };
                handlers.route_of(topic)
            }
        }
    }

    pub(super) fn sink(&self, route: Route) -> &dyn Sink {
        match &self.by {
            By::Only(sink, _) => &**sink,
            By::Pair(handlers) | By::Topic(handlers) => handlers.sink(route),
        }
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
        let mut routes: Vec<_> =
            deliveries.map(|delivery| self.route(&delivery.event)).enumerate().collect();
        if self.handlers > 1 {
            routes.sort_by_key(|(_, route)| self.runs.goes_on(*route));
        }
        routes
    }

    /// Whether operators paused an event, or who handles it.
    pub(super) fn is_paused(&self, route: Route, event: &Event, paused: &Paused) -> bool {
        let is_paused = || match &self.by {
            By::Only(_, name) => paused.has_handler(name),
            By::Pair(handlers) | By::Topic(handlers) => handlers.is_paused(route, paused),
        };
        paused.has_type(event.event_type()) || is_paused()
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
            _ => false,
        }
    }

    /// The handler of the first of these rows, if others have rows among them.
    pub(super) fn one_of_several(&self, rows: &[Claimed]) -> Option<Route> {
        let routes = rows.iter().filter_map(|row| row.event.as_ref().ok());
        let routes = routes.map(|event| self.route(event)).filter(|route| *route != Route::NOBODY);
        let routes: Vec<_> = routes.collect();
        let first = *routes.first()?;
        routes.iter().any(|route| *route != first).then_some(first)
    }

    /// What is paused, and what these handlers handle.
    fn left_out<'a>(&'a self, mut routes: Vec<Route>, paused: &'a Paused) -> LeftOut<'a> {
        let mut left_out = LeftOut { kinds: Vec::new(), types: paused.types().collect() };
        let handlers = match &self.by {
            By::Only(..) => return left_out,
            By::Pair(handlers) | By::Topic(handlers) => handlers,
        };
        routes.extend(handlers.paused(paused));
        let kinds = handlers.kinds_of(&routes);
        match &self.by {
            By::Topic(_) => left_out.types.extend(kinds.iter().map(|kind| kind.event_type)),
            By::Pair(_) | By::Only(..) => left_out.kinds = kinds,
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
pub(super) struct LeftOut<'a> {
    kinds: Vec<EventKind<'a>>,
    types: Vec<&'a str>,
}

impl<'a> LeftOut<'a> {
    /// Those that are paused, and those whose handlers have all the runs they may have.
    pub(super) fn of(routing: Option<&'a Routing>, paused: &'a Paused) -> Self {
        match routing {
            Some(routing) => routing.left_out(routing.runs.full(), paused),
            None => Self { kinds: Vec::new(), types: paused.types().collect() },
        }
    }

    /// And these.
    pub(super) fn and(mut self, strange: &'a Strange) -> Self {
        self.kinds.extend(strange.kinds());
        self.types.extend(strange.types());
        self
    }

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

    pub(super) fn left_out<'a>(
        &self,
        routing: Option<&'a Routing>,
        paused: &'a Paused,
    ) -> LeftOut<'a> {
        match (self.one, routing) {
            (Some(one), Some(routing)) => {
                let others = (1..=routing.handlers).map(Route::of_number);
                routing.left_out(others.filter(|route| *route != one).collect(), paused)
            }
            _ => LeftOut::of(routing, paused),
        }
    }
}
