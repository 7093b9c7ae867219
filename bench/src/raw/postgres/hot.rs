//! Commit, tell a handler through a channel, mark in batches.

use anyhow::Result;
use sendoff_core::limits::BATCH_ROWS;
use sendoff_engine::OutboxOptions;
use tokio::sync::mpsc;

use super::statements::{Held, Relay};
use super::write::{ByHand, Committed, Trips};
use crate::ground::postgres::Ground;
use crate::load::{Trace, Writers};
use crate::raw::{Content, all_marked};
use crate::work::{End, Hot, Statements};

pub(in crate::raw) async fn start(ground: &Ground, clients: usize, trace: Trace) -> Result<Hot> {
    let capacity = OutboxOptions::default().hot_capacity;
    let (handover, committed) = mpsc::channel(capacity);
    let (completions, handled) = mpsc::channel(capacity);
    let relay = Relay::new(ground, Statements::Store, End::Keep).await?;
    let mut writers = Writers::new();
    for _ in 0..clients {
        let handover = Some(handover.clone());
        let writer = ByHand::new(ground, Trips::Pipelined, Content::WithEvent, handover).await?;
        writers.push(Box::new(writer));
    }
    tokio::spawn(handle(committed, completions, trace));
    // Both end when the last writer is gone.
    let marking = tokio::spawn(mark(handled, relay));
    Ok(Hot { writers, finish: all_marked(marking) })
}

/// The handler, which does nothing but look at the clock.
async fn handle(
    mut committed: mpsc::Receiver<Committed>,
    completions: mpsc::Sender<Committed>,
    trace: Trace,
) {
    while let Some(event) = committed.recv().await {
        trace.handled(event.number);
        if completions.send(event).await.is_err() {
            return;
        }
    }
}

/// Completions gather while the previous statement is under way.
async fn mark(mut handled: mpsc::Receiver<Committed>, relay: Relay) -> Result<u64> {
    let (mut batch, mut marked) = (Vec::new(), 0);
    while handled.recv_many(&mut batch, BATCH_ROWS).await > 0 {
        let (ids, tokens) = batch.drain(..).map(|event| (event.id, event.token)).unzip();
        let held = Held { ids, tokens };
        relay.settle(&held).await?;
        marked += held.ids.len() as u64;
    }
    Ok(marked)
}
