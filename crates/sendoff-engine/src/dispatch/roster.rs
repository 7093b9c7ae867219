//! Handlers that can be changed while they are at work.

use std::ops::Deref;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, RwLock};

use super::handlers::Handlers;
use crate::lock::lock;
use crate::sink::discard;

/// The handlers of a node. Where they are never changed, asking for them costs nothing.
#[derive(Debug)]
pub(crate) struct Roster {
    first: Handlers,
    /// Since somebody changed them.
    changed: OnceLock<RwLock<Arc<Handlers>>>,
    /// Held by who changes them: one after the other, and each to its end.
    changing: Mutex<()>,
}

/// The handlers of one moment.
pub(crate) enum Now<'r> {
    First(&'r Handlers),
    Changed(Arc<Handlers>),
}

impl Deref for Now<'_> {
    type Target = Handlers;

    fn deref(&self) -> &Handlers {
        match self {
            Self::First(handlers) => handlers,
            Self::Changed(handlers) => handlers,
        }
    }
}

impl Roster {
    pub(crate) fn new(first: Handlers) -> Self {
        Self { first, changed: OnceLock::new(), changing: Mutex::default() }
    }

    pub(crate) fn now(&self) -> Now<'_> {
        match self.changed.get() {
            None => Now::First(&self.first),
            Some(changed) => {
                Now::Changed(changed.read().unwrap_or_else(PoisonError::into_inner).clone())
            }
        }
    }

    /// Changes them: `ready` sees what they will be, before anybody gets them.
    pub(crate) fn change<T, E>(
        &self,
        change: impl FnOnce(&mut Handlers) -> Result<T, E>,
        ready: impl FnOnce(&Handlers),
    ) -> Result<T, E> {
        let _changing = lock(&self.changing);
        let mut next = (*self.now()).clone();
        let changed = change(&mut next)?;
        ready(&next);
        let next = Arc::new(next);
        let known = self.changed.get_or_init(|| RwLock::new(next.clone()));
        let mut known = known.write().unwrap_or_else(PoisonError::into_inner);
        let before = std::mem::replace(&mut *known, next);
        drop(known);
        // It may have been the last to know a handler that was removed, which is code of others.
        discard(before);
        Ok(changed)
    }
}
