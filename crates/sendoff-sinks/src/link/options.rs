//! What bounds a link.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::class::Misconfigured;

const SHORTEST: Duration = Duration::from_millis(1);
const LONGEST: Duration = Duration::from_secs(60 * 60);

/// Times and numbers that every sink with a connection has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct LinkOptions {
    /// How long opening a connection may take, its checks included. 10 s.
    #[serde(with = "sendoff_core::duration")]
    pub connect_within: Duration,
    /// How long a batch may take, from the call to the last confirmation. 25 s: less than a hold, so that what comes late
    /// is not delivered by two nodes at once.
    #[serde(with = "sendoff_core::duration")]
    pub deliver_within: Duration,
    /// How long closing may take. 10 s.
    #[serde(with = "sendoff_core::duration")]
    pub close_within: Duration,
    /// How long to wait after a connection failed or was lost, before jitter; it doubles. 100 ms.
    #[serde(with = "sendoff_core::duration")]
    pub reopen_after: Duration,
    /// The longest of these waits, before jitter. 10 s: somebody who mends a target looks whether it helped.
    #[serde(with = "sendoff_core::duration")]
    pub reopen_after_most: Duration,
    /// Batches that are under way at once; others wait. 8.
    pub batches_in_flight: usize,
    /// Facts of a journal are sent side by side, as other events are, and not each when the one before it was taken. Many
    /// times faster, and gives up the exact order around refusals: one that the target does not take at first comes after
    /// those that were sent with it. A file and a webhook keep the order all the same. No.
    pub facts_side_by_side: bool,
}

impl Default for LinkOptions {
    fn default() -> Self {
        Self {
            connect_within: Duration::from_secs(10),
            deliver_within: Duration::from_secs(25),
            close_within: Duration::from_secs(10),
            reopen_after: Duration::from_millis(100),
            reopen_after_most: Duration::from_secs(10),
            batches_in_flight: 8,
            facts_side_by_side: false,
        }
    }
}

impl LinkOptions {
    /// Checks them; `path` is where they stand: `kafka.link`.
    pub fn check(&self, path: &str) -> Result<(), Misconfigured> {
        for (field, value, least) in [
            ("connect_within", self.connect_within, SHORTEST),
            ("deliver_within", self.deliver_within, SHORTEST),
            ("close_within", self.close_within, SHORTEST),
            ("reopen_after", self.reopen_after, SHORTEST),
            ("reopen_after_most", self.reopen_after_most, self.reopen_after),
        ] {
            Misconfigured::unless_within(format!("{path}.{field}"), value, least, LONGEST)?;
        }
        let count = self.batches_in_flight as u64;
        Misconfigured::unless_from_to(format!("{path}.batches_in_flight"), count, 1, 10_000)
    }
}
