//! A projection: the balances of all wallets, kept by a publisher of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sendoff::journal::{Position, Recorded};
use sendoff::retry::Stopped;
use sendoff::{BoxError, Delivery, Failure, Sink, Verdict};

use super::bank::{MoneyDeposited, changes};

/// Balances as of a position.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Books {
    pub(crate) balances: BTreeMap<String, i64>,
    pub(crate) at: Position,
    /// What came from outside.
    pub(crate) deposited: i64,
    /// The lowest balance there ever was.
    pub(crate) lowest: i64,
}

impl Books {
    pub(crate) fn enter(&mut self, fact: &Recorded) -> Result<(), BoxError> {
        // Delivery is at least once, and in the order of positions: what is not ahead was here before.
        if fact.position <= self.at {
            return Ok(());
        }
        let deposited = fact.event().event_type() == MoneyDeposited::EVENT_TYPE;
        for (wallet, cents) in changes(fact)? {
            self.deposited += if deposited { cents } else { 0 };
            let balance = self.balances.entry(wallet).or_default();
            *balance += cents;
            self.lowest = self.lowest.min(*balance);
        }
        self.at = fact.position;
        Ok(())
    }

    pub(crate) fn sum(&self) -> i64 {
        self.balances.values().sum()
    }
}

/// Keeps books. Cheap to clone; clones keep the same.
#[derive(Debug, Clone, Default)]
pub(crate) struct BookKeeper(Arc<Mutex<Books>>);

impl BookKeeper {
    pub(crate) fn books(&self) -> Books {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

#[async_trait]
impl Sink for BookKeeper {
    fn name(&self) -> &str {
        "balances"
    }

    async fn deliver(&self, deliveries: &[Delivery]) -> Vec<Verdict> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let mut facts = deliveries.iter().filter_map(Delivery::fact).enumerate();
        let ended = facts.try_for_each(|(done, fact)| {
            // What cannot be read today cannot be read tomorrow.
            books.enter(fact).map_err(|error| Stopped::after(done, Failure::dead(error)))
        });
        Stopped::verdicts(ended, deliveries.len())
    }
}
