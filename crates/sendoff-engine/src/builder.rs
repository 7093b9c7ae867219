//! What the builders of outboxes, relays, topic workers and publishing nodes have in common.

use std::borrow::Cow;
use std::fmt;
use std::sync::Arc;

use sendoff_core::{Delivery, Event, Failure, FailureClass, Sink, TypedEvent};
use serde::de::DeserializeOwned;

use crate::dispatch::{DuplicateHandler, Handlers};
use crate::operate::{Metrics, NoMetrics};
use crate::sink::{
    EventHandler, Handler, Interceptor, Interceptors, Reactions, Tracer, Traces, Typed,
};

/// Puts together what delivers: an [`OutboxBuilder`](crate::OutboxBuilder), a
/// [`RelayBuilder`](crate::relay::RelayBuilder), a [`TopicWorkerBuilder`](crate::relay::TopicWorkerBuilder) or a
/// [`PublishingBuilder`](crate::journal::publish::PublishingBuilder).
#[must_use = "nothing runs before `start` or `build`"]
pub struct Builder<Options, Parts> {
    pub(crate) options: Options,
    pub(crate) around: Around,
    pub(crate) parts: Parts,
}

/// What is around every run, whatever runs.
#[derive(Clone)]
pub(crate) struct Around {
    interceptors: Vec<Arc<dyn Interceptor>>,
    pub(crate) reactions: Reactions,
    pub(crate) traces: Traces,
    pub(crate) metrics: Arc<dyn Metrics>,
}

impl Around {
    pub(crate) fn interceptors(&self) -> Interceptors {
        Interceptors::of(self.interceptors.clone())
    }
}

impl<Options, Parts> Builder<Options, Parts> {
    pub(crate) fn of(options: Options, parts: Parts) -> Self {
        let around = Around {
            interceptors: Vec::new(),
            reactions: Reactions::default(),
            traces: Traces::default(),
            metrics: Arc::new(NoMetrics),
        };
        Self { options, around, parts }
    }

    /// Sets every parameter. A topic worker's begin with
    /// [`RelayOptions::for_topics`](crate::relay::RelayOptions::for_topics).
    pub fn options(mut self, options: Options) -> Self {
        self.options = options;
        self
    }

    /// Adds an interceptor around whatever is delivered.
    pub fn intercept(mut self, interceptor: impl Interceptor) -> Self {
        self.around.interceptors.push(Arc::new(interceptor));
        self
    }

    /// Decides what follows a failed attempt, in place of the failure's own class; where a pair of a journal
    /// waits, parks or fails is decided by it too. An event that no handler is registered for is none.
    pub fn classify(
        mut self,
        classify: impl Fn(&Delivery, &Failure) -> FailureClass + Send + Sync + 'static,
    ) -> Self {
        self.around.reactions.classify(classify);
        self
    }

    /// Calls `hook` after every failed attempt, before it is stored.
    pub fn on_failure(
        mut self,
        hook: impl Fn(&Delivery, &Failure) + Send + Sync + 'static,
    ) -> Self {
        self.around.reactions.on_failure(hook);
        self
    }

    /// Connects what is written and delivered with the application's traces.
    pub fn trace(mut self, tracer: impl Tracer) -> Self {
        self.around.traces = Traces::by(tracer);
        self
    }

    /// Counts into `metrics`.
    pub fn metrics(mut self, metrics: Arc<dyn Metrics>) -> Self {
        self.around.metrics = metrics;
        self
    }
}

/// Handlers as they are registered, and the first that there was already.
#[derive(Debug, Default)]
pub struct Registrations {
    pub(crate) handlers: Handlers,
    duplicate: Option<DuplicateHandler>,
}

impl Registrations {
    /// All of them, if there were no two for the same.
    pub(crate) fn checked(self) -> Result<Handlers, DuplicateHandler> {
        self.duplicate.map_or(Ok(self.handlers), Err)
    }
}

/// What has handlers that are registered one by one.
pub trait HasHandlers {
    /// Those it has so far.
    fn registrations(&mut self) -> &mut Registrations;

    /// The kind of aggregate that the handler of a struct with `#[derive(Event)]` is registered for.
    fn aggregate_of<E: TypedEvent>() -> &'static str;
}

impl<Options, Parts: HasHandlers> Builder<Options, Parts> {
    /// Registers the handler of a struct with `#[derive(Event)]`, whatever aggregate it names (for a topic
    /// worker its type is the topic): an async function of the struct and its [`Delivery`]. What cannot be
    /// read as one is dead at once.
    pub fn on_event<E>(self, handler: impl EventHandler<E>) -> Self
    where
        E: TypedEvent + DeserializeOwned + Send + 'static,
    {
        self.on_raw::<E>(Typed::new(handler))
    }

    /// Like [`on_event`](Self::on_event), for a handler that reads the payload itself.
    pub fn on_raw<E: TypedEvent>(self, handler: impl Handler) -> Self {
        let aggregate_type = Parts::aggregate_of::<E>();
        self.register(|handlers| {
            handlers.on_aggregate(aggregate_type, E::EVENT_TYPE, handler).map(drop)
        })
    }

    /// Registers the handler for every event that no other takes; see [`Handlers::on_any`].
    pub fn on_any(self, handler: impl Handler) -> Self {
        self.register(|handlers| handlers.on_any(handler).map(drop))
    }

    /// Registers the sink for every event that no other takes.
    pub fn on_any_sink(self, sink: impl Sink) -> Self {
        self.register(|handlers| handlers.on_any_sink(sink).map(drop))
    }

    /// Registers a handler under a name alone; see [`Handlers::on_named`].
    pub fn on_named(self, name: impl Into<String>, handler: impl Handler) -> Self {
        self.register(|handlers| handlers.on_named(name, handler).map(drop))
    }

    /// Decides in code who handles an event, by name; see [`Handlers::route`].
    pub fn route<N: Into<Cow<'static, str>>>(
        mut self,
        decide: impl Fn(&Event) -> Option<N> + Send + Sync + 'static,
    ) -> Self {
        self.parts.registrations().handlers.route(decide);
        self
    }

    /// Remembers the first handler that there was already.
    pub(crate) fn register(
        mut self,
        register: impl FnOnce(&mut Handlers) -> Result<(), DuplicateHandler>,
    ) -> Self {
        let Registrations { handlers, duplicate } = self.parts.registrations();
        if let Err(twice) = register(handlers) {
            duplicate.get_or_insert(twice);
        }
        self
    }
}

impl<Options: fmt::Debug, Parts> fmt::Debug for Builder<Options, Parts> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("options", &self.options).finish_non_exhaustive()
    }
}
