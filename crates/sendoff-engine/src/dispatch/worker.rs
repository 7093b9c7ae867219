//! A worker of an outbox: takes one event, has it delivered, sends its settlement.

use std::sync::Arc;
use std::time::Duration;

use sendoff_core::{Delivery, Failure, FailureClass, Sink, Verdict};
use tracing::{Instrument, Span, debug, info_span};

use super::disable::{Disabled, class_of};
use super::follow_up::FollowUp;
use super::roster::Roster;
use crate::settle::{Completion, Completions};
use crate::sink::{Door, Learned, discard};
use crate::source::{Drawn, HandlerRun, Handover, Joined, Parcel};
use crate::store::Outcome;

/// Takes events from the lanes and runs their handlers. There are as many as may run at once.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) handover: Arc<Handover>,
    pub(crate) handlers: Arc<Roster>,
    pub(crate) door: Door,
    pub(crate) follow_up: FollowUp,
    pub(crate) completions: Completions,
    /// How long pausing a handler may take.
    pub(crate) limit: Duration,
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
        let handlers = self.handlers.now();
        let Some(sink) = handlers.sink(parcel.route) else {
            return parcel.ticket.leave_to_others();
        };
        let attempt = self.door.deliver_one(sink, &parcel.delivery).instrument(span(&parcel));
        let verdict = attempt.await;
        self.disable(Disabled::by(verdict.as_ref().err(), sink)).await;
        let class = self.learn(&run, sink, &parcel, &verdict);
        // Before the settlement, which may have to wait for the database: the handler has not.
        drop(run);
        self.complete(parcel, verdict, class).await;
    }

    /// What its sink did not try, after a failure or for want of time, is tried again at once, uncounted; but for what
    /// it may have settled in a transaction, of which the database knows whether it is over.
    async fn run_batch(&self, Drawn { first, mut rest, run }: Drawn<'_>) {
        rest.insert(0, first);
        rest.retain(may_start);
        let Some(first) = rest.first() else { return };
        let handlers = self.handlers.now();
        let Some(sink) = handlers.sink(first.route) else {
            return rest.into_iter().for_each(|parcel| parcel.ticket.leave_to_others());
        };
        let deliveries: Vec<Delivery> = rest.iter().map(|parcel| parcel.delivery.clone()).collect();
        let span = info_span!(
            "deliver",
            events = deliveries.len(),
            event.r#type = first.delivery.event_type()
        );
        let verdicts = self.door.deliver(sink, &deliveries).instrument(span).await;
        let untried = rest.split_off(verdicts.len());
        let mut failures = verdicts.iter().filter_map(|verdict| verdict.as_ref().err());
        self.disable(Disabled::by(failures.find(|failure| failure.disables()), sink)).await;
        let told = rest.iter().zip(&verdicts);
        let classes: Vec<_> =
            told.map(|(parcel, verdict)| self.learn(&run, sink, parcel, verdict)).collect();
        let (settled, untried): (Vec<_>, Vec<_>) =
            untried.into_iter().partition(|parcel| parcel.ticket.joined() != Joined::No);
        if !untried.is_empty() {
            run.put_back(untried);
        }
        drop(run);
        rest.iter().chain(&settled).for_each(|parcel| parcel.ticket.run_is_over());
        for ((parcel, verdict), class) in rest.into_iter().zip(verdicts).zip(classes) {
            self.complete(parcel, verdict, class).await;
        }
        for Parcel { ticket, attempt, .. } in settled {
            let completion = Completion { ticket, attempt, outcome: Outcome::Released };
            self.handover.complete(&self.completions, completion).await;
        }
    }

    async fn disable(&self, disabled: Option<Disabled>) {
        if let Some(disabled) = disabled {
            disabled.pause(&*self.handover.store, &self.handover.pauses, self.limit).await;
        }
    }

    /// What the run of an event says of its target; and what its failure is about, if it did fail.
    fn learn(
        &self,
        run: &HandlerRun<'_>,
        sink: &dyn Sink,
        parcel: &Parcel,
        verdict: &Verdict,
    ) -> FailureClass {
        let failure = verdict.as_ref().err();
        let of = |failure, class| class_of(failure, class, sink, &self.handover.pauses);
        let own = failure.map(|failure| {
            of(failure, self.follow_up.class(&parcel.delivery, failure, parcel.waited()))
        });
        let learned = run.learn(parcel.delivery.id(), own);
        learned.say(sink, failure, &self.handover.observer);
        match learned {
            Learned::Nothing => {}
            // What waits in the table is claimed now, not at the next interval.
            Learned::Back { .. } | Learned::ProbeAgain => self.handover.alarm.ring(),
            Learned::Unavailable { delay, .. } => self.handover.alarm.ring_after(delay),
        }
        let class = learned.class(own.unwrap_or(FailureClass::Retry));
        // However long its circuit would leave it alone.
        failure.map_or(class, |failure| of(failure, class))
    }

    async fn complete(&self, parcel: Parcel, verdict: Verdict, class: FailureClass) {
        let outcome = match verdict {
            Ok(()) => {
                self.handover.observer.tell(|metrics| metrics.succeeded());
                match parcel.ticket.succeeded() {
                    // Its transaction settled it. Where that did not commit, the effect was not made.
                    true => self.follow_up.unless_committed(parcel.attempt, parcel.waited()),
                    false => Outcome::Done,
                }
            }
            Err(failure) => span(&parcel).in_scope(|| self.after(&parcel, failure, class)),
        };
        let Parcel { ticket, attempt, .. } = parcel;
        let completion = Completion { ticket, attempt, outcome };
        self.handover.complete(&self.completions, completion).await;
    }

    fn after(&self, parcel: &Parcel, failure: Failure, class: FailureClass) -> Outcome {
        self.handover.observer.tell(|metrics| metrics.failed());
        let Parcel { delivery, attempt, .. } = parcel;
        let waited = parcel.waited();
        let outcome = self.follow_up.after(delivery, *attempt, &failure, class, waited);
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
