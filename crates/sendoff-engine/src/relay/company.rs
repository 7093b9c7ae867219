use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedRwLockReadGuard, OwnedRwLockWriteGuard, RwLock};
use tokio::time::timeout;

/// Who may be in work beside whom: batches in company, and a suspect, which may kill the process,
/// with nobody beside it.
#[derive(Debug, Clone, Default)]
pub(super) struct Company(Arc<RwLock<()>>);

/// A place among those in work, until it is dropped.
#[derive(Debug)]
pub(super) enum Place {
    Among { _others: Option<OwnedRwLockReadGuard<()>> },
    Alone { _nobody: OwnedRwLockWriteGuard<()> },
}

impl Company {
    /// Waits for a suspect to end, for at most `patience`: one that hangs is left to hang.
    pub(super) async fn join(&self, patience: Duration) -> Place {
        let others = timeout(patience, self.0.clone().read_owned()).await.ok();
        Place::Among { _others: others }
    }

    /// Waits until nobody is in work, for at most `patience`. Nobody joins meanwhile.
    pub(super) async fn alone(&self, patience: Duration) -> Option<Place> {
        let nobody = timeout(patience, self.0.clone().write_owned()).await.ok()?;
        Some(Place::Alone { _nobody: nobody })
    }
}
