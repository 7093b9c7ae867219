//! What a broker's own client does with the same messages, by hand: batches, each confirmed as a whole, several at once.

pub(crate) mod kafka;
pub(crate) mod nats;
pub(crate) mod redis;

use std::sync::Arc;
use std::time::{Duration, Instant};

use anyhow::Result;
use async_trait::async_trait;
use tokio::task::JoinSet;

/// A message, made before the clock starts: the envelope's attributes and the body that the sink sends.
pub(crate) struct Outgoing {
    pub(crate) id: String,
    pub(crate) attributes: Vec<(String, String)>,
    pub(crate) body: Vec<u8>,
}

/// A client of a broker.
#[async_trait]
pub(crate) trait ByHand: Send + Sync + 'static {
    /// Sends all of them, and comes back when each is confirmed.
    async fn publish(&self, batch: &[Outgoing]) -> Result<()>;

    /// Forgets what was sent.
    async fn clear(&self) -> Result<()>;
}

/// Publishes all of them in batches of this size, so many at once, and returns how long it took.
pub(crate) async fn publish(
    client: &Arc<dyn ByHand>,
    messages: Vec<Outgoing>,
    batch: usize,
    at_once: usize,
) -> Result<Duration> {
    let mut batches = Vec::new();
    let mut messages = messages.into_iter().peekable();
    while messages.peek().is_some() {
        batches.push(messages.by_ref().take(batch).collect::<Vec<_>>());
    }
    let mut shares: Vec<_> = (0..at_once).map(|_| Vec::new()).collect();
    for (number, batch) in batches.into_iter().enumerate() {
        shares[number % at_once].push(batch);
    }
    let started = Instant::now();
    let mut publishing = JoinSet::new();
    for share in shares {
        let client = Arc::clone(client);
        publishing.spawn(async move {
            for batch in share {
                client.publish(&batch).await?;
            }
            anyhow::Ok(())
        });
    }
    while let Some(published) = publishing.join_next().await {
        published??;
    }
    Ok(started.elapsed())
}
