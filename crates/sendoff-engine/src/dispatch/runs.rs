//! How many runs of each handler go on at once, where handlers share workers without queues of their own.

use std::sync::Mutex;

use sendoff_core::{EventId, FailureClass};
use tokio::time::Instant;
use tracing::info;

use super::Route;
use crate::lock::lock;
use crate::options::CircuitOptions;
use crate::sink::{Began, Circuit, Learned};
use crate::source::Demand;

/// How many runs each handler may have at once, and has: so that one which hangs or is slow takes no
/// worker that another needs.
#[derive(Debug)]
pub(crate) struct Runs {
    /// By [`Route::number`]: what nobody handles, then each handler.
    handlers: Mutex<Vec<Count>>,
    workers: usize,
    circuit: CircuitOptions,
}

#[derive(Debug)]
struct Count {
    most: usize,
    now: usize,
    /// Whether its target is there.
    circuit: Circuit,
    /// Whether it is paused.
    is_off: bool,
}

impl Count {
    fn takes(&self, now: Instant) -> bool {
        self.now < self.most && self.circuit.lets_begin(now)
    }
}

/// One of the runs that a handler may have at once, until it is dropped.
#[derive(Debug)]
pub(crate) struct Run<'r> {
    runs: &'r Runs,
    route: Route,
    began: Began,
}

impl Runs {
    /// For handlers with these demands, which share so many workers. What nobody handles is over at once
    /// and needs no limit; nor does a handler that is alone, unless it says so.
    pub(crate) fn new(demands: &[Option<Demand>], workers: usize, circuit: CircuitOptions) -> Self {
        let runs = Self { handlers: Mutex::default(), workers, circuit };
        runs.reshape(demands);
        runs
    }

    /// From now on there are these handlers, in the order of their routes; none in the place of one that was
    /// removed, of which no run begins any more.
    pub(crate) fn reshape(&self, demands: &[Option<Demand>]) {
        let there = demands.iter().flatten().count();
        let handler = |demand: &Option<Demand>| match demand {
            None => 0,
            Some(demand) if there <= 1 && demand.runs.is_none() => usize::MAX,
            Some(demand) => demand.most_runs(self.workers, there),
        };
        let most = std::iter::once(usize::MAX).chain(demands.iter().map(handler));
        let mut handlers = lock(&self.handlers);
        for (number, most) in most.enumerate() {
            match handlers.get_mut(number) {
                Some(known) => {
                    if known.most == 0 {
                        known.circuit = Circuit::new(self.circuit);
                    }
                    known.most = most;
                }
                None => {
                    let circuit = Circuit::new(self.circuit);
                    handlers.push(Count { most, now: 0, circuit, is_off: false });
                }
            }
        }
    }

    /// One more run of a handler, if it may have one.
    pub(crate) fn begin(&self, route: Route) -> Option<Run<'_>> {
        let now = Instant::now();
        let mut handlers = lock(&self.handlers);
        let handler = handlers.get_mut(route.number()).filter(|handler| handler.takes(now))?;
        handler.now += 1;
        let began = handler.circuit.begin(now);
        Some(Run { runs: self, route, began })
    }

    /// These handlers are paused, and no others. The target of one that is resumed is tried at once.
    pub(crate) fn pause(&self, routes: &[Route]) {
        let now = Instant::now();
        for (number, handler) in lock(&self.handlers).iter_mut().enumerate() {
            let is_off = routes.contains(&Route::of_number(number));
            if std::mem::replace(&mut handler.is_off, is_off) && !is_off {
                handler.circuit.try_now(now);
            }
        }
    }

    /// Whether a run of this handler goes on.
    pub(crate) fn goes_on(&self, route: Route) -> bool {
        lock(&self.handlers).get(route.number()).is_some_and(|handler| handler.now > 0)
    }

    /// The handlers of which no run may begin: they have all they may have, or their target is
    /// unavailable.
    pub(crate) fn full(&self) -> Vec<Route> {
        let now = Instant::now();
        let handlers = lock(&self.handlers);
        let full = handlers.iter().enumerate().filter(|(_, handler)| !handler.takes(now));
        full.map(|(number, _)| Route::of_number(number)).collect()
    }
}

impl Run<'_> {
    /// Whose run it is.
    pub(crate) fn route(&self) -> Route {
        self.route
    }

    /// What became of an event of this run: delivered, or failed with this class.
    pub(crate) fn learn(&self, id: EventId, failed: Option<FailureClass>) -> Learned {
        let mut handlers = lock(&self.runs.handlers);
        match handlers.get_mut(self.route.number()) {
            Some(handler) if self.route != Route::NOBODY => {
                handler.circuit.learn(id, failed, self.began, Instant::now())
            }
            _ => Learned::Nothing,
        }
    }
}

impl Drop for Run<'_> {
    fn drop(&mut self) {
        if let Some(handler) = lock(&self.runs.handlers).get_mut(self.route.number()) {
            handler.now -= 1;
        }
    }
}

/// One worker cannot be shared; that is allowed, and said once.
pub(crate) fn say_if_alone(workers: usize, handlers: usize) {
    if workers == 1 && handlers > 1 {
        info!("one worker for several handlers: while one of them runs, the others wait");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Holds D8.
    #[test]
    fn a_handler_has_half_of_the_workers_or_what_it_says_and_gives_each_run_back() {
        let demand = |runs| Demand { runs, batch: 1 };
        let runs =
            Runs::new(&[Some(demand(None)), Some(demand(Some(1)))], 4, CircuitOptions::default());
        let (first, second) = (Route::of_number(1), Route::of_number(2));
        let begun = [runs.begin(first), runs.begin(first)].map(Option::unwrap);
        assert!(runs.begin(first).is_none());
        let one = runs.begin(second).unwrap();
        assert_eq!(runs.full(), [first, second]);
        assert!(runs.begin(Route::NOBODY).is_some(), "it is over at once");
        drop((begun, one));
        assert!(runs.full().is_empty() && !runs.goes_on(first));
    }

    #[test]
    fn one_that_is_alone_has_no_limit_but_its_own() {
        let only = Route::of_number(1);
        let runs =
            Runs::new(&[Some(Demand { runs: None, batch: 1 })], 1, CircuitOptions::default());
        let _both = (runs.begin(only).unwrap(), runs.begin(only).unwrap());
        let runs =
            Runs::new(&[Some(Demand { runs: Some(1), batch: 1 })], 4, CircuitOptions::default());
        let _one = runs.begin(only).unwrap();
        assert!(runs.begin(only).is_none());
    }

    /// Holds D15.
    #[test]
    fn one_that_is_removed_begins_no_run_and_ends_those_it_has() {
        let demand = Some(Demand { runs: None, batch: 1 });
        let runs = Runs::new(&[demand], 4, CircuitOptions::default());
        let (first, second) = (Route::of_number(1), Route::of_number(2));
        let begun = runs.begin(first).unwrap();
        runs.reshape(&[None, demand]);
        assert!(runs.begin(first).is_none() && runs.begin(second).is_some());
        drop(begun);
        runs.reshape(&[demand, demand]);
        let begun = [runs.begin(first), runs.begin(first)];
        assert!(begun.iter().all(Option::is_some) && runs.begin(first).is_none(), "half of four");
    }
}
