//! Who handles an event of a relay, and for whom nothing is taken now.

use std::collections::BTreeSet;
use std::sync::{Arc, Mutex};

use sendoff_core::{Delivery, Event, GLOBAL_AGGREGATE, Sink};

use crate::dispatch::{Handlers, Route, Run, Runs, demand};
use crate::lock::lock;
use crate::options::CircuitOptions;
use crate::sink::shielded;
use crate::store::{Claimed, EventKind};

/// Who handles an event, and how many runs of each handler go on at once.
pub(super) struct Routing {
    by: By,
    handlers: usize,
    runs: Runs,
}

enum By {
    /// One place for everything.
    Only(Arc<dyn Sink>),
    /// A handler for each aggregate type and event type.
    Pair(Handlers),
    /// A handler for each event type, whatever it is about; and what else than nothing its events turned
    /// out to be about, so that they can be left out.
    Topic(Handlers, Mutex<BTreeSet<(Route, String)>>),
}

/// So many kinds of aggregates are remembered. Events about further ones are put back where their handler
/// has no free run, and claimed again after a while.
const AGGREGATES: usize = 1_000;

const ONLY: usize = 1;

impl Routing {
    pub(super) fn only(sink: Arc<dyn Sink>, workers: usize, circuit: CircuitOptions) -> Self {
        let runs = Runs::new(&[demand(&*sink)], workers, circuit);
        Self { by: By::Only(sink), handlers: 1, runs }
    }

    pub(super) fn by_pair(handlers: Handlers, workers: usize, circuit: CircuitOptions) -> Self {
        let demands = handlers.demands();
        let runs = Runs::new(&demands, workers, circuit);
        Self { by: By::Pair(handlers), handlers: demands.len(), runs }
    }

    pub(super) fn by_topic(handlers: Handlers, workers: usize, circuit: CircuitOptions) -> Self {
        let demands = handlers.demands();
        let runs = Runs::new(&demands, workers, circuit);
        Self { by: By::Topic(handlers, Mutex::default()), handlers: demands.len(), runs }
    }

    /// How many handlers there are.
    pub(super) fn handlers(&self) -> usize {
        self.handlers
    }

    pub(super) fn route(&self, event: &Event) -> Route {
        match &self.by {
            By::Only(_) => Route::of_number(ONLY),
            By::Pair(handlers) => handlers.route(event),
            By::Topic(handlers, seen) => {
                let topic = EventKind { aggregate_type: GLOBAL_AGGREGATE, ..EventKind::of(event) };
                let route = handlers.route_of(topic);
                if event.aggregate_type() != GLOBAL_AGGREGATE && route != Route::NOBODY {
                    note(&mut lock(seen), route, event.aggregate_type());
                }
                route
            }
        }
    }

    pub(super) fn sink(&self, route: Route) -> &dyn Sink {
        match &self.by {
            By::Only(sink) => &**sink,
            By::Pair(handlers) | By::Topic(handlers, _) => handlers.sink(route),
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

    /// Whether nothing could be begun, whatever was claimed.
    pub(super) fn takes_nothing(&self) -> bool {
        match &self.by {
            By::Only(sink) => {
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

    /// What these handlers handle, as far as is known.
    fn kinds_of(&self, routes: &[Route]) -> LeftOut {
        let (handlers, seen) = match &self.by {
            By::Only(_) => return LeftOut::default(),
            By::Pair(handlers) => (handlers, None),
            By::Topic(handlers, seen) => (handlers, Some(seen)),
        };
        let mut kinds = Vec::new();
        for &route in routes {
            for kind in handlers.kinds_of(&[route]) {
                kinds.push((kind.aggregate_type.to_owned(), kind.event_type.to_owned()));
                let seen = seen.map(|seen| lock(seen));
                let about = seen.iter().flat_map(|seen| seen.iter()).filter(|(of, _)| *of == route);
                kinds.extend(about.map(|(_, about)| (about.clone(), kind.event_type.to_owned())));
            }
        }
        LeftOut(kinds)
    }
}

fn note(seen: &mut BTreeSet<(Route, String)>, route: Route, aggregate: &str) {
    let new = (route, aggregate.to_owned());
    if seen.len() < AGGREGATES || seen.contains(&new) {
        seen.insert(new);
    }
}

/// Kinds of events that are not taken now.
#[derive(Debug, Default)]
pub(super) struct LeftOut(Vec<(String, String)>);

impl LeftOut {
    /// Those whose handlers have all the runs they may have.
    pub(super) fn of(routing: Option<&Routing>) -> Self {
        routing.map(|routing| routing.kinds_of(&routing.runs.full())).unwrap_or_default()
    }

    /// And these.
    pub(super) fn and(mut self, kinds: Vec<(String, String)>) -> Self {
        self.0.extend(kinds);
        self
    }

    pub(super) fn kinds(&self) -> Vec<EventKind<'_>> {
        let kind = |(aggregate_type, event_type)| EventKind { aggregate_type, event_type };
        self.0.iter().map(|(aggregate, event)| kind((aggregate, event))).collect()
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

    pub(super) fn left_out(&self, routing: Option<&Routing>) -> LeftOut {
        match (self.one, routing) {
            (Some(one), Some(routing)) => {
                let others = (1..=routing.handlers).map(Route::of_number);
                let others: Vec<_> = others.filter(|route| *route != one).collect();
                routing.kinds_of(&others)
            }
            _ => LeftOut::of(routing),
        }
    }
}
