//! How long and how often, each with its reason.

use std::time::Duration;

/// Between two looks at a condition. Short beside the second a server takes to start.
pub(super) const POLL: Duration = Duration::from_millis(20);

/// For a server to take connections. Generous: RabbitMQ needs five seconds of a core, and other builds may hold
/// every one.
pub(super) const READY: Duration = Duration::from_secs(120);

/// For a server to fill an empty data folder. The same reason.
pub(super) const PREPARE: Duration = Duration::from_secs(120);

/// For a server to end after its signal, before it is killed.
pub(super) const STOP: Duration = Duration::from_secs(10);

/// For the keeper to stop every server of a run: [`STOP`], killing, and removing files.
pub(super) const KEEPER: Duration = Duration::from_secs(30);

/// For a download and its unpacking, on a slow line.
pub(super) const INSTALL: Duration = Duration::from_secs(600);

/// A port is free when chosen and may be gone when used; losing that race this often is no accident.
pub(super) const START_ATTEMPTS: usize = 4;

/// Tries to remove a folder in which a dying process may still write.
pub(super) const REMOVE_ATTEMPTS: usize = 10;

/// What is shown of a log: the cause is near the end.
pub(super) const LOG_TAIL_LINES: usize = 20;

/// What has to be free in memory before servers keep their data there: four times what a run of all tests leaves behind,
/// for two runs at once.
pub(super) const MEMORY_BYTES: u64 = 8 << 30;
