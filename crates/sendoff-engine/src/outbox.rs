//! The handle that an application keeps of its outbox, and the builder that starts it.

use std::borrow::Cow;
use std::fmt;
use std::sync::{Arc, Mutex};

use sendoff_core::{
    AggregateType, Delivery, Event, EventId, EventType, Failure, FailureClass, GLOBAL_AGGREGATE,
    IntoEvent, RetryPolicy, Sink, TypedEvent, limits,
};
use serde::de::DeserializeOwned;

use crate::capture::{Staged, WriteError, Writer, ring_for_delayed};
use crate::dispatch::{DuplicateHandler, Handlers, RegisterError, Registration};
use crate::engine::{Closed, Engine, Parts};
use crate::operate::{DeadLetters, Metrics, NoMetrics, Observer};
use crate::options::{OptionsError, OutboxOptions};
use crate::owner::owner;
use crate::sink::{EventHandler, Handler, Interceptor, Interceptors, Reactions, Typed};
use crate::source::{LaneDepths, Pauses, Stamp};
use crate::store::{Born, NewRow, OutboxStore, StoreError, contact_at_start, within};

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
        let writer = Writer {
            validation: options.validation,
            handover: None,
            owner: owner(options.node.name.as_deref(), 0),
            hot_grace: options.hot_grace,
            observer: Observer::new(metrics),
        };
        Self { store: Arc::new(store), inner: Arc::new(Inner { writer, engine: None }) }
    }

    /// Its dead letters: seen, requeued, discarded.
    pub fn dead_letters(&self) -> DeadLetters {
        DeadLetters::new(self.store.clone())
    }
}

impl<S> Outbox<S> {
    /// The store.
    pub fn store(&self) -> &S {
        &self.store
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
        Staged::new(id, writer.hot_rows(rows, born, stamp), writer.handover.clone())
    }
}

impl<S> fmt::Debug for Outbox<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Outbox").field("owner", &self.inner.writer.owner).finish_non_exhaustive()
    }
}

/// Puts an outbox together.
#[must_use = "nothing runs before `start`"]
pub struct OutboxBuilder<S> {
    store: Arc<S>,
    options: OutboxOptions,
    handlers: Handlers,
    duplicate: Option<DuplicateHandler>,
    interceptors: Vec<Box<dyn Interceptor>>,
    reactions: Reactions,
    metrics: Arc<dyn Metrics>,
    retry: Option<Arc<dyn RetryPolicy>>,
    seed: Option<u64>,
}

impl<S: OutboxStore> OutboxBuilder<S> {
    fn new(store: S) -> Self {
        Self {
            store: Arc::new(store),
            options: OutboxOptions::default(),
            handlers: Handlers::new(),
            duplicate: None,
            interceptors: Vec::new(),
            reactions: Reactions::default(),
            metrics: Arc::new(NoMetrics),
            retry: None,
            seed: None,
        }
    }

    /// Sets every parameter.
    pub fn options(mut self, options: OutboxOptions) -> Self {
        self.options = options;
        self
    }

    /// Registers the handler for events of this type without an aggregate.
    pub fn on(self, event_type: impl EventType, handler: impl Handler) -> Self {
        self.on_aggregate(GLOBAL_AGGREGATE, event_type, handler)
    }

    /// Registers the handler for a struct with `#[derive(Event)]`, whatever aggregate it names: an async
    /// function of the struct and its [`Delivery`]. What cannot be read as one is
    /// dead at once.
    pub fn on_event<E>(self, handler: impl EventHandler<E>) -> Self
    where
        E: TypedEvent + DeserializeOwned + Send + 'static,
    {
        self.on_raw::<E>(Typed::new(handler))
    }

    /// Like [`on_event`](Self::on_event), for a handler that reads the payload itself.
    pub fn on_raw<E: TypedEvent>(self, handler: impl Handler) -> Self {
        self.on_aggregate(E::AGGREGATE_TYPE, E::EVENT_TYPE, handler)
    }

    /// Registers the handler for events of this type about this kind of aggregate.
    pub fn on_aggregate(
        mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        handler: impl Handler,
    ) -> Self {
        let registered = self.handlers.on_aggregate(aggregate_type, event_type, handler).map(drop);
        self.noted(registered)
    }

    /// Registers the sink for events of this type without an aggregate. It gets what waits for it, as
    /// much as it takes at once; what it did not try after a failure it gets again at once, uncounted.
    pub fn on_sink(self, event_type: impl EventType, sink: impl Sink) -> Self {
        self.on_aggregate_sink(GLOBAL_AGGREGATE, event_type, sink)
    }

    /// Registers the sink for events of this type about this kind of aggregate.
    pub fn on_aggregate_sink(
        mut self,
        aggregate_type: impl AggregateType,
        event_type: impl EventType,
        sink: impl Sink,
    ) -> Self {
        let registered =
            self.handlers.on_aggregate_sink(aggregate_type, event_type, sink).map(drop);
        self.noted(registered)
    }

    /// Registers the handler for every event that no other takes; see [`Handlers::on_any`].
    pub fn on_any(mut self, handler: impl Handler) -> Self {
        let registered = self.handlers.on_any(handler).map(drop);
        self.noted(registered)
    }

    /// Registers the sink for every event that no other takes.
    pub fn on_any_sink(mut self, sink: impl Sink) -> Self {
        let registered = self.handlers.on_any_sink(sink).map(drop);
        self.noted(registered)
    }

    /// Registers a handler under a name alone; see [`Handlers::on_named`].
    pub fn on_named(mut self, name: impl Into<String>, handler: impl Handler) -> Self {
        let registered = self.handlers.on_named(name, handler).map(drop);
        self.noted(registered)
    }

    /// Decides in code who handles an event, by name; see [`Handlers::route`].
    pub fn route<N: Into<Cow<'static, str>>>(
        mut self,
        decide: impl Fn(&Event) -> Option<N> + Send + Sync + 'static,
    ) -> Self {
        self.handlers.route(decide);
        self
    }

    /// Remembers the first handler that there was already.
    fn noted(mut self, registered: Result<(), DuplicateHandler>) -> Self {
        if let Err(duplicate) = registered {
            self.duplicate.get_or_insert(duplicate);
        }
        self
    }

    /// Adds an interceptor.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Box::new(interceptor));
        self
    }

    /// Decides what follows a failed attempt, in place of the failure's own class. An event that no
    /// handler is registered for is none.
    pub fn classify(
        mut self,
        classify: impl Fn(&Delivery, &Failure) -> FailureClass + Send + Sync + 'static,
    ) -> Self {
        self.reactions.classify(classify);
        self
    }

    /// Calls `hook` after every failed attempt, before it is stored.
    pub fn on_failure(
        mut self,
        hook: impl Fn(&Delivery, &Failure) + Send + Sync + 'static,
    ) -> Self {
        self.reactions.on_failure(hook);
        self
    }

    /// Counts into `metrics`.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.metrics = metrics;
        self
    }

    /// Waits between attempts as `policy` says; the default doubles from
    /// [`base`](crate::RetryOptions::base) to [`max`](crate::RetryOptions::max).
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.retry = Some(Arc::new(policy));
        self
    }

    /// Takes every random number from this seed, for simulations that must repeat.
    pub fn seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
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
        if let Some(duplicate) = self.duplicate {
            return Err(duplicate.into());
        }
        self.options.validate()?;
        let mut random = self.seed.map_or_else(fastrand::Rng::new, fastrand::Rng::with_seed);
        let owner = owner(self.options.node.name.as_deref(), random.u64(..));
        let retry = self.retry.unwrap_or_else(|| Arc::new(self.options.retry));
        let runtime = tokio::runtime::Handle::try_current().map_err(StartError::NoRuntime)?;
        let (validation, hot_grace) = (self.options.validation, self.options.hot_grace);
        let pauses = Arc::new(Pauses::default());
        let look = async {
            self.store.check_ready().await?;
            pauses.look(&*self.store).await.map(drop)
        };
        let contact = contact_at_start(within(self.options.statement_limit(), look)).await?;
        let engine = Engine::start(
            Parts {
                contact,
                pauses,
                store: self.store.clone(),
                options: Arc::new(self.options),
                handlers: self.handlers,
                interceptors: Interceptors::of(self.interceptors),
                reactions: self.reactions,
                metrics: self.metrics,
                retry,
                random: Arc::new(Mutex::new(random)),
                owner: owner.clone(),
            },
            &runtime,
        );
        let handover = Some(engine.handover());
        let observer = engine.handover().observer.clone();
        let writer = Writer { validation, handover, owner, hot_grace, observer };
        let inner = Arc::new(Inner { writer, engine: Some(engine) });
        Ok(Outbox { store: self.store, inner })
    }
}

impl<S> fmt::Debug for OutboxBuilder<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("OutboxBuilder").field("options", &self.options).finish_non_exhaustive()
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
