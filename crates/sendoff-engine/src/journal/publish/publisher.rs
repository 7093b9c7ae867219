use std::future::Future;
use std::sync::Arc;

use async_trait::async_trait;
use sendoff_core::Failure;
use sendoff_core::journal::Recorded;

use crate::dispatch::{AnyHandler, Handler};

/// Receives the facts of a topic, in the order of their positions, in batches.
///
/// Delivery is at least once: after a crash, and after a failure in the middle of a batch, a publisher
/// sees facts again, and must be able to tell by their ids.
#[async_trait]
pub trait Publisher: Send + Sync + 'static {
    /// Its name, which is stored with its cursors: it must not change.
    fn name(&self) -> &str;

    /// Publishes facts. `Ok` means that all of them are durable.
    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped>;

    /// The same, for a publisher that wants to know which attempt at each of the facts this is: 1 where
    /// it has not failed since this node leads the pair. A failure that says that the target is
    /// unavailable is no attempt.
    async fn publish_attempts(
        &self,
        facts: &[Arc<Recorded>],
        _attempts: &[u32],
    ) -> Result<(), Stopped> {
        self.publish_batch(facts).await
    }

    /// Whether its target can be reached, as far as it knows. While it is not, nothing is published,
    /// and nothing is anybody's fault.
    async fn is_healthy(&self) -> bool {
        true
    }
}

#[async_trait]
impl<P: Publisher + ?Sized> Publisher for Arc<P> {
    fn name(&self) -> &str {
        (**self).name()
    }

    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped> {
        (**self).publish_batch(facts).await
    }

    async fn publish_attempts(
        &self,
        facts: &[Arc<Recorded>],
        attempts: &[u32],
    ) -> Result<(), Stopped> {
        (**self).publish_attempts(facts, attempts).await
    }

    async fn is_healthy(&self) -> bool {
        (**self).is_healthy().await
    }
}

/// A batch that was not published to its end.
#[derive(Debug)]
pub struct Stopped {
    /// So many facts from the first on are durable all the same.
    pub done: usize,
    /// What stopped it.
    pub failure: Failure,
}

impl Stopped {
    /// Stopped behind so many facts.
    pub fn behind(done: usize, failure: impl Into<Failure>) -> Self {
        Self { done, failure: failure.into() }
    }
}

// Any failure is one of the whole batch, so that `?` works in a publisher.
impl<E: Into<Failure>> From<E> for Stopped {
    fn from(failure: E) -> Self {
        Self { done: 0, failure: failure.into() }
    }
}

/// Any handler of an outbox as a publisher: it gets one fact at a time.
#[derive(Debug, Clone)]
pub struct HandlerPublisher {
    name: String,
    handler: AnyHandler,
}

impl HandlerPublisher {
    /// A publisher of this name.
    pub fn new(name: impl Into<String>, handler: impl Handler) -> Self {
        Self { name: name.into(), handler: AnyHandler::new(handler) }
    }
}

#[async_trait]
impl Publisher for HandlerPublisher {
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped> {
        self.publish_attempts(facts, &[]).await
    }

    async fn publish_attempts(
        &self,
        facts: &[Arc<Recorded>],
        attempts: &[u32],
    ) -> Result<(), Stopped> {
        for (done, fact) in facts.iter().enumerate() {
            let attempt = attempts.get(done).copied().unwrap_or(1);
            let handled = self.handler.handle(fact.delivery(attempt)).await;
            handled.map_err(|failure| Stopped { done, failure })?;
        }
        Ok(())
    }
}

/// An async function over batches as a publisher.
pub struct FnPublisher<F> {
    name: String,
    publish: F,
}

impl<F> std::fmt::Debug for FnPublisher<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("FnPublisher").field("name", &self.name).finish_non_exhaustive()
    }
}

impl<F, Fut> FnPublisher<F>
where
    F: Fn(Vec<Arc<Recorded>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Stopped>> + Send,
{
    /// A publisher of this name.
    pub fn new(name: impl Into<String>, publish: F) -> Self {
        Self { name: name.into(), publish }
    }
}

#[async_trait]
impl<F, Fut> Publisher for FnPublisher<F>
where
    F: Fn(Vec<Arc<Recorded>>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Stopped>> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped> {
        (self.publish)(facts.to_vec()).await
    }
}
