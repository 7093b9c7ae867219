//! The topic worker: topics with handlers, on the relay.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{
    Event, EventType, GLOBAL_AGGREGATE, InvalidEvent, Linear, RetryPolicy, TypedEvent, Unroutable,
};
use serde::Serialize;

use super::batch::BatchReport;
use super::builder::{RelayBuilder, RelayParts};
use super::consumer::RelayStore;
use super::options::RelayOptions;
use super::routing::Routing;
use super::runner::Relay;
use super::running::Relaying;
use crate::builder::{Builder, HasHandlers, Registrations};
use crate::capture::{Capture, Staged, WriteError};
use crate::dispatch::{Handlers, RegisterError, Registration};
use crate::engine::Closed;
use crate::outbox::{Outbox, StartError};
use crate::sink::Handler;
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
        // Large, and kept inside a caller's own future otherwise.
        Box::pin(self.single.process_once()).await
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
pub type TopicWorkerBuilder = Builder<RelayOptions, TopicParts>;

/// What only a topic worker is put together from.
#[expect(missing_debug_implementations, reason = "its builder shows the options")]
pub struct TopicParts {
    store: Arc<dyn RelayStore>,
    retry: Arc<dyn RetryPolicy>,
    registered: Registrations,
}

impl HasHandlers for TopicParts {
    fn registrations(&mut self) -> &mut Registrations {
        &mut self.registered
    }

    /// Topics know no aggregates.
    fn aggregate_of<E: TypedEvent>() -> &'static str {
        GLOBAL_AGGREGATE
    }
}

impl TopicWorkerBuilder {
    fn new(store: impl RelayStore) -> Self {
        let (store, retry) = (Arc::new(store), Arc::new(Linear::default()));
        let parts = TopicParts { store, retry, registered: Registrations::default() };
        Self::of(RelayOptions::for_topics(), parts)
    }

    /// Registers the handler of a topic.
    pub fn on(self, topic: impl EventType, handler: impl Handler) -> Self {
        self.register(|handlers| handlers.on(topic, handler).map(drop))
    }

    /// What becomes of an event whose topic has no handler: tried again, unless this says otherwise.
    pub fn unroutable(mut self, unroutable: Unroutable) -> Self {
        self.options.handler.unroutable = unroutable;
        self
    }

    /// Waits between attempts as `policy` says; the default waits a minute, and one more after each
    /// further failure, up to an hour.
    pub fn retry(mut self, policy: impl RetryPolicy + 'static) -> Self {
        self.parts.retry = Arc::new(policy);
        self
    }

    /// Checks everything.
    ///
    /// # Errors
    ///
    /// A parameter out of range, or two handlers for one topic.
    pub fn build(self) -> Result<TopicWorker, StartError> {
        let Self { options, around, parts: TopicParts { store, retry, registered } } = self;
        let handlers = registered.checked()?;
        let routing = Routing::by_topic(handlers, options.workers, options.handler.circuit);
        let routing = Arc::new(routing);
        let relay = |options: RelayOptions| {
            let parts = RelayParts { store: store.clone(), retry: Some(retry.clone()) };
            RelayBuilder { options, around: around.clone(), parts }.build_by(routing.clone())
        };
        let single = relay(RelayOptions { batch: 1, ..options.clone() })?;
        Ok(TopicWorker { relay: relay(options)?, single })
    }
}
