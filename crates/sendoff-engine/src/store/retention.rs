use std::time::Duration;

/// What becomes of delivered rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Retention {
    /// They are deleted by the settlement itself: fastest, and the table does not grow.
    DeleteWhenDone,
    /// They are kept this long, and then purged by maintenance.
    Keep(Duration),
}

impl Retention {
    /// They are kept until their partition is dropped, or somebody cleans up.
    pub const FOREVER: Self = Self::Keep(Duration::MAX);
}

impl Default for Retention {
    /// Seven days.
    fn default() -> Self {
        Self::Keep(Duration::from_secs(7 * 24 * 60 * 60))
    }
}
