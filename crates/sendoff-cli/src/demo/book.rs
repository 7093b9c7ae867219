use std::sync::{PoisonError, RwLock};

use sendoff_testkit::history::History;

/// The history of the window that is open.
#[derive(Debug, Default)]
pub(crate) struct Book(RwLock<History>);

impl Book {
    /// The page everybody writes on now.
    pub(crate) fn page(&self) -> History {
        self.0.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Begins a new page and hands out the one before.
    pub(crate) fn turn(&self) -> History {
        std::mem::take(&mut *self.0.write().unwrap_or_else(PoisonError::into_inner))
    }
}
