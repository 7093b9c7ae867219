use std::time::Duration;

use sendoff::Status;

/// What the outbox still owes.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct Stand {
    pub(crate) new: u64,
    pub(crate) retry: u64,
    /// The age of the oldest event that is not delivered.
    pub(crate) lag: Duration,
}

impl Stand {
    /// So many rows of this status, the oldest of them of this age.
    pub(crate) fn add(&mut self, status: Status, count: u64, age: Duration) {
        match status {
            Status::Retry => self.retry += count,
            _ => self.new += count,
        }
        self.lag = self.lag.max(age);
    }

    pub(crate) fn pending(&self) -> u64 {
        self.new + self.retry
    }
}
