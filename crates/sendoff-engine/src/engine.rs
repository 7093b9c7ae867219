//! Puts the stages together, and takes them apart in the right order.

use std::panic::AssertUnwindSafe;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use futures_util::FutureExt;
use sendoff_core::RetryPolicy;
use tokio::runtime::Handle;
use tokio::sync::OnceCell;
use tokio::task::JoinSet;
use tokio::time::{Instant, timeout, timeout_at};
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

use crate::config::OutboxConfig;
use crate::dispatch::{Interceptor, Listeners, Worker};
use crate::handover::{Alarm, Confirmer, Drops, Handover, Holds, LaneDepths, Lanes, Poller};
use crate::lock::lock;
use crate::operate::{Lag, Metrics, Shielded, Upkeep};
use crate::settle::{Pace, SettleWriter, completions};
use crate::store::{OutboxStore, StoreError};

/// What an engine is made of.
pub(crate) struct Parts {
    pub(crate) store: Arc<dyn OutboxStore>,
    pub(crate) config: Arc<OutboxConfig>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) interceptors: Arc<[Box<dyn Interceptor>]>,
    pub(crate) metrics: Arc<dyn Metrics>,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) random: Arc<Mutex<fastrand::Rng>>,
    pub(crate) owner: Arc<str>,
}

/// The running stages of one node. Dropping it stops every task where it is.
pub(crate) struct Engine {
    handover: Arc<Handover>,
    config: Arc<OutboxConfig>,
    stop: CancellationToken,
    running: Mutex<Option<Running>>,
    /// How closing went, once it did; a second caller waits for the first.
    closed: OnceCell<Closed>,
}

struct Running {
    poller: Poller,
    polling: JoinSet<()>,
    confirming: JoinSet<()>,
    workers: JoinSet<()>,
    /// Lag and upkeep: they may stop at any point.
    helpers: JoinSet<()>,
    settling: JoinSet<()>,
}

/// How a close went.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Closed {
    /// Whether deliveries were cut off because the drain took too long. They will be made again.
    pub cut_off: bool,
    /// Whether the database did not take the last settlements in time; their holds run out.
    pub unsettled: bool,
}

/// What closing waits for the last statements beyond the drain. A database that is away for longer
/// than this will be found with holds that run out by themselves.
const LAST_WORDS: Duration = Duration::from_secs(5);

/// What tasks get to end in once they are cut off.
const ABORT: Duration = Duration::from_secs(1);

impl Engine {
    pub(crate) fn start(parts: Parts, runtime: &Handle) -> Self {
        let Parts { store, config, listeners, interceptors, metrics, retry, random, owner } = parts;
        let shortest_hold = config.shortest_hold();
        let handover = Arc::new(Handover {
            lanes: Lanes::new(config.hot_capacity, config.cold_capacity),
            holds: Arc::new(Holds::new(shortest_hold / 2, config.in_flight_ttl)),
            alarm: Alarm::new(config.poll_interval),
            confirmer: Confirmer::new(config.hot_capacity),
            metrics: Arc::new(Shielded(metrics)),
            drops: Drops::default(),
        });
        let (completions, completed) = completions(config.hot_capacity + config.cold_capacity);

        let mut settling = JoinSet::new();
        let pace = Pace {
            hold: config.hold,
            extend_every: shortest_hold / 4,
            store_timeout: config.statement_limit(),
        };
        let writer = SettleWriter::new(store.clone(), handover.clone(), completed, pace);
        settling.spawn_on(stage("settlement", writer.run()), runtime);

        let mut workers = JoinSet::new();
        let worker = Worker {
            handover: handover.clone(),
            listeners,
            interceptors,
            retry,
            completions: completions.clone(),
            config: config.clone(),
            random,
        };
        for _ in 0..config.workers {
            workers.spawn_on(stage("worker", worker.clone().run()), runtime);
        }

        let stop = CancellationToken::new();
        let mut polling = JoinSet::new();
        let poller = Poller {
            store: store.clone(),
            handover: handover.clone(),
            completions,
            config: config.clone(),
            owner,
            suspecting: Arc::default(),
            stop: stop.clone(),
        };
        if config.poller_enabled {
            polling.spawn_on(stage("poller", poller.clone().run()), runtime);
        }

        let mut confirming = JoinSet::new();
        let (limit, told) = (config.statement_limit(), stop.clone());
        let confirm = Confirmer::run(handover.clone(), store.clone(), limit, told);
        confirming.spawn_on(stage("confirmation", confirm), runtime);

        let mut helpers = JoinSet::new();
        if handover.metrics.enabled() {
            let lag = Lag {
                store: store.clone(),
                handover: handover.clone(),
                interval: config.poll_interval,
                store_timeout: config.statement_limit(),
            };
            helpers.spawn_on(stage("lag", lag.run()), runtime);
        }
        let upkeep = Upkeep {
            store,
            purge_interval: config.purge_interval,
            store_timeout: config.statement_limit(),
        };
        helpers.spawn_on(stage("upkeep", upkeep.run()), runtime);

        let running = Running { poller, polling, confirming, workers, helpers, settling };
        Self { handover, config, stop, running: Mutex::new(Some(running)), closed: OnceCell::new() }
    }

    pub(crate) fn handover(&self) -> Arc<Handover> {
        self.handover.clone()
    }

    pub(crate) fn lane_depths(&self) -> LaneDepths {
        self.handover.lanes.depths()
    }

    pub(crate) async fn poll(&self) -> Result<bool, StoreError> {
        let poller = lock(&self.running).as_ref().map(|running| running.poller.clone());
        match poller {
            Some(poller) => poller.poll_once().await,
            None => Ok(true),
        }
    }

    pub(crate) async fn close(&self) -> Closed {
        self.stop.cancel();
        self.handover.lanes.close();
        *self.closed.get_or_init(|| self.wind_up()).await
    }

    async fn wind_up(&self) -> Closed {
        let Some(mut running) = lock(&self.running).take() else { return Closed::default() };
        let drained = Instant::now() + self.config.drain_timeout;

        cut_off(&mut running.helpers).await;
        // Finished, not cut off: the rows of a claim or a proof under way must be known to be given
        // up.
        let polled = timeout_at(drained, ended(&mut running.polling)).await;
        let proved = timeout_at(drained, ended(&mut running.confirming)).await;
        let worked = timeout_at(drained, ended(&mut running.workers)).await;
        for tasks in [&mut running.polling, &mut running.confirming, &mut running.workers] {
            cut_off(tasks).await;
        }
        // With the last sender gone the writer settles what it has and gives up the rest.
        drop(running.poller);
        let settled = timeout_at(drained + LAST_WORDS, ended(&mut running.settling)).await;
        let closed = Closed {
            cut_off: polled.is_err() || proved.is_err() || worked.is_err(),
            unsettled: settled.is_err(),
        };
        if closed == Closed::default() {
            info!("closed");
        } else {
            warn!(closed.cut_off, closed.unsettled, "closed, not everything in time");
        }
        closed
    }
}

/// A stage runs until it is told to stop. One that panics is a mistake of ours, and must not go
/// unnoticed.
async fn stage(name: &'static str, task: impl Future<Output = ()>) {
    if AssertUnwindSafe(task).catch_unwind().await.is_err() {
        error!(stage = name, "a stage of the engine panicked");
    }
}

/// Stops tasks where they are. A handler that blocks its thread cannot be stopped, nor waited for.
async fn cut_off(tasks: &mut JoinSet<()>) {
    tasks.abort_all();
    let _ = timeout(ABORT, ended(tasks)).await;
}

async fn ended(tasks: &mut JoinSet<()>) {
    while tasks.join_next().await.is_some() {}
}
