use std::fmt;
use std::future::Future;

use async_trait::async_trait;
use sendoff_core::{Delivery, Sink, Stopped, Verdict};

/// An async function over batches as a sink. It delivers all of a batch, or says where it stopped.
pub struct BatchSink<F> {
    name: String,
    deliver: F,
}

impl<F, Fut> BatchSink<F>
where
    F: Fn(Vec<Delivery>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Stopped>> + Send,
{
    /// A sink of this name.
    pub fn new(name: impl Into<String>, deliver: F) -> Self {
        Self { name: name.into(), deliver }
    }
}

#[async_trait]
impl<F, Fut> Sink for BatchSink<F>
where
    F: Fn(Vec<Delivery>) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<(), Stopped>> + Send,
{
    fn name(&self) -> &str {
        &self.name
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let ended = (self.deliver)(deliveries.to_vec()).await;
        Stopped::verdicts(ended, deliveries.len())
    }
}

impl<F> fmt::Debug for BatchSink<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("BatchSink").field("name", &self.name).finish_non_exhaustive()
    }
}
