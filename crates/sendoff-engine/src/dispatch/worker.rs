use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Mutex};

use futures_util::FutureExt;
use sendoff_core::{
    Delivery, Failure, Jitter, Next, RetryPolicy, after_failure, after_unroutable, limits, report,
};
use tracing::{Instrument, debug, info_span, warn};

use super::{Handler, Interceptor, Listeners, NoListener};
use crate::config::OutboxConfig;
use crate::handover::{Handover, Parcel};
use crate::lock::lock;
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
    pub(crate) config: Arc<OutboxConfig>,
    pub(crate) random: Arc<Mutex<fastrand::Rng>>,
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
        while let Some(parcel) = self.handover.lanes.take().await {
            let id = parcel.delivery.id();
            // I1: what waited too long may have become somebody else's.
            if !self.handover.holds.may_start(id, parcel.run) {
                debug!(event.id = %id, "hold ran out before the delivery began");
                continue;
            }
            let span =
                info_span!("deliver", event.id = %id, event.r#type = parcel.delivery.event_type());
            let outcome = self.deliver(&parcel).instrument(span).await;
            self.completions.send(Completion { id, run: parcel.run, outcome }).await;
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
        let next = self.next(parcel, &missed);
        let failure = missed.failure();
        // NUL cannot be stored as text everywhere, and an error may quote anything.
        let error = failure.report().replace('\0', "\u{fffd}");
        let error = limits::truncate(&error, limits::ERROR_CHARS).to_owned();
        let (id, attempt) = (parcel.delivery.id(), parcel.attempt.number);
        warn!(event.id = %id, attempt, error, "delivery failed");
        match next {
            Next::Retry { delay, attempts } => Outcome::Retry { delay, attempts, error },
            Next::Dead { attempts } => Outcome::Dead { attempts, error },
        }
    }

    fn next(&self, parcel: &Parcel, missed: &Missed) -> Next {
        let jitter = Jitter::new(lock(&self.random).f64());
        let (attempt, policy, max) = (parcel.attempt, &*self.retry, self.config.max_attempts);
        match missed {
            Missed::Failed(failure) => after_failure(attempt, failure.class(), policy, max, jitter),
            Missed::Unroutable(_) => {
                let unroutable = self.config.unroutable;
                after_unroutable(attempt, unroutable, parcel.age, policy, max, jitter)
            }
        }
    }

    async fn attempt(&self, delivery: &Delivery) -> Result<(), Missed> {
        for interceptor in self.interceptors.iter() {
            catch_unwind(AssertUnwindSafe(|| interceptor.before(delivery)))
                .unwrap_or_else(|panic| Err(panicked(&*panic)))
                .map_err(Missed::Failed)?;
        }
        let (aggregate_type, event_type) = (delivery.aggregate_type(), delivery.event_type());
        let Some(handler) = self.listeners.find(aggregate_type, event_type) else {
            return Err(Missed::Unroutable(Failure::dead(NoListener {
                aggregate_type: aggregate_type.to_owned(),
                event_type: event_type.to_owned(),
            })));
        };
        let run = AssertUnwindSafe(handler.handle(delivery.clone())).catch_unwind();
        let ended = match self.config.handler_timeout {
            None => run.await,
            Some(limit) => match tokio::time::timeout(limit, run).await {
                Ok(ended) => ended,
                Err(_) => {
                    let text = format!("handler did not finish within {limit:?}");
                    return Err(Missed::Failed(Failure::retry(text)));
                }
            },
        };
        ended.unwrap_or_else(|panic| Err(panicked(&*panic))).map_err(Missed::Failed)
    }

    fn after(&self, delivery: &Delivery, missed: Option<&Missed>) {
        let failure = missed.map(Missed::failure);
        for interceptor in self.interceptors.iter().rev() {
            let after = AssertUnwindSafe(|| interceptor.after(delivery, failure));
            match catch_unwind(after) {
                Ok(Ok(())) => {}
                Ok(Err(error)) => warn!(error = report(&*error), "interceptor failed after"),
                Err(panic) => warn!(error = panicked(&*panic).report(), "interceptor failed after"),
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

/// A panic is a failed attempt like any other, and nobody else's problem.
fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic
        .downcast_ref::<&str>()
        .copied()
        .or_else(|| panic.downcast_ref::<String>().map(String::as_str))
        .unwrap_or("no message");
    Failure::retry(format!("panicked: {text}"))
}
