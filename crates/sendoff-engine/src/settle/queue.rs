use sendoff_core::Attempt;
use tokio::sync::mpsc;

use crate::source::Ticket;
use crate::store::Outcome;

/// A run that is over, and what is to be written about it.
#[derive(Debug)]
pub(crate) struct Completion {
    pub(crate) ticket: Ticket,
    pub(crate) attempt: Attempt,
    pub(crate) outcome: Outcome,
}

/// The way into the settlement writer. Bounded: when the database cannot keep up, workers wait.
#[derive(Debug, Clone)]
pub(crate) struct Completions(mpsc::Sender<Completion>);

pub(crate) fn completions(capacity: usize) -> (Completions, mpsc::Receiver<Completion>) {
    let (sender, receiver) = mpsc::channel(capacity);
    (Completions(sender), receiver)
}

impl Completions {
    /// Hands a completion on. If the writer is gone the hold simply runs out: the event is delivered
    /// again, never lost.
    pub(crate) async fn send(&self, completion: Completion) {
        completion.ticket.run_is_over();
        let _ = self.0.send(completion).await;
    }
}
