//! A worker of an outbox: takes one event, has it delivered, sends its settlement.

use std::sync::Arc;

use sendoff_core::{Delivery, Failure, Verdict};
use tracing::{Instrument, Span, debug, info_span, warn};

use super::follow_up::FollowUp;
use super::handlers::{Handlers, Nobody};
use crate::settle::{Completion, Completions};
use crate::sink::{Door, discard, error_text};
use crate::source::{Drawn, Handover, Parcel};
use crate::store::Outcome;

/// Takes events from the lanes and runs their handlers. There are as many as may run at once.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) handover: Arc<Handover>,
    pub(crate) handlers: Arc<Handlers>,
    pub(crate) door: Door,
    pub(crate) follow_up: FollowUp,
    pub(crate) completions: Completions,
}

impl Worker {
    /// Works until the lanes are closed and empty.
    pub(crate) async fn run(self) {
        while let Some(drawn) = self.handover.next().await {
            match drawn.rest.is_empty() {
                true => self.run_one(drawn).await,
                false => self.run_batch(drawn).await,
            }
        }
    }

    async fn run_one(&self, Drawn { first: parcel, run, .. }: Drawn<'_>) {
        if !may_start(&parcel) {
            return;
        }
        let sink = self.handlers.sink(parcel.route).unwrap_or(&Nobody);
        let attempt = self.door.deliver_one(sink, &parcel.delivery).instrument(span(&parcel));
        let verdict = attempt.await;
        // Before the settlement, which may have to wait for the database: the handler has not.
        drop(run);
        self.complete(parcel, verdict).await;
    }

    /// What its sink did not try, after a failure or for want of time, is tried again at once, uncounted.
    async fn run_batch(&self, Drawn { first, mut rest, run }: Drawn<'_>) {
        rest.insert(0, first);
        rest.retain(may_start);
        let Some(first) = rest.first() else { return };
        let sink = self.handlers.sink(first.route).unwrap_or(&Nobody);
        let deliveries: Vec<Delivery> = rest.iter().map(|parcel| parcel.delivery.clone()).collect();
        let span = info_span!(
            "deliver",
            events = deliveries.len(),
            event.r#type = first.delivery.event_type()
        );
        let verdicts = self.door.deliver(sink, &deliveries).instrument(span).await;
        let untried = rest.split_off(verdicts.len());
        if !untried.is_empty() {
            run.put_back(untried);
        }
        drop(run);
        rest.iter().for_each(|parcel| parcel.ticket.run_is_over());
        for (parcel, verdict) in rest.into_iter().zip(verdicts) {
            self.complete(parcel, verdict).await;
        }
    }

    async fn complete(&self, parcel: Parcel, verdict: Verdict) {
        let outcome = match verdict {
            Ok(()) => {
                self.handover.observer.tell(|metrics| metrics.succeeded());
                Outcome::Done
            }
            Err(failure) => span(&parcel).in_scope(|| self.after(&parcel, failure)),
        };
        let Parcel { ticket, attempt, .. } = parcel;
        self.completions.send(Completion { ticket, attempt, outcome }).await;
    }

    fn after(&self, parcel: &Parcel, failure: Failure) -> Outcome {
        self.handover.observer.tell(|metrics| metrics.failed());
        let (id, attempt) = (parcel.delivery.id(), parcel.attempt.number);
        warn!(event.id = %id, attempt, error = error_text(&failure), "delivery failed");
        let class = self.follow_up.class(&failure, parcel.age);
        let outcome = self.follow_up.after(parcel.attempt, &failure, class);
        discard(failure);
        outcome
    }
}

/// I1: what waited too long may have become somebody else's.
fn may_start(parcel: &Parcel) -> bool {
    let may_start = parcel.ticket.may_start();
    if !may_start {
        debug!(event.id = %parcel.delivery.id(), "hold ran out before the delivery began");
    }
    may_start
}

fn span(parcel: &Parcel) -> Span {
    let Parcel { delivery, .. } = parcel;
    info_span!("deliver", event.id = %delivery.id(), event.r#type = delivery.event_type())
}
