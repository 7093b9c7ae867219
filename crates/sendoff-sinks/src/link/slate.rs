//! The verdicts of one batch.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sendoff_core::{Delivery, Failure, Verdict};

use crate::class::{Class, Shared};

/// A verdict for each event of a batch that was tried, by its place. The first one that is given stands.
#[derive(Debug)]
pub struct Slate {
    /// Whether these are facts, which have one order.
    is_log: bool,
    verdicts: Mutex<Vec<Option<Verdict>>>,
}

impl Slate {
    /// For so many events, none of which has a verdict.
    pub fn new(events: usize) -> Self {
        Self { is_log: false, verdicts: Mutex::new((0..events).map(|_| None).collect()) }
    }

    /// For a batch, of which each event is encoded; those that cannot be are poison, alone. Answers with the others, and
    /// the place of each. Of facts, none after one that cannot be encoded is answered with: they have one order.
    pub fn encoded<'d, T, E: Into<sendoff_core::BoxError>>(
        deliveries: &'d [Delivery],
        mut encode: impl FnMut(&'d Delivery) -> Result<T, E>,
    ) -> (Self, Vec<(usize, T)>) {
        let is_log = deliveries.iter().any(|delivery| delivery.fact().is_some());
        let slate = Self { is_log, ..Self::new(deliveries.len()) };
        let mut encoded = Vec::with_capacity(deliveries.len());
        let mut is_held_up = false;
        for (at, delivery) in deliveries.iter().enumerate() {
            if is_held_up {
                slate.settle(at, Err(Class::Unavailable.failure(Before)));
                continue;
            }
            match encode(delivery) {
                Ok(event) => encoded.push((at, event)),
                Err(error) => {
                    slate.settle(at, Err(Class::Poison.failure(error)));
                    is_held_up = is_log;
                }
            }
        }
        (slate, encoded)
    }

    /// The class of one whose own place at the target, a queue or a subject, is full, while others' may not be. A row of an outbox
    /// waits, and that is no attempt. Of a fact its publisher finds out whether later ones are taken, and parks it only then.
    pub fn full(&self) -> Class {
        if self.is_log { Class::REFUSED_NOW } else { Class::Unavailable }
    }

    /// Settles one.
    pub fn settle(&self, at: usize, verdict: Verdict) {
        if let Some(place @ None) = self.lock().get_mut(at) {
            *place = Some(verdict);
        }
    }

    /// One is durable.
    pub fn done(&self, at: usize) {
        self.settle(at, Ok(()));
    }

    /// Whether this one is durable.
    pub fn is_done(&self, at: usize) -> bool {
        matches!(self.lock().get(at), Some(Some(Ok(()))))
    }

    /// Those from this place on were not tried, and have no verdict.
    pub(super) fn leave_out_from(&self, at: usize) {
        self.lock().truncate(at);
    }

    /// Those after the first that failed were not tried, and have no verdict.
    pub(super) fn end_with_failure(&self) {
        let mut verdicts = self.lock();
        if let Some(at) = verdicts.iter().position(|place| matches!(place, Some(Err(_)))) {
            verdicts.truncate(at + 1);
        }
    }

    /// Whether this one has a verdict.
    pub fn has(&self, at: usize) -> bool {
        self.lock().get(at).is_none_or(Option::is_some)
    }

    /// Whether all have.
    pub fn is_full(&self) -> bool {
        self.lock().iter().all(Option::is_some)
    }

    /// Fails all that have none, for one reason.
    pub fn fail_rest(&self, (class, error): (Class, Shared)) {
        for place in self.lock().iter_mut().filter(|place| place.is_none()) {
            *place = Some(Err(class.failure(error.clone())));
        }
    }

    /// The verdicts, in the order of the batch.
    pub fn verdicts(self) -> Vec<Verdict> {
        let verdicts = self.verdicts.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unsaid = || Err(Failure::retry(Unsaid));
        verdicts.into_iter().map(|place| place.unwrap_or_else(unsaid)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Verdict>>> {
        self.verdicts.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("it was not sent: a fact before it could not be")]
struct Before;

#[derive(Debug, thiserror::Error)]
#[error("the sink came to no verdict")]
struct Unsaid;
