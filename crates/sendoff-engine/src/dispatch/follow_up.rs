//! What follows a failed run, for outbox and relay.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use sendoff_core::order::AfterDead;
use sendoff_core::{
    Attempt, BoxError, Delivery, Failure, FailureClass, Jitter, Next, RetryBounds, RetryPolicy,
    Unroutable, Waited, WaitsFor, after_failure, after_unroutable,
};

use tokio::time::Instant;
use tracing::{debug, error, warn};

use super::{NoHandler, Unknown};
use crate::lock::lock;
use crate::operate::Bursts;
use crate::options::HandlerOptions;
use crate::sink::error_text;
use crate::store::{EventKind, Outcome};

/// What is wrong with a run that says that it succeeded, and whose transaction is not there.
pub(crate) const DID_NOT_COMMIT: &str =
    "the handler succeeded, but the transaction that it settled its event in did not commit";

/// Decides what follows a failed run, and says so in the log.
#[derive(Clone)]
pub(crate) struct FollowUp {
    /// Behind the shield.
    retry: Arc<dyn RetryPolicy>,
    bounds: RetryBounds,
    unroutable: Unroutable,
    after_dead: AfterDead,
    random: Arc<Mutex<fastrand::Rng>>,
    log: Arc<Log>,
    unknown: Arc<Unknown>,
}

/// What is said of failures, by event type: who has one handler that fails has many events that do.
#[derive(Default)]
struct Log {
    failed: Bursts,
    dead: Bursts,
}

impl FollowUp {
    pub(crate) fn new(
        retry: Arc<dyn RetryPolicy>,
        max_attempts: u32,
        handler: &HandlerOptions,
        random: Arc<Mutex<fastrand::Rng>>,
    ) -> Self {
        let HandlerOptions { unroutable, unavailable_at_most, after_dead, .. } = *handler;
        let bounds = RetryBounds { max_attempts, unavailable_at_most };
        let (log, unknown) = (Arc::default(), Arc::default());
        Self { retry, bounds, unroutable, after_dead, random, log, unknown }
    }

    /// What there is no handler for.
    pub(crate) fn unknown(&self) -> &Arc<Unknown> {
        &self.unknown
    }

    /// What a failure is about: that an event has no handler is no failure of one.
    pub(crate) fn class(
        &self,
        delivery: &Delivery,
        failure: &Failure,
        waited: Waited,
    ) -> FailureClass {
        if !unroutable(failure) {
            return failure.class();
        }
        // Whoever handles it may have a long night, and comes to it in the end.
        let waited = match self.unknown.may_be_elsewhere(EventKind::of(&delivery.event)) {
            true => Duration::ZERO,
            false => waited.for_handler,
        };
        after_unroutable(self.unroutable, waited)
    }

    /// What becomes of events that nobody here handles.
    pub(crate) fn unroutable(&self) -> Unroutable {
        self.unroutable
    }

    /// What a failure of this class leads to, of an event that had waited so long.
    pub(crate) fn after(
        &self,
        delivery: &Delivery,
        attempt: Attempt,
        failure: &Failure,
        class: FailureClass,
        waited: Waited,
    ) -> Outcome {
        let outcome = self.decide(attempt, failure, class, waited);
        self.say(delivery, attempt, &outcome);
        outcome
    }

    /// What follows where a run succeeded that was to settle its event itself, and did not: its transaction
    /// was rolled back. Said only where that is so, by whoever writes it.
    pub(crate) fn unless_committed(&self, attempt: Attempt, waited: Waited) -> Outcome {
        let failure = Failure::from(BoxError::from(DID_NOT_COMMIT));
        self.decide(attempt, &failure, FailureClass::Retry, waited)
    }

    fn decide(
        &self,
        attempt: Attempt,
        failure: &Failure,
        class: FailureClass,
        waited: Waited,
    ) -> Outcome {
        let error = error_text(failure);
        let jitter = Jitter::new(lock(&self.random).f64());
        let no_handler = unroutable(failure);
        let (waits_for, waited) = match no_handler {
            // How long that may last is decided already, by its class.
            true => (WaitsFor::Handler, Duration::ZERO),
            // It is paused for that, and waits for whoever resumes it: no time is up meanwhile.
            false if failure.disables() => (WaitsFor::Target, Duration::ZERO),
            false => (WaitsFor::Target, waited.for_target),
        };
        match after_failure(attempt, class, waited, &*self.retry, self.bounds, jitter) {
            Next::Retry { delay, attempts } => Outcome::Retry { delay, attempts, error },
            Next::Wait { delay, attempts } => Outcome::Wait { delay, waits_for, attempts, error },
            Next::Dead { attempts } => {
                let error = match (class, self.unroutable) {
                    (FailureClass::Unavailable { .. }, _) => {
                        format!("its target was unavailable for {waited:.0?}: {error}")
                    }
                    (_, Unroutable::Defer { at_most, .. }) if no_handler => {
                        format!("{error}, for {at_most:?} on any node")
                    }
                    _ => error,
                };
                Outcome::Dead { attempts, error, then: self.after_dead }
            }
        }
    }
}

/// How many looks at what nobody here handles are made before it is dead.
const LOOKS: u32 = 15;
/// And how long apart they are at most.
const LOOK_AGAIN: Duration = Duration::from_secs(60);

impl FollowUp {
    /// How long what nobody handles may wait, and when it is looked at again.
    fn deferral(&self) -> (Duration, Duration) {
        match self.unroutable {
            Unroutable::Defer { at_most, .. } => (at_most, (at_most / LOOKS).min(LOOK_AGAIN)),
            _ => (Duration::ZERO, Duration::ZERO),
        }
    }

    fn say(&self, delivery: &Delivery, attempt: Attempt, outcome: &Outcome) {
        let (id, event_type, number) = (delivery.id(), delivery.event_type(), attempt.number);
        match outcome {
            Outcome::Retry { delay, error, .. } => {
                let Some(line) = self.log.failed.line(event_type, Instant::now()) else { return };
                warn!(
                    event.id = %id,
                    event.r#type = event_type,
                    attempt = number,
                    of = self.bounds.max_attempts,
                    next_try = ?delay,
                    error,
                    not_logged = line.unwritten,
                    "delivery failed"
                );
            }
            Outcome::Dead { attempts, error, .. } => {
                let Some(line) = self.log.dead.line(event_type, Instant::now()) else { return };
                error!(
                    event.id = %id,
                    event.r#type = event_type,
                    attempts,
                    of = self.bounds.max_attempts,
                    error,
                    not_logged = line.unwritten,
                    "event is dead"
                );
            }
            Outcome::Wait { waits_for: WaitsFor::Handler, error, .. } => {
                let kind = EventKind::of(&delivery.event);
                let (at_most, look_again) = self.deferral();
                if !self.unknown.note(kind, Instant::now() + look_again) {
                    warn!(
                        event.r#type = event_type,
                        ?at_most,
                        error,
                        "no handler: events of this type wait for a node that has one"
                    );
                }
            }
            // Said once for all of them, by their handler's circuit.
            Outcome::Wait { delay, error, .. } => {
                debug!(event.id = %id, attempt = number, next_try = ?delay, error, "event waits");
            }
            Outcome::Done | Outcome::Released | Outcome::Restored { .. } => {}
        }
    }
}

/// Whether there is no handler.
pub(crate) fn unroutable(failure: &Failure) -> bool {
    failure.error().is::<NoHandler>()
}
