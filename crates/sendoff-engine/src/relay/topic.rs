//! The topic worker: topics with handlers, on the relay.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{
    Delivery, Event, EventType, Failure, FailureClass, InvalidEvent, Linear, RetryPolicy,
    TypedEvent, Unroutable,
};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::batch::BatchReport;
use super::builder::RelayBuilder;
use super::consumer::RelayStore;
use super::options::RelayOptions;
use super::routing::Routing;
use super::runner::Relay;
use super::running::Relaying;
use crate::capture::{Capture, Staged, WriteError};
use crate::dispatch::{DuplicateHandler, Handlers, RegisterError, Registration};
use crate::engine::Closed;
use crate::operate::Metrics;
use crate::outbox::{Outbox, StartError};
use crate::sink::{EventHandler, Handler, Interceptor, Reactions, Typed};
use crate::store::{StoreError, TopicCounts};

impl<S> Outbox<S> {
    /// Writes an event for a topic into a transaction the caller holds: `payload` becomes a JSON
    /// object, and nobody sees it before `delay` is over.
    ///
    /// # Errors
    ///
    /// [`NotAnObject`](InvalidEvent::NotAnObject) for a payload that is JSON but no object,
    /// [`Unserialisable`](InvalidEvent::Unserialisable) for one that is not even that; nothing is
    /// stored then.
    pub async fn enqueue<Tx: ?Sized>(
        &self,
        tx: &mut Tx,
        topic: impl EventType,
        payload: &impl Serialize,
        delay: Duration,
    ) -> Result<Staged, WriteError>
    where
        S: Capture<Tx>,
    {
        let event = Event::builder(topic).json(payload).delay(delay).build()?;
        let first = event.payload().iter().find(|byte| !byte.is_ascii_whitespace());
        if first != Some(&b'{') {
            return Err(InvalidEvent::NotAnObject.into());
        }
        self.write(tx, event).await
    }
}

/// Handles events by topic, which is their type: a [`Relay`] under another name.
///
/// A handler that fails, or a missing one, puts the event back with one more attempt, a minute later for
/// each, up to an hour, without end; nothing is dead unless its handler says so, or
/// [options](TopicWorkerBuilder::options) do. [`counts`](Self::counts) tells how the topics stand.
#[derive(Clone)]
pub struct TopicWorker {
    relay: Relay,
    /// The same relay, one event at a time.
    single: Relay,
}

/// How a topic stands, in the words of the topic worker.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct TopicStatus {
    /// The topic.
    pub topic: String,
    /// Waiting: due, delayed, or to be tried again.
    pub pending: u64,
    /// Held by a worker.
    pub processing: u64,
    /// Handled, since the counters were made.
    pub processed: u64,
    /// Dead, since the counters were made.
    pub failed: u64,
}

impl From<TopicCounts> for TopicStatus {
    fn from(topic: TopicCounts) -> Self {
        Self {
            pending: topic.counts.pending().saturating_sub(topic.held),
            processing: topic.held,
            processed: topic.counts.done,
            failed: topic.counts.dead,
            topic: topic.event_type,
        }
    }
}

impl TopicWorker {
    /// A worker on this store.
    pub fn builder(store: impl RelayStore) -> TopicWorkerBuilder {
        TopicWorkerBuilder::new(store)
    }

    /// Starts its workers on the current tokio runtime, as [`Relay::start`]; the handle closes them.
    ///
    /// ```
    /// use sendoff_engine::memory::MemoryStore;
    /// use sendoff_engine::relay::TopicWorker;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let worker = TopicWorker::builder(MemoryStore::new()).on("order.placed", async |_| Ok(()));
    /// let working = worker.build()?.start().await?;
    /// assert!(!working.close().await.cut_off);
    /// # Ok(())
    /// # }
    /// ```
    pub async fn start(&self) -> Result<Relaying, StoreError> {
        self.relay.start().await
    }

    /// Works until `stop` is ready, as [`Relay::run`].
    pub async fn run(&self, stop: impl Future<Output = ()>) -> Closed {
        self.relay.run(stop).await
    }

    /// Handles exactly one due event; `None` if there is none whose handler has a free run.
    pub async fn consume_one(&self) -> Result<Option<BatchReport>, StoreError> {
        self.single.process_once().await
    }

    /// Registers handlers while it runs, all of them or none. What waited for one of them in the table flows
    /// soon after; other nodes hear of them. A [route](Handlers::route) among them takes the place of the one
    /// before.
    pub fn register(&self, handlers: Handlers) -> Result<(), RegisterError> {
        self.relay.register(handlers)?;
        self.single.look_again();
        Ok(())
    }

    /// Removes a handler while it runs, as [`Outbox::unregister`](crate::Outbox::unregister), and says
    /// whether there was one.
    pub fn unregister(&self, of: &Registration) -> bool {
        let there = self.relay.unregister(of);
        if there {
            self.single.look_again();
        }
        there
    }

    /// How every topic stands, without looking at events that are over.
    pub async fn counts(&self) -> Result<Vec<TopicStatus>, StoreError> {
        let consumer = self.relay.consumer();
        let topics = consumer.bounded(consumer.store().topics()).await?;
        Ok(topics.into_iter().map(TopicStatus::from).collect())
    }
}

impl fmt::Debug for TopicWorker {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicWorker").field("relay", &self.relay).finish_non_exhaustive()
    }
}

/// Puts a topic worker together.
#[must_use = "there is no worker before `build`"]
pub struct TopicWorkerBuilder {
    store: Arc<dyn RelayStore>,
    options: RelayOptions,
    retry: Arc<dyn RetryPolicy>,
    metrics: Option<Arc<dyn Metrics>>,
    reactions: Reactions,
    interceptors: Vec<Arc<dyn Interceptor>>,
    handlers: Handlers,
    duplicate: Option<DuplicateHandler>,
}

impl TopicWorkerBuilder {
    fn new(store: impl RelayStore) -> Self {
        Self {
            store: Arc::new(store),
            options: RelayOptions::for_topics(),
            retry: Arc::new(Linear::default()),
            metrics: None,
            reactions: Reactions::default(),
            interceptors: Vec::new(),
            handlers: Handlers::new(),
            duplicate: None,
        }
    }

    /// Sets every parameter; [`RelayOptions::for_topics`] has those of a worker to begin with. The delays
    /// between attempts are the [retry policy's](Self::retry).
    pub fn options(mut self, options: RelayOptions) -> Self {
        self.options = options;
        self
    }

    /// Registers the handler of a topic.
    pub fn on(mut self, topic: impl EventType, handler: impl Handler) -> Self {
        let registered = self.handlers.on(topic, handler).map(drop);
        self.noted(registered)
    }

    /// Registers the handler of a struct with `#[derive(Event)]`, whose type is the topic: an async
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
        self.on(E::EVENT_TYPE, handler)
    }

    /// Registers the handler for every topic that no other takes; see [`Handlers::on_any`].
    pub fn on_any(mut self, handler: impl Handler) -> Self {
        let registered = self.handlers.on_any(handler).map(drop);
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

    /// What becomes of an event whose topic has no handler: tried again, unless this says otherwise.
    pub fn unroutable(mut self, unroutable: Unroutable) -> Self {
        self.options.handler.unroutable = unroutable;
        self
    }

    /// Waits between attempts as `policy` says; the default waits a minute, and one more after each
    /// further failure, up to an hour.
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.retry = Arc::new(policy);
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

    /// Adds an interceptor.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Counts into `metrics`.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.metrics = Some(metrics);
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    ///
    /// A parameter out of range, or two handlers for one topic.
    pub fn build(self) -> Result<TopicWorker, StartError> {
        if let Some(duplicate) = self.duplicate {
            return Err(duplicate.into());
        }
        let routing = Arc::new(Routing::by_topic(
            self.handlers,
            self.options.workers,
            self.options.handler.circuit,
        ));
        let relay = |options: RelayOptions| {
            let mut builder = RelayBuilder::of(self.store.clone())
                .options(options)
                .retry_by(self.retry.clone())
                .reactions(self.reactions.clone());
            builder = self.interceptors.iter().cloned().fold(builder, RelayBuilder::intercept);
            if let Some(metrics) = &self.metrics {
                builder = builder.metrics(metrics.clone());
            }
            builder.build_by(routing.clone())
        };
        let single = relay(RelayOptions { batch: 1, ..self.options.clone() })?;
        Ok(TopicWorker { relay: relay(self.options)?, single })
    }
}

impl fmt::Debug for TopicWorkerBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TopicWorkerBuilder").field("options", &self.options).finish_non_exhaustive()
    }
}
