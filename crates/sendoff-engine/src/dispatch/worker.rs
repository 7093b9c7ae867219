use std::sync::{Arc, Mutex};

use sendoff_core::{
    Delivery, Failure, FailureClass, Jitter, Next, RetryPolicy, after_failure, after_unroutable,
};
use tracing::{Instrument, debug, error, info_span, warn};

use super::attempt::attempt;
use super::shield::{discard, error_text, last_words, shielded};
use super::watch::Slots;
use super::{Interceptor, Listeners, NoListener};
use crate::handover::{Handover, Parcel};
use crate::lock::lock;
use crate::options::OutboxOptions;
use crate::settle::{Completion, Completions};
use crate::store::Outcome;

/// Takes parcels from the lanes and runs their handlers. There are as many as may run at once.
#[derive(Clone)]
pub(crate) struct Worker {
    pub(crate) handover: Arc<Handover>,
    pub(crate) listeners: Arc<Listeners>,
    pub(crate) interceptors: Arc<[Box<dyn Interceptor>]>,
    pub(crate) retry: Arc<dyn RetryPolicy>,
    pub(crate) completions: Completions,
    pub(crate) options: Arc<OutboxOptions>,
    pub(crate) random: Arc<Mutex<fastrand::Rng>>,
    pub(crate) slots: Arc<Slots>,
    /// Which of the workers it is.
    pub(crate) number: usize,
}

/// Why a run did not succeed.
enum Missed {
    /// Nobody listens.
    Unroutable(Failure),
    /// The handler, or something around it, failed.
    Failed(Failure),
}

impl Worker {
    /// Works until the lanes are closed and empty.
    pub(crate) async fn run(self) {
        while let Some(parcel) = self.handover.next().await {
            let id = parcel.delivery.id();
            // I1: what waited too long may have become somebody else's.
            if !parcel.ticket.may_start() {
                debug!(event.id = %id, "hold ran out before the delivery began");
                continue;
            }
            let span =
                info_span!("deliver", event.id = %id, event.r#type = parcel.delivery.event_type());
            let outcome = {
                let _running = self.slots.begin(self.number);
                self.deliver(&parcel).instrument(span).await
            };
            let Parcel { ticket, attempt, .. } = parcel;
            self.completions.send(Completion { ticket, attempt, outcome }).await;
        }
    }

    async fn deliver(&self, parcel: &Parcel) -> Outcome {
        let result = self.attempt(&parcel.delivery).await;
        self.after(&parcel.delivery, result.as_ref().err());
        let Err(missed) = result else {
            self.handover.metrics.succeeded();
            return Outcome::Done;
        };
        self.handover.metrics.failed();
        let failure = missed.failure();
        let error = error_text(failure);
        let (id, attempt) = (parcel.delivery.id(), parcel.attempt.number);
        warn!(event.id = %id, attempt, error, "delivery failed");
        let next = shielded(|| self.next(parcel, &missed)).unwrap_or_else(|panic| {
            error!(error = panic.report(), "the retry policy failed; waiting for its maximum");
            let delay = self.options.retry_max;
            self.follow(parcel, FailureClass::RetryAfter { delay })
        });
        discard(missed);
        match next {
            Next::Retry { delay, attempts } => Outcome::Retry { delay, attempts, error },
            Next::Dead { attempts } => Outcome::Dead { attempts, error },
        }
    }

    fn next(&self, parcel: &Parcel, missed: &Missed) -> Next {
        match missed {
            Missed::Failed(failure) => self.follow(parcel, failure.class()),
            Missed::Unroutable(_) => {
                self.follow(parcel, after_unroutable(self.options.unroutable, parcel.age))
            }
        }
    }

    fn follow(&self, parcel: &Parcel, class: FailureClass) -> Next {
        let jitter = Jitter::new(lock(&self.random).f64());
        after_failure(parcel.attempt, class, &*self.retry, self.options.max_attempts, jitter)
    }

    async fn attempt(&self, delivery: &Delivery) -> Result<(), Missed> {
        for interceptor in self.interceptors.iter() {
            shielded(|| interceptor.before(delivery)).flatten().map_err(Missed::Failed)?;
        }
        let (aggregate_type, event_type) = (delivery.aggregate_type(), delivery.event_type());
        let Some(handler) = self.listeners.find(aggregate_type, event_type) else {
            return Err(Missed::Unroutable(Failure::dead(NoListener {
                aggregate_type: aggregate_type.to_owned(),
                event_type: event_type.to_owned(),
            })));
        };
        let run = attempt(handler, delivery.clone(), self.options.handler_timeout);
        run.await.map_err(Missed::Failed)
    }

    fn after(&self, delivery: &Delivery, missed: Option<&Missed>) {
        let failure = missed.map(Missed::failure);
        for interceptor in self.interceptors.iter().rev() {
            let after = || interceptor.after(delivery, failure).map_err(Failure::retry);
            if let Err(error) = shielded(after).flatten() {
                // Before the log, which may be off and would drop the error as it is.
                let error = last_words(error);
                warn!(error, "interceptor failed after");
            }
        }
    }
}

impl Missed {
    fn failure(&self) -> &Failure {
        match self {
            Self::Unroutable(failure) | Self::Failed(failure) => failure,
        }
    }
}
