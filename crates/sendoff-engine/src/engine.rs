//! Puts the stages together, and takes them apart in the right order.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::RetryPolicy;
use tokio::runtime::Handle;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use crate::dispatch::{
    FollowUp, Handlers, RegisterError, Registration, Restarts, Roster, Watch, Worker, say_if_alone,
    supervise,
};
use crate::lock::lock;
use crate::operate::{Lag, Metrics, Observer, Upkeep, Waiters};
use crate::options::OutboxOptions;
use crate::settle::{Pace, Refusals, SettleWriter, completions};
use crate::sink::{Door, Interceptors, Reactions, Traces, shielded_policy};
use crate::source::{
    Alarm, Bound, Capacity, Confirmer, Drops, Handover, Holds, KeyLooks, Keys, LaneDepths, Lanes,
    PauseWatch, Pauses, Poller, Register,
};
use crate::store::{Contact, OutboxStore, StoreError};

/// What an engine is made of.
pub(crate) struct Parts {
    /// Whether the store's tables were looked at.
    pub(crate) contact: Contact,
    /// What is paused, if they were.
    pub(crate) pauses: Arc<Pauses>,
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) options: Arc<OutboxOptions>,
    pub(crate) handlers: Handlers,
    pub(crate) interceptors: Interceptors,
    pub(crate) reactions: Reactions,
    pub(crate) traces: Traces,
    pub(crate) metrics: Arc<dyn Metrics>,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) random: Arc<Mutex<fastrand::Rng>>,
    pub(crate) owner: Arc<str>,
}

/// The running stages of one node. Dropping it stops every task where it is.
pub(crate) struct Engine {
    handover: Arc<Handover>,
    options: Arc<OutboxOptions>,
    stop: CancellationToken,
    restarts: Restarts,
    /// Until it is closed.
    poller: Mutex<Option<Poller>>,
    register: Register,
    /// Whoever closes has it to himself. It stays here while he works on it: when he stops waiting, the
    /// next caller goes on where he was.
    running: tokio::sync::Mutex<Running>,
}

struct Running {
    polling: JoinSet<()>,
    confirming: JoinSet<()>,
    workers: JoinSet<()>,
    /// Watch, lag and upkeep: they may stop at any point.
    helpers: JoinSet<()>,
    settling: JoinSet<()>,
    /// Until when the lanes may drain, once somebody closed.
    drained: Option<Instant>,
    /// Whether something had to be cut off so far.
    cut_off: bool,
    /// How closing went, once it did.
    closed: Option<Closed>,
}

/// How a close went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Closed {
    /// Whether deliveries were cut off because the drain took too long. They will be made again.
    pub cut_off: bool,
    /// Whether the database did not take the last settlements in time; their holds run out.
    pub unsettled: bool,
}

impl Closed {
    pub(crate) fn say(self) {
        if self == Self::default() {
            info!("closed");
        } else {
            warn!(
                closed.cut_off = self.cut_off,
                closed.unsettled = self.unsettled,
                "closed, not everything in time"
            );
        }
    }
}

/// What closing waits for the last statements beyond the drain. A database that is unavailable for longer
/// than this will be found with holds that run out by themselves.
pub(crate) const LAST_WORDS: Duration = Duration::from_secs(5);

/// What tasks get to end in once they are cut off.
const ABORT: Duration = Duration::from_secs(1);

impl Engine {
    pub(crate) fn start(parts: Parts, runtime: &Handle) -> Self {
        let Parts {
            contact,
            pauses,
            store,
            options,
            handlers,
            interceptors,
            reactions,
            traces,
            metrics,
            retry,
            random,
            owner,
        } = parts;
        let observer = Observer::new(metrics);
        let shortest_hold = options.shortest_hold();
        let hot = Bound { count: options.hot_capacity, bytes: options.hot_bytes };
        let cold = Bound { count: options.cold_capacity, bytes: options.cold_bytes };
        let capacity = Capacity { workers: options.workers, hot, cold };
        let demands = handlers.demands();
        say_if_alone(options.workers, handlers.count());
        let handlers = Arc::new(Roster::new(handlers));
        let follow_up = FollowUp::new(
            shielded_policy(retry, options.retry.max),
            options.retry.max_attempts,
            &options.handler,
            random,
        );
        let handover = Arc::new(Handover {
            lanes: Lanes::new(capacity, &demands, options.handler.circuit),
            holds: Arc::new(Holds::new(shortest_hold / 2, options.in_flight_ttl)),
            keys: Arc::new(Keys::new(cold, hot.count, shortest_hold / 2)),
            handlers: handlers.clone(),
            alarm: Alarm::new(options.poll_interval),
            confirmer: Confirmer::new(hot),
            observer: observer.clone(),
            drops: Drops::default(),
            pauses: pauses.clone(),
            unknown: follow_up.unknown().clone(),
            waiters: Waiters::new(store.clone()),
            store: store.clone(),
        });
        let (completions, completed) = completions(options.hot_capacity + options.cold_capacity);
        let (stop, restarts) = (CancellationToken::new(), Restarts::default());
        let stages = Stages { runtime, stop: &stop, restarts: &restarts };

        let pace = Pace {
            hold: options.hold,
            shortest_hold,
            statement_limit: options.statement_limit(),
            refusals: Refusals {
                patience: options.hold,
                delay: options.retry.max,
                max_attempts: options.retry.max_attempts,
                after_dead: options.handler.after_dead,
            },
        };
        let writer =
            SettleWriter::new(store.clone(), handover.clone(), completed, pace, owner.clone());
        let writer = Arc::new(tokio::sync::Mutex::new(writer));
        let mut settling = JoinSet::new();
        stages.spawn(&mut settling, "settlement", writer, |writer| async move {
            writer.lock().await.run().await;
        });

        let mut workers = JoinSet::new();
        let limit = options.statement_limit();
        let mine = {
            let handlers = handlers.clone();
            Arc::new(move || handlers.now().kinds())
        };
        let register = Register::new(store.clone(), mine, &follow_up, limit);
        let worker = Worker {
            handover: handover.clone(),
            handlers,
            door: Door {
                interceptors,
                reactions,
                traces,
                limit: options.handler.timeout,
                unhealthy_for: options.poll_interval,
                observer: observer.clone(),
            },
            follow_up,
            completions: completions.clone(),
            limit,
        };
        for _ in 0..options.workers {
            stages.spawn(&mut workers, "worker", worker.clone(), Worker::run);
        }

        let mut polling = JoinSet::new();
        let poller = Poller {
            store: store.clone(),
            handover: handover.clone(),
            completions,
            options: options.clone(),
            owner: owner.clone(),
            asking: Arc::new(Poller::asking(&options, store.clone())),
            slow_asking: Arc::new(Poller::asking(&options, store.clone())),
            fair: Poller::fair(&options),
            slow_fair: Poller::fair(&options),
            keys: Arc::new(KeyLooks::new(store.clone(), handover.clone(), options.clone(), owner)),
            suspecting: Arc::default(),
            busy_turns: Arc::new(Mutex::new(Poller::busy_turns(&options))),
            armed: Arc::default(),
            stop: stop.clone(),
        };
        let pause_watch = PauseWatch {
            store: store.clone(),
            pauses,
            observer: observer.clone(),
            interval: options.poll_interval,
            limit: options.statement_limit(),
            apply: {
                let poller = poller.clone();
                Arc::new(move |paused| poller.pause(paused))
            },
        };
        pause_watch.begin();
        if options.poller_enabled {
            let parts = (poller.clone(), register.clone());
            stages.spawn(&mut polling, "poller", parts, move |(poller, register)| async move {
                if contact == Contact::Pending {
                    poller.wait_for_database().await;
                }
                register.look_if_old().await;
                poller.run().await;
            });
        }

        let mut confirming = JoinSet::new();
        let (limit, parts) =
            (options.statement_limit(), (handover.clone(), store.clone(), stop.clone()));
        stages.spawn(&mut confirming, "confirmation", parts, move |(handover, store, stop)| {
            Confirmer::run(handover, store, limit, stop)
        });

        let mut helpers = JoinSet::new();
        let watch = Watch { handover: handover.clone(), limit: options.handler.start_within };
        stages.spawn(&mut helpers, "watch", watch, Watch::run);
        stages.spawn(&mut helpers, "pauses", pause_watch, PauseWatch::run);
        stages.spawn(&mut helpers, "register", register.clone(), Register::run);
        if observer.is_on() {
            let lag = Lag {
                store: store.clone(),
                handover: handover.clone(),
                interval: options.poll_interval,
                store_timeout: options.statement_limit(),
            };
            stages.spawn(&mut helpers, "lag", lag, Lag::run);
        }
        let upkeep = Upkeep {
            store,
            purge_interval: options.purge_interval,
            store_timeout: options.statement_limit(),
        };
        stages.spawn(&mut helpers, "upkeep", upkeep, Upkeep::run);

        let running = tokio::sync::Mutex::new(Running {
            polling,
            confirming,
            workers,
            helpers,
            settling,
            drained: None,
            cut_off: false,
            closed: None,
        });
        let poller = Mutex::new(Some(poller));
        Self { handover, options, stop, restarts, poller, register, running }
    }

    pub(crate) fn handover(&self) -> Arc<Handover> {
        self.handover.clone()
    }

    /// What this node holds.
    pub(crate) fn holds(&self) -> &Holds {
        &self.handover.holds
    }

    pub(crate) fn register(&self, more: Handlers) -> Result<(), RegisterError> {
        self.change(|handlers| handlers.add(more))
    }

    pub(crate) fn unregister(&self, of: &Registration) -> bool {
        let removed = self.change(|handlers| handlers.remove(of).ok_or(()));
        removed.map(|removed| removed.tell(&self.handover.observer)).is_ok()
    }

    /// Changes the handlers: those that are new have a queue before anything is routed to them.
    fn change<T, E>(&self, change: impl FnOnce(&mut Handlers) -> Result<T, E>) -> Result<T, E> {
        let Handover { handlers, lanes, .. } = &*self.handover;
        let changed = handlers.change(change, |next| lanes.reshape(&next.demands()))?;
        if let Some(poller) = &*lock(&self.poller) {
            poller.look_again();
        }
        self.register.has_changed();
        Ok(changed)
    }

    pub(crate) fn lane_depths(&self) -> LaneDepths {
        self.handover.lanes.depths()
    }

    pub(crate) fn restarts(&self) -> u64 {
        self.restarts.count()
    }

    pub(crate) async fn poll(&self) -> Result<bool, StoreError> {
        let poller = lock(&self.poller).clone();
        match poller {
            Some(poller) => poller.poll_once().await,
            None => Ok(true),
        }
    }

    pub(crate) async fn close(&self) -> Closed {
        self.stop.cancel();
        self.handover.lanes.close();
        let mut running = self.running.lock().await;
        if let Some(closed) = running.closed {
            return closed;
        }
        let closed = self.wind_up(&mut running).await;
        running.closed = Some(closed);
        closed
    }

    /// Every step of it can be made again: a caller who stops waiting leaves the rest to the next one.
    async fn wind_up(&self, running: &mut Running) -> Closed {
        let limit = Instant::now() + self.options.node.drain_timeout;
        let drained = *running.drained.get_or_insert(limit);

        cut_off(&mut running.helpers).await;
        // Finished, not cut off: the rows of a claim or a proof under way must be known to be given
        // up.
        let Running { polling, confirming, workers, .. } = running;
        for tasks in [polling, confirming, workers] {
            let in_time = timeout_at(drained, ended(tasks)).await.is_ok();
            // Before anything is cut off: then nobody would know any more.
            running.cut_off |= !in_time;
        }
        for tasks in [&mut running.polling, &mut running.confirming, &mut running.workers] {
            cut_off(tasks).await;
        }
        // With the last sender gone the writer settles what it has and releases the rest.
        drop(lock(&self.poller).take());
        let last_words = drained.max(Instant::now()) + LAST_WORDS;
        let settled = timeout_at(last_words, ended(&mut running.settling)).await;
        cut_off(&mut running.settling).await;
        let closed = Closed { cut_off: running.cut_off, unsettled: settled.is_err() };
        closed.say();
        closed
    }
}

/// What starts stages. Each runs until it is told to stop, whatever happens in it.
struct Stages<'a> {
    runtime: &'a Handle,
    stop: &'a CancellationToken,
    restarts: &'a Restarts,
}

impl Stages<'_> {
    /// `stage` is cloned for each time it is begun.
    fn spawn<T, F>(
        &self,
        tasks: &mut JoinSet<()>,
        name: &'static str,
        stage: T,
        run: impl Fn(T) -> F + Send + 'static,
    ) where
        T: Clone + Send + 'static,
        F: Future<Output = ()> + Send + 'static,
    {
        let (stop, restarts) = (self.stop.clone(), self.restarts.clone());
        tasks.spawn_on(supervise(name, restarts, stop, move || run(stage.clone())), self.runtime);
    }
}

/// Stops tasks where they are. A handler that blocks its thread cannot be stopped, nor waited for.
pub(crate) async fn cut_off(tasks: &mut JoinSet<()>) {
    tasks.abort_all();
    let _ = timeout(ABORT, ended(tasks)).await;
}

pub(crate) async fn ended(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}
