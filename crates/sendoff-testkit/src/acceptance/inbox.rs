//! A handler that keeps what it receives, for tests to look at.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use sendoff_core::{Delivery, Event, EventId, Failure, Lane};
use sendoff_engine::store::OutboxStore;
use sendoff_engine::{Handler, HandlerResult, Outbox, OutboxOptions};
use tokio::sync::Semaphore;

use crate::wait::eventually;

/// A handler that keeps what it gets.
#[derive(Debug, Clone)]
pub struct Inbox {
    received: Arc<Mutex<Vec<Delivery>>>,
    /// Each run needs one; there are plenty, unless somebody wants to watch closely.
    permits: Arc<Semaphore>,
    fails: bool,
}

/// The grace of events in tests of what must not leave: short, so that what was left behind comes soon.
pub const SHORT_GRACE: Duration = Duration::from_millis(200);

/// An event that is due after the [`SHORT_GRACE`] of anything before it, so that a phantom comes first.
///
/// # Panics
/// If it is refused, which it is not.
pub fn last_order() -> Event {
    let event = Event::builder("order.placed").delay(SHORT_GRACE * 2).json(&1);
    event.build().expect("a small event")
}

impl Inbox {
    /// An outbox that looks often, and gives every `order.placed` to an inbox.
    ///
    /// # Panics
    /// If it does not start.
    pub async fn of_orders<S>(store: S, hot_grace: Duration) -> (Outbox<S>, Self)
    where
        S: OutboxStore + 'static,
    {
        let inbox = Self::new();
        let options = OutboxOptions {
            hot_grace,
            poll_interval: Duration::from_millis(50),
            ..OutboxOptions::default()
        };
        let builder = Outbox::builder(store).options(options).on("order.placed", inbox.clone());
        (builder.start().await.expect("it starts"), inbox)
    }

    /// A handler that accepts everything.
    pub fn new() -> Self {
        let permits = Arc::new(Semaphore::new(Semaphore::MAX_PERMITS));
        Self { received: Arc::default(), permits, fails: false }
    }

    /// A handler that stops at every delivery until it is [let](Self::allow) go on.
    pub fn stepping() -> Self {
        Self { permits: Arc::new(Semaphore::new(0)), ..Self::new() }
    }

    /// Fails every delivery.
    #[must_use]
    pub fn failing(self) -> Self {
        Self { fails: true, ..self }
    }

    /// Lets so many deliveries go on.
    pub fn allow(&self, runs: usize) {
        self.permits.add_permits(runs);
    }

    /// Everything so far.
    pub fn received(&self) -> Vec<Delivery> {
        self.received.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// The ids so far, sorted.
    pub fn ids(&self) -> Vec<EventId> {
        let mut ids: Vec<_> = self.received().iter().map(|delivery| delivery.id()).collect();
        ids.sort_unstable();
        ids
    }

    /// The ways they came.
    pub fn lanes(&self) -> Vec<Lane> {
        self.received().iter().filter_map(Delivery::lane).collect()
    }

    /// Waits for these deliveries from memory; there may be no others.
    ///
    /// # Panics
    /// If there is another, or one came from the table.
    pub async fn has_hot(&self, mut ids: Vec<EventId>) {
        self.has(ids.len()).await;
        ids.sort_unstable();
        assert_eq!(self.ids(), ids);
        assert!(self.lanes().iter().all(|lane| *lane == Lane::Hot), "{:?}", self.lanes());
    }

    /// Waits until this event was delivered, ends the outbox, and says what else was.
    pub async fn until<S: OutboxStore>(&self, last: EventId, outbox: &Outbox<S>) -> Vec<EventId> {
        eventually("the last event", async || self.ids().contains(&last)).await;
        outbox.close().await;
        self.ids().into_iter().filter(|id| *id != last).collect()
    }

    /// Waits for so many deliveries.
    pub async fn has(&self, count: usize) {
        eventually("deliveries", async || self.received().len() >= count).await;
    }
}

impl Default for Inbox {
    fn default() -> Self {
        Self::new()
    }
}

impl Handler for Inbox {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        self.permits.acquire().await?.forget();
        self.received.lock().unwrap_or_else(PoisonError::into_inner).push(delivery);
        if self.fails { Err(Failure::retry("this inbox takes nothing")) } else { Ok(()) }
    }
}
