//! What the engine and operators ask of a store about pauses.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{AuditNote, Pause, PauseScope, Paused, Timestamp, limits};

use super::StoreError;

/// What is paused: kept in the database, so that it is the same for every node.
///
/// The store only keeps it; nodes look and leave out of their claims what is paused.
#[async_trait]
pub trait PauseStore: Send + Sync + 'static {
    /// What is paused now: all delivery, then types, then handlers, each in the order of names.
    async fn pauses(&self) -> Result<Vec<Pause>, StoreError>;

    /// Pauses something, and writes that into the audit in the same transaction, which is durable when it
    /// is answered. Answers `false`, and changes nothing, where it is paused already.
    ///
    /// # Errors
    ///
    /// [`TooManyPauses`](StoreError::TooManyPauses) where [so many](sendoff_core::limits::PAUSES) are in
    /// force already.
    async fn pause(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError>;

    /// Ends a pause, and writes that into the audit, as [`pause`](Self::pause) does. Answers `false`, and
    /// changes nothing, where that is not paused. What is paused by another scope as well stays paused.
    async fn resume(&self, scope: &PauseScope, note: &AuditNote) -> Result<bool, StoreError>;

    /// Waits until what is paused may have changed, for less than a second. Cancel-safe. Affects latency
    /// only (I7): a node looks once an interval besides.
    ///
    /// A store that is not told takes the default, by which nodes look so often.
    async fn pauses_changed(&self) {
        tokio::time::sleep(PAUSE_LOOK).await;
    }
}

/// How often a node looks at what is paused where nothing tells it: so often that a pause is seen by every
/// node within a second.
pub const PAUSE_LOOK: Duration = Duration::from_millis(800);

/// So many pauses are read at once: more than there may be, since they may be written by hand.
pub const PAUSES_READ: usize = 10 * limits::PAUSES;

/// Pauses as rows of a database have them: scope, name, since when, by whom and why. What can be no pause,
/// because it was written by hand, is none.
pub fn read_pauses<R>(
    rows: &[R],
    read: impl Fn(&R) -> Result<(i64, String, Timestamp, String, String), StoreError>,
) -> Result<Vec<Pause>, StoreError> {
    let pause = |row| {
        let (scope, name, since, actor, reason) = match read(row) {
            Ok(read) => read,
            Err(error) => return Some(Err(error)),
        };
        let scope = PauseScope::of_stored(scope, &name).ok()?;
        Some(Ok(Pause { scope, since, actor, reason }))
    };
    rows.iter().filter_map(pause).collect()
}

/// What these pauses keep from being delivered.
pub(crate) fn paused(pauses: &[Pause]) -> Paused {
    pauses.iter().map(|pause| pause.scope.clone()).collect()
}
