use std::sync::Arc;

use sendoff::{Delivery, Failure, Handler, HandlerResult, Timestamp};
use sendoff_testkit::history::Digest;

use super::book::Book;
use super::chance::Chance;
use super::record::{Received, Record};
use super::tally::Tally;

/// Receives the events. It plays another system, one that has bad moments.
#[derive(Debug)]
pub(crate) struct DemoHandler {
    /// The number of this run of the demo.
    pub(crate) run: u32,
    /// When it began.
    pub(crate) since: Timestamp,
    pub(crate) record: Arc<Record>,
    pub(crate) book: Arc<Book>,
    pub(crate) tally: Arc<Tally>,
    pub(crate) chance: Chance,
}

impl Handler for DemoHandler {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        let run = self.book.page().delivery_started(&node(self.run), &delivery);
        let order = delivery.aggregate_id().and_then(|id| id.parse().ok()).unwrap_or_default();
        if self.chance.fails(order, delivery.attempt) {
            run.finished(false);
            self.tally.failed();
            return Err(Failure::retry("the handler has a bad moment"));
        }
        let digest = Digest::of(&delivery.event);
        let lane = delivery.lane();
        let Delivery { attempt, created_at, .. } = delivery;
        // From here on it counts as received, whatever happens to this process.
        self.record.add(Received { id: delivery.id(), run: self.run, attempt, digest }).await?;
        run.finished(true);
        // What an earlier run wrote waited for somebody to resume it.
        let ours = created_at >= self.since;
        self.tally.delivered(lane, ours.then(|| Timestamp::now().since(created_at)));
        Ok(())
    }
}

/// The name of a run in the history.
pub(crate) fn node(run: u32) -> String {
    format!("run-{run}")
}
