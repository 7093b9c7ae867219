//! One run of a handler.

use std::time::Duration;

use sendoff_core::{Delivery, Failure};
use tokio::time::timeout;

use super::shield::shield;
use super::{AnyHandler, HandlerResult};

/// Runs a handler. A panic is a failed attempt like any other, and so is one that takes too long.
pub(crate) async fn attempt(
    handler: &AnyHandler,
    delivery: Delivery,
    limit: Option<Duration>,
) -> HandlerResult {
    let run = shield(|| handler.run(delivery));
    let ended = match limit {
        None => run.await,
        Some(limit) => match timeout(limit, run).await {
            Ok(ended) => ended,
            Err(_) => {
                let text = format!("handler did not finish within {limit:?}");
                return Err(Failure::retry(text));
            }
        },
    };
    ended.flatten()
}
