//! What the checker found, in numbers and violations.

use std::fmt;

use super::violation::Violation;

/// What the checker found: numbers for a report, and every promise that was not kept.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Verdict {
    /// Events whose transaction committed.
    pub written: u64,
    /// Events whose transaction was rolled back.
    pub rolled_back: u64,
    /// Events of whose transaction nobody knows.
    pub unknown: u64,
    /// Runs of handlers.
    pub runs: u64,
    /// Events delivered successfully at least once.
    pub delivered: u64,
    /// Successful deliveries beyond the first of each event, explained or not.
    pub duplicates: u64,
    /// Runs after a successful delivery that no fault explains.
    pub unexplained: u64,
    /// Events committed, not delivered and not owed any more.
    pub lost: u64,
    /// Events delivered and never committed.
    pub phantoms: u64,
    /// Events that are dead.
    pub dead: u64,
    /// Events the table still owes.
    pub pending: u64,
    /// Settlements that changed nothing.
    pub fenced: u64,
    /// Faults.
    pub faults: u64,
    /// Every promise that was not kept, by event, then those about order.
    pub violations: Vec<Violation>,
}

impl Verdict {
    /// Whether every promise was kept.
    pub fn is_clean(&self) -> bool {
        self.violations.is_empty()
    }
}

/// More would hide the numbers, and the first ones tell what is wrong.
const SHOWN: usize = 20;

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} written, {} rolled back, {} unknown; {} delivered in {} runs, {} duplicates \
             ({} unexplained), {} lost, {} phantoms, {} dead, {} pending; {} fenced, {} faults",
            self.written,
            self.rolled_back,
            self.unknown,
            self.delivered,
            self.runs,
            self.duplicates,
            self.unexplained,
            self.lost,
            self.phantoms,
            self.dead,
            self.pending,
            self.fenced,
            self.faults,
        )?;
        for violation in self.violations.iter().take(SHOWN) {
            write!(f, "\n  {violation}")?;
        }
        match self.violations.len().saturating_sub(SHOWN) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}
