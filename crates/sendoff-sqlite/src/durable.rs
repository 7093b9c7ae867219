//! Whether commits on somebody else's connection wait for the disk.

use std::sync::atomic::{AtomicBool, Ordering};

use rusqlite::Connection;
use tracing::warn;

use crate::options::Synchronous;

/// What [`PRAGMA`] answers where each commit waits for the disk; above it is what waits even longer.
const FULL: i64 = 2;

/// Asks how a connection commits.
pub(crate) const PRAGMA: &str = "pragma synchronous";

/// Carries out `work` on the store's own connection, where commits wait for the disk as `synchronous` says;
/// those of its other work need not.
pub(crate) fn durably<T>(
    conn: &mut Connection,
    synchronous: Synchronous,
    work: impl FnOnce(&mut Connection) -> T,
) -> rusqlite::Result<T> {
    let waits = |conn: &Connection, synchronous: Synchronous| {
        conn.pragma_update(None, "synchronous", synchronous.pragma())
    };
    waits(conn, synchronous)?;
    let done = work(conn);
    waits(conn, Synchronous::Normal)?;
    Ok(done)
}

/// Warns once of connections whose commits a power failure may take back, although what they carried
/// was delivered. Not where the options say that it is meant so.
#[derive(Debug)]
pub(crate) struct Durability {
    warned: AtomicBool,
}

impl Durability {
    pub(crate) fn new(wanted: Synchronous) -> Self {
        Self { warned: AtomicBool::new(wanted != Synchronous::Full) }
    }

    /// Whether a connection need be asked at all: nobody is warned twice.
    pub(crate) fn asks(&self) -> bool {
        !self.warned.load(Ordering::Relaxed)
    }

    /// Takes what a connection answered, and says whether it warned.
    pub(crate) fn learn(&self, synchronous: i64) -> bool {
        let warns = synchronous < FULL && !self.warned.swap(true, Ordering::Relaxed);
        if warns {
            warn!(
                synchronous,
                "a connection commits without waiting for the disk: a power failure may take back \
                 what was delivered; set `pragma synchronous = full` on it"
            );
        }
        warns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_connection_that_does_not_wait_for_the_disk_is_warned_of_once() {
        let durability = Durability::new(Synchronous::Full);
        assert_eq!(
            [2, 3, 1, 0].map(|answer| durability.learn(answer)),
            [false, false, true, false]
        );
        assert!(!durability.asks());
        assert!(!Durability::new(Synchronous::Normal).learn(0), "it is meant so");
    }
}
