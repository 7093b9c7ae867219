use std::time::Duration;

use sendoff_core::partition::Period;

/// How an outbox's table is laid out.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Layout {
    /// One table, its key the event's id.
    #[default]
    Flat,
    /// In partitions by the time of a row's creation, so that what is over is dropped at once instead
    /// of row by row. Needs a [`PartitionMaintainer`](crate::PartitionMaintainer), and wants
    /// [`Retention::FOREVER`].
    ///
    /// One difference: the key must hold that time too, so an id that comes again later is not
    /// noticed. Who brings ids keeps them unique.
    Partitioned(Period),
}

/// What a table takes for a payload. It keeps the very bytes in either case.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Payloads {
    /// Any bytes.
    #[default]
    Binary,
    /// JSON only: the server refuses what is none. On MySQL and MariaDB.
    Json,
}

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

    /// How long they are kept, if at all.
    pub const fn keeps(self) -> Option<Duration> {
        match self {
            Self::DeleteWhenDone => None,
            Self::Keep(duration) => Some(duration),
        }
    }
}

impl Default for Retention {
    /// Seven days.
    fn default() -> Self {
        Self::Keep(Duration::from_secs(7 * 24 * 60 * 60))
    }
}
