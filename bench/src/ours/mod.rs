//! The library, doing what `raw` does by hand.
//!
//! A store joins with three functions, as in `sqlite`: writers, a hot path, and a store to drain.

mod mysql;
mod postgres;
mod sqlite;
mod timed;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Result, bail, ensure};
use async_trait::async_trait;
use sendoff_core::{Delivery, Failure, Sink, Verdict};
use sendoff_engine::capture::{Commit, OutboxTx};
use sendoff_engine::relay::{ClaimMode, Relay, RelayOptions, RelayStore};
use sendoff_engine::store::{OutboxStore, RetainStore};
use sendoff_engine::{
    CleanupMaintainer, CleanupOptions, Closed, Handler, HandlerResult, Outbox, OutboxOptions,
};

use crate::Store;
use crate::ground::Ground;
use crate::load::{Trace, Writers};
use crate::order;
use crate::work::{By, Clients, Drain, Finish, Hot, POISON, Way};

use self::timed::Timed;

/// The ways to write that this store has.
pub(crate) fn ways(store: Store) -> &'static [Way] {
    match store {
        Store::Postgres => &[Way::Guard, Way::Sqlx, Way::SqlFunction],
        Store::Mariadb | Store::Mysql | Store::Sqlite => &[Way::Guard],
    }
}

/// Emits the order's event and commits, on the way of a guard.
async fn emit_and_commit<S: Commit<Tx>, Tx>(
    mut tx: OutboxTx<'_, S, Tx>,
    number: u64,
    keys: u64,
    trace: &Trace,
) -> Result<()> {
    tx.emit(order::event_of(number, keys)?)?;
    trace.called(number);
    tx.commit().await?;
    trace.replied(number);
    Ok(())
}

pub(crate) async fn writers(ground: &Ground, way: Way, clients: Clients) -> Result<Writers> {
    match ground {
        Ground::Postgres(ground) => postgres::writers(ground, way, clients).await,
        _ if clients.keys > 0 => bail!("writes with keys are measured on PostgreSQL only"),
        Ground::Mysql(ground) => mysql::writers(ground, way, clients.count).await,
        Ground::Sqlite(ground) => sqlite::writers(ground, way, clients.count).await,
    }
}

pub(crate) async fn hot(ground: &Ground, clients: Clients, trace: Trace) -> Result<Hot> {
    match ground {
        Ground::Postgres(ground) => postgres::hot(ground, clients, trace).await,
        _ if clients.keys > 0 => bail!("`hot-ordered` is measured on PostgreSQL only"),
        Ground::Mysql(_) => bail!("`hot` is not measured on MariaDB and MySQL"),
        Ground::Sqlite(ground) => sqlite::hot(ground, clients.count, trace).await,
    }
}

/// Deletes every delivered row, whatever its age.
pub(crate) async fn cleanup(ground: &Ground) -> Result<CleanupMaintainer> {
    let store: Arc<dyn RetainStore> = match ground {
        Ground::Mysql(ground) => Arc::new(ground.open(Default::default()).await?),
        Ground::Postgres(ground) => Arc::new(ground.open(Default::default()).await?),
        Ground::Sqlite(ground) => Arc::new(ground.open(Default::default()).await?),
    };
    let options = CleanupOptions { retention: Duration::ZERO, ..CleanupOptions::default() };
    Ok(CleanupMaintainer::new(store, options)?)
}

/// Delivers the backlog, and returns how long it took, from the start to the last settlement.
pub(crate) async fn drain(ground: &Ground, drain: &Drain) -> Result<Duration> {
    Ok(laps(ground, drain, drain.rows).await?.iter().sum())
}

/// The same, `lap` by `lap` of so many events.
pub(crate) async fn laps(ground: &Ground, drain: &Drain, lap: u64) -> Result<Vec<Duration>> {
    match ground {
        Ground::Postgres(ground) => postgres::drain(ground, drain, lap).await,
        Ground::Mysql(ground) => mysql::drain(ground, drain, lap).await,
        Ground::Sqlite(ground) => sqlite::drain(ground, drain, lap).await,
    }
}

/// How a backlog is drained: one batch can be claimed while another is in work.
fn drain_options(drain: &Drain) -> OutboxOptions {
    OutboxOptions {
        poll_batch: drain.batch,
        cold_capacity: drain.batch * 2,
        ..OutboxOptions::default()
    }
}

/// Drains any store.
async fn drain_store<S: RelayStore>(store: S, drain: &Drain, lap: u64) -> Result<Vec<Duration>> {
    let counter = Arc::new(Counter::default());
    if let By::Relay(mode) = drain.by {
        return relay_store(store, drain, lap, mode, counter).await;
    }
    let started = Instant::now();
    let outbox = Outbox::builder(store)
        .options(drain_options(drain))
        .on(
            order::EVENT_TYPE,
            CountingHandler {
                counter: counter.clone(),
                trace: Trace::default(),
                poison: drain.poison,
            },
        )
        .start()
        .await?;
    let ends = counter.laps(drain.rows, lap).await;
    close(&outbox).await?;
    Ok(times(started, ends))
}

/// Delivers the backlog to a sink, and returns how long it took, from the start to the last settlement.
pub(crate) async fn drain_to(
    ground: &Ground,
    drain: &Drain,
    sink: Arc<dyn Sink>,
) -> Result<Duration> {
    let Ground::Postgres(ground) = ground else { bail!("sinks are measured on PostgreSQL only") };
    let store = ground.open(drain.retention()).await?;
    let counter = Arc::new(Counter::default());
    let started = Instant::now();
    let outbox = Outbox::builder(store.clone())
        .options(drain_options(drain))
        .on_any_sink(CountedSink { counter: counter.clone(), sink })
        .start()
        .await?;
    counter.reaches(drain.rows).await;
    close(&outbox).await?;
    let took = started.elapsed();
    store.close().await;
    Ok(took)
}

async fn relay_store(
    store: impl RelayStore,
    drain: &Drain,
    lap: u64,
    mode: ClaimMode,
    counter: Arc<Counter>,
) -> Result<Vec<Duration>> {
    let options = RelayOptions {
        mode,
        batch: drain.batch,
        workers: drain.connections,
        ..RelayOptions::default()
    };
    let handler =
        CountingHandler { counter: counter.clone(), trace: Trace::default(), poison: drain.poison };
    let relay = Relay::builder(store).options(options).build(handler)?;
    let (started, mut ends) = (Instant::now(), Vec::new());
    relay.run(async { ends = counter.laps(drain.rows, lap).await }).await;
    Ok(times(started, ends))
}

/// How long each lap took, the last one until now: what is handled must be settled as well.
fn times(started: Instant, mut ends: Vec<Instant>) -> Vec<Duration> {
    ends.pop();
    ends.push(Instant::now());
    let starts = std::iter::once(started).chain(ends.iter().copied());
    starts.zip(&ends).map(|(start, end)| *end - start).collect()
}

/// An outbox with a handler that counts, and what waits for it.
async fn hot_outbox<S: OutboxStore>(store: S, trace: Trace) -> Result<(Outbox<Timed<S>>, Finish)> {
    let counter = Arc::new(Counter::default());
    let store = Timed { store, trace: trace.clone() };
    let handler = CountingHandler { counter: counter.clone(), trace, poison: false };
    let outbox = Outbox::builder(store).on(order::EVENT_TYPE, handler).start().await?;
    let closing = outbox.clone();
    let finish = move |written| {
        let finished = async move {
            counter.reaches(written).await;
            close(&closing).await
        };
        Box::pin(finished) as _
    };
    Ok((outbox, Box::new(finish)))
}

/// Ends with every settlement written.
async fn close<S: OutboxStore>(outbox: &Outbox<S>) -> Result<()> {
    let closed = outbox.close().await;
    ensure!(closed == Closed::default(), "the outbox did not close in time: {closed:?}");
    Ok(())
}

/// The handler, which does nothing but count and look at the clock.
struct CountingHandler {
    counter: Arc<Counter>,
    trace: Trace,
    poison: bool,
}

impl Handler for CountingHandler {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        if self.poison && delivery.event.ordering_key() == Some(POISON) {
            return Err(Failure::retry("poison"));
        }
        if let Some(number) = order::number(delivery.payload()) {
            self.trace.handled(number);
        }
        self.counter.0.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }
}

/// A sink, and a count of what it says to be done.
struct CountedSink {
    counter: Arc<Counter>,
    sink: Arc<dyn Sink>,
}

#[async_trait]
impl Sink for CountedSink {
    fn name(&self) -> &str {
        self.sink.name()
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let verdicts = self.sink.deliver(deliveries).await;
        let done = verdicts.iter().filter(|verdict| verdict.is_ok()).count();
        self.counter.0.fetch_add(done as u64, Ordering::Relaxed);
        verdicts
    }

    fn is_healthy(&self) -> bool {
        self.sink.is_healthy()
    }

    fn batch_size(&self) -> usize {
        self.sink.batch_size()
    }
}

#[derive(Debug, Default)]
struct Counter(AtomicU64);

impl Counter {
    /// When each lap of so many was over, up to the last of `rows`.
    async fn laps(&self, rows: u64, lap: u64) -> Vec<Instant> {
        let (mut ends, mut reached) = (Vec::new(), 0);
        while reached < rows {
            reached = rows.min(reached + lap.max(1));
            self.reaches(reached).await;
            ends.push(Instant::now());
        }
        ends
    }

    /// Looks now and then: a handler that wakes somebody for each event would be measured as well.
    async fn reaches(&self, count: u64) {
        while self.0.load(Ordering::Relaxed) < count {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
}
