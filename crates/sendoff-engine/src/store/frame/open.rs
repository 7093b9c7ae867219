use std::sync::atomic::{AtomicBool, Ordering};

use crate::store::StoreError;

/// Whether a store may be used, for all its clones.
#[derive(Debug)]
pub struct Open(AtomicBool);

impl Default for Open {
    fn default() -> Self {
        Self(AtomicBool::new(true))
    }
}

impl Open {
    /// From now on it may not.
    pub fn close(&self) {
        self.0.store(false, Ordering::Relaxed);
    }

    /// Whether it still may.
    ///
    /// # Errors
    ///
    /// [`Closed`](StoreError::Closed) where it may not.
    pub fn check(&self) -> Result<(), StoreError> {
        if self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(StoreError::Closed) }
    }
}
