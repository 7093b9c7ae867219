//! The verdicts of one batch.

use std::sync::{Mutex, MutexGuard, PoisonError};

use sendoff_core::{Delivery, Failure, Verdict};

use crate::class::{Class, Shared};

/// A verdict for each event of a batch, by its place. The first one that is given stands.
#[derive(Debug)]
pub struct Slate(Mutex<Vec<Option<Verdict>>>);

impl Slate {
    /// For so many events, none of which has a verdict.
    pub fn new(events: usize) -> Self {
        Self(Mutex::new((0..events).map(|_| None).collect()))
    }

    /// For a batch, of which each event is encoded; those that cannot be are poison, alone. Answers with the others, and
    /// the place of each.
    pub fn encoded<'d, T, E: Into<sendoff_core::BoxError>>(
        deliveries: &'d [Delivery],
        mut encode: impl FnMut(&'d Delivery) -> Result<T, E>,
    ) -> (Self, Vec<(usize, T)>) {
        let slate = Self::new(deliveries.len());
        let mut encoded = Vec::with_capacity(deliveries.len());
        for (at, delivery) in deliveries.iter().enumerate() {
            match encode(delivery) {
                Ok(event) => encoded.push((at, event)),
                Err(error) => slate.settle(at, Err(Class::Poison.failure(error))),
            }
        }
        (slate, encoded)
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
        let places = self.0.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unsaid = || Err(Failure::retry(Unsaid));
        places.into_iter().map(|place| place.unwrap_or_else(unsaid)).collect()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Option<Verdict>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the sink came to no verdict")]
struct Unsaid;
