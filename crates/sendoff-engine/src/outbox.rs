//! The handle that an application keeps of its outbox, and the builder that starts it.

use std::fmt;
use std::sync::{Arc, Mutex, Weak};
use std::time::Duration;

use sendoff_core::{
    AggregateType, Event, EventId, EventType, GLOBAL_AGGREGATE, IntoEvent, ReplayFilter,
    RetryPolicy, Sink, TypedEvent, limits,
};

use crate::builder::{Builder, HasHandlers, Registrations};
use crate::capture::{Staged, WriteError, Writer, ring_for_delayed};
use crate::dispatch::{DuplicateHandler, Handlers, RegisterError, Registration};
use crate::engine::{Closed, Engine, Parts};
use crate::operate::{
    AwaitError, Awaited, CaughtUp, DeadLetters, Metrics, NoMetrics, Observer, OrderKeys, Replay,
    ReplayOptions, ReplayRefused, Waiters,
};
use crate::options::{OptionsError, OutboxOptions};
use crate::owner::owner;
use crate::sink::Handler;
use crate::source::{LaneDepths, Pauses, Stamp};
use crate::store::{Born, NewRow, OutboxStore, StoreError, check_ready, contact_at_start, within};

/// The handle an application keeps: writes events, and owns what delivers them. Cheap to clone.
///
/// [`close`](Self::close) ends it in order. When the last handle is dropped without that, everything
/// stops where it is, as in a crash: nothing is lost, but holds run out only by time.
pub struct Outbox<S> {
    store: Arc<S>,
    inner: Arc<Inner>,
}

/// What every handle shares, whichever store it writes through.
struct Inner {
    writer: Writer,
    engine: Option<Engine>,
}

/// A handle that keeps no outbox running: for handlers that need theirs, to [settle](Outbox::settle_in) their events
/// in a transaction of their own.
pub struct WeakOutbox<S> {
    store: Weak<S>,
    inner: Weak<Inner>,
}

impl<S> WeakOutbox<S> {
    /// The outbox, as long as somebody else has it.
    pub fn upgrade(&self) -> Option<Outbox<S>> {
        Some(Outbox { store: self.store.upgrade()?, inner: self.inner.upgrade()? })
    }
}

impl<S> Clone for WeakOutbox<S> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), inner: self.inner.clone() }
    }
}

impl<S> fmt::Debug for WeakOutbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("WeakOutbox")
    }
}

impl<S> Clone for Outbox<S> {
    fn clone(&self) -> Self {
        Self { store: self.store.clone(), inner: self.inner.clone() }
    }
}

impl<S: OutboxStore> Outbox<S> {
    /// An outbox that writes and delivers.
    pub fn builder(store: S) -> OutboxBuilder<S> {
        OutboxBuilder::new(store)
    }

    /// An outbox that only writes: delivery is some other process's work. Needs no runtime.
    pub fn writer_only(store: S) -> Self {
        Self::writer_with(store, &OutboxOptions::default())
    }

    /// Like [`writer_only`](Self::writer_only), with its own checks.
    pub fn writer_with(store: S, options: &OutboxOptions) -> Self {
        Self::writer_measured(store, options, Arc::new(NoMetrics))
    }

    /// Like [`writer_with`](Self::writer_with), and counts what it writes into `metrics`.
    pub fn writer_measured(store: S, options: &OutboxOptions, metrics: Arc<dyn Metrics>) -> Self {
        Self::builder(store).options(options.clone()).metrics(metrics).writer()
    }

    /// Its dead letters: seen, requeued, discarded.
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(self.store.clone())
    }

    /// The keys of its events: how they stand, which are parked, and letting those go on.
    pub fn keys(&self) -> OrderKeys {
        OrderKeys::new(self.store.clone())
    }

    /// A replay of what was delivered and is kept, to a handler that is given to its
    /// [`run`](Replay::run).
    ///
    /// # Errors
    ///
    /// [`NothingKept`](ReplayRefused::NothingKept) where delivered events are deleted.
    pub fn replay(
        &self,
        filter: ReplayFilter,
        options: ReplayOptions,
    ) -> Result<Replay, ReplayRefused> {
        Replay::new(self.store.clone(), filter, options)
    }
}

impl<S> Outbox<S> {
    /// The store.
    pub fn store(&self) -> &S {
        &self.store
    }

    /// A handle for its own handlers, which does not keep it running.
    pub fn downgrade(&self) -> WeakOutbox<S> {
        let Self { store, inner } = self;
        WeakOutbox { store: Arc::downgrade(store), inner: Arc::downgrade(inner) }
    }

    /// The same outbox, written to through another type of its store: `narrow` makes that of this one, where
    /// it can. For a store that is any of several, whose transactions are of one driver.
    pub fn through<T>(&self, narrow: impl FnOnce(&S) -> Option<T>) -> Option<Outbox<T>> {
        let store = Arc::new(narrow(&self.store)?);
        Some(Outbox { store, inner: self.inner.clone() })
    }

    /// One pass of the poller, now: claims what is visible and fits the cold lane. Answers whether
    /// it came to the end of it. A writer-only outbox has nothing to poll for.
    pub async fn poll(&self) -> Result<bool, StoreError> {
        match &self.inner.engine {
            Some(engine) => engine.poll().await,
            None => Ok(true),
        }
    }

    /// Waits until an event is over, wherever it is delivered: by this node, which tells at once, or by
    /// another, whose work is found by looking at the row, after 50 ms, then less and less often, up to once a
    /// second. All who wait in a process are served by one look.
    ///
    /// Cancel-safe. It may answer a second late, so that the last look is made to its end.
    ///
    /// ```
    /// use std::time::Duration;
    /// use sendoff_core::Delivery;
    /// use sendoff_engine::memory::MemoryStore;
    /// use sendoff_engine::{Awaited, Outbox};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = Outbox::builder(MemoryStore::new())
    ///     .on("night.began", |_: Delivery| async { Ok(()) })
    ///     .start()
    ///     .await?;
    /// let id = outbox.send(("night.began", "{}")).await?;
    /// match outbox.delivered(id, Duration::from_secs(5)).await? {
    ///     Awaited::Delivered => println!("it is dark"),
    ///     Awaited::Dead { error } => println!("nobody took it: {error}"),
    ///     Awaited::TimedOut => println!("it is still on its way"),
    ///     Awaited::NotSeen => println!("was it ever committed?"),
    /// }
    /// # outbox.close().await;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Call it after the commit: of an event whose row is not there yet, or not any more, it cannot tell one
    /// from the other. A row that is gone counts as delivered only where its commit was proved, by this
    /// process or because a look saw the row; else the answer is [`NotSeen`](Awaited::NotSeen). Where
    /// delivered rows are deleted, this process remembers the last ten thousand it committed or delivered.
    ///
    /// # Errors
    ///
    /// [`TooMany`](AwaitError::TooMany) where ten thousand events are waited for, and
    /// [`Store`](AwaitError::Store) where the database refuses. One that is unavailable is asked again.
    pub async fn delivered(&self, id: EventId, timeout: Duration) -> Result<Awaited, AwaitError> {
        self.writer().waiters.delivered(id, timeout).await
    }

    /// Waits until everything is over that was committed before this call, by whatever process it was written
    /// and is delivered: a barrier for tests and deploys.
    ///
    /// Over means DONE or DEAD: a dead letter is no reason to wait. What waits for a retry, a target, a handler
    /// or its turn, and what is paused, is not over. An event whose delay was not over at the time of the call
    /// is not waited for. What is committed later may be waited for as well, where its transaction was open
    /// at the time of the call.
    ///
    /// It costs a look through the index of what is pending when it begins and whenever a hundred more are
    /// over, and rests four times as long as that took. Cancel-safe.
    ///
    /// # Errors
    ///
    /// As [`delivered`](Self::delivered).
    pub async fn caught_up(&self, timeout: Duration) -> Result<CaughtUp, AwaitError> {
        self.writer().waiters.caught_up(timeout).await
    }

    /// How full the lanes are.
    pub fn lane_depths(&self) -> LaneDepths {
        self.inner.engine.as_ref().map(Engine::lane_depths).unwrap_or_default()
    }

    /// Registers handlers while it runs, all of them or none. What waited for one of them in the table flows
    /// soon after; other nodes hear of them. A [route](Handlers::route) among them takes the place of the one
    /// before.
    ///
    /// ```
    /// use sendoff_core::Delivery;
    /// use sendoff_engine::memory::MemoryStore;
    /// use sendoff_engine::{Handlers, Outbox, Registration};
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let outbox = Outbox::builder(MemoryStore::new()).start().await?;
    /// let mut plugin = Handlers::new();
    /// plugin.on("order.placed", |_: Delivery| async { Ok(()) })?;
    /// outbox.register(plugin)?;
    /// // … and takes them away again.
    /// assert!(outbox.unregister(&Registration::of("order.placed")));
    /// # outbox.close().await;
    /// # Ok(())
    /// # }
    /// ```
    pub fn register(&self, handlers: Handlers) -> Result<(), RegisterError> {
        match &self.inner.engine {
            Some(engine) => engine.register(handlers),
            None => Err(RegisterError::OnlyWrites),
        }
    }

    /// Removes a handler while it runs, and says whether there was one. Its runs go on to their end; what
    /// waits for it is as an event [without a handler](crate::HandlerOptions::unroutable), from the time on
    /// that this node's word for it is no longer believed: until then, a quarter of an hour by default, it
    /// is left to others.
    pub fn unregister(&self, of: &Registration) -> bool {
        self.inner.engine.as_ref().is_some_and(|engine| engine.unregister(of))
    }

    /// How often a task of the engine panicked and was begun again, which the log says at ERROR. Code of
    /// yours cannot make it so: whatever is not zero is a mistake of ours, and worth a report.
    pub fn restarts(&self) -> u64 {
        self.inner.engine.as_ref().map(Engine::restarts).unwrap_or_default()
    }

    /// Stops in order: takes nothing new, lets the lanes drain for the configured time, writes every
    /// settlement, and releases what is left so that others can claim it at once.
    ///
    /// Dropped half-way, nothing is taken any more, and what is left to do waits for the next call,
    /// which goes on from there. A call after the last one hears what that one did.
    pub async fn close(&self) -> Closed {
        match &self.inner.engine {
            Some(engine) => engine.close().await,
            None => Closed::default(),
        }
    }

    pub(crate) fn engine(&self) -> Option<&Engine> {
        self.inner.engine.as_ref()
    }

    pub(crate) fn writer(&self) -> &Writer {
        &self.inner.writer
    }

    pub(crate) fn checked<E: IntoEvent>(
        &self,
        events: impl IntoIterator<Item = E>,
    ) -> Result<(Vec<EventId>, Vec<NewRow>), WriteError> {
        let check = |event| self.writer().check(event);
        let events = events.into_iter().map(check).collect::<Result<Vec<_>, _>>()?;
        if events.len() > limits::WRITE_EVENTS {
            return Err(WriteError::TooMany { events: events.len(), limit: limits::WRITE_EVENTS });
        }
        let bytes = events.iter().map(|event| event.payload().len()).sum();
        if bytes > limits::WRITE_BYTES {
            return Err(WriteError::TooLarge { bytes, limit: limits::WRITE_BYTES });
        }
        let ids = events.iter().map(Event::id).collect();
        Ok((ids, self.writer().rows(events)))
    }

    pub(crate) fn staged<Id>(
        &self,
        id: Id,
        rows: Vec<NewRow>,
        born: &[Born],
        stamp: Stamp,
    ) -> Staged<Id> {
        let writer = self.writer();
        writer.count(&rows);
        if let Some(handover) = &writer.handover {
            ring_for_delayed(handover, &rows);
        }
        let (handover, waiters) = (writer.handover.clone(), writer.waiters.clone());
        Staged::new(id, writer.hot_rows(rows, born, stamp), handover, waiters)
    }
}

impl<S> fmt::Debug for Outbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("owner", &self.inner.writer.owner).finish_non_exhaustive()
    }
}

/// Puts an outbox together.
pub type OutboxBuilder<S> = Builder<OutboxOptions, OutboxParts<S>>;

/// What only an outbox is put together from.
#[expect(missing_debug_implementations, reason = "its builder shows the options")]
pub struct OutboxParts<S> {
    store: Arc<S>,
    registered: Registrations,
    retry: Option<Arc<dyn RetryPolicy>>,
    seed: Option<u64>,
}

impl<S> HasHandlers for OutboxParts<S> {
    fn registrations(&mut self) -> &mut Registrations {
        &mut self.registered
    }

    fn aggregate_of<E: TypedEvent>() -> &'static str {
        E::AGGREGATE_TYPE
    }
}

impl<S: OutboxStore> OutboxBuilder<S> {
    fn new(store: S) -> Self {
        let (store, registered) = (Arc::new(store), Registrations::default());
        let parts = OutboxParts { store, registered, retry: None, seed: None };
        Self::of(OutboxOptions::default(), parts)
    }

    /// Registers the handler for events of this type without an aggregate.
    pub fn on(self, event_type: impl EventType, handler: impl Handler) -> Self {
        self.on_aggregate(GLOBAL_AGGREGATE, event_type, handler)
    }

    /// Registers the handler for events of this type about this kind of aggregate.
    pub fn on_aggregate(
        self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        handler: impl Handler,
    ) -> Self {
        self.register(|handlers| {
            handlers.on_aggregate(aggregate_type, event_type, handler).map(drop)
        })
    }

    /// Registers the sink for events of this type without an aggregate. It gets what waits for it, as
    /// much as it takes at once; what it did not try after a failure it gets again at once, uncounted.
    pub fn on_sink(self, event_type: impl EventType, sink: impl Sink) -> Self {
        self.on_aggregate_sink(GLOBAL_AGGREGATE, event_type, sink)
    }

    /// Registers the sink for events of this type about this kind of aggregate.
    pub fn on_aggregate_sink(
        self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        sink: impl Sink,
    ) -> Self {
        self.register(|handlers| {
            handlers.on_aggregate_sink(aggregate_type, event_type, sink).map(drop)
        })
    }

    /// Waits between attempts as `policy` says; the default doubles from
    /// [`base`](crate::RetryOptions::base) to [`max`](crate::RetryOptions::max).
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.parts.retry = Some(Arc::new(policy));
        self
    }

    /// Takes every random number from this seed, for simulations that must repeat.
    pub fn seed(mut self, seed: u64) -> Self {
        self.parts.seed = Some(seed);
        self
    }

    /// An outbox that only writes, with what was said so far of checks, metrics and traces: delivery is some other
    /// process's work. Needs no runtime.
    pub fn writer(self) -> Outbox<S> {
        let Self { options, around, parts } = self;
        let store = parts.store;
        let writer = Writer {
            validation: options.validation,
            handover: None,
            owner: owner(options.node.name.as_deref(), 0),
            hot_grace: options.hot_grace,
            observer: Observer::new(around.metrics),
            waiters: Waiters::new(store.clone()),
            traces: around.traces,
        };
        Outbox { store, inner: Arc::new(Inner { writer, engine: None }) }
    }

    /// Checks everything and starts workers, poller and settlement on the current tokio runtime.
    ///
    /// Looks at the store's tables and rights once. A database that is unavailable is no reason not to
    /// start: the log says so, and nothing is claimed until the same look was made and all was well.
    ///
    /// # Errors
    ///
    /// [`StartError::Store`] for tables that this version cannot work with and for rights that are
    /// missing, with what to do about it; the others are about what was passed to the builder.
    pub async fn start(self) -> Result<Outbox<S>, StartError> {
        let Self { options, around, parts } = self;
        let OutboxParts { store, registered, retry, seed } = parts;
        let handlers = registered.checked()?;
        options.validate()?;
        handlers.check()?;
        let mut random = seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let owner = owner(options.node.name.as_deref(), random.u64(..));
        let retry = retry.unwrap_or_else(|| Arc::new(options.retry));
        let runtime = tokio::runtime::Handle::try_current().map_err(StartError::NoRuntime)?;
        let (validation, hot_grace) = (options.validation, options.hot_grace);
        let pauses = Arc::new(Pauses::default());
        let look = async {
            check_ready(&*store, options.fair.is_some()).await?;
            pauses.look(&*store).await.map(drop)
        };
        let contact = contact_at_start(within(options.statement_limit(), look)).await?;
        let engine = Engine::start(
            Parts {
                contact,
                pauses,
                store: store.clone(),
                options: Arc::new(options),
                handlers,
                interceptors: around.interceptors(),
                reactions: around.reactions,
                traces: around.traces.clone(),
                metrics: around.metrics,
                retry,
                random: Arc::new(Mutex::new(random)),
                owner: owner.clone(),
            },
            &runtime,
        );
        let handover = Some(engine.handover());
        let observer = engine.handover().observer.clone();
        let waiters = engine.handover().waiters.clone();
        let traces = around.traces;
        let writer = Writer { validation, handover, owner, hot_grace, observer, waiters, traces };
        let inner = Arc::new(Inner { writer, engine: Some(engine) });
        Ok(Outbox { store, inner })
    }
}

/// Why an outbox did not start.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum StartError {
    /// A parameter is out of range.
    #[error(transparent)]
    Options(#[from] OptionsError),
    /// Two handlers for one pair.
    #[error(transparent)]
    DuplicateHandler(#[from] DuplicateHandler),
    /// Delivery needs a runtime.
    #[error("an outbox that delivers is started inside a tokio runtime")]
    NoRuntime(#[source] tokio::runtime::TryCurrentError),
    /// The database cannot be worked with as it is. One that is unavailable is not refused.
    #[error(transparent)]
    Store(#[from] StoreError),
}
