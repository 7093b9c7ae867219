//! A projection: the balances of all wallets, kept by a publisher of its own.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use async_trait::async_trait;
use sendoff::journal::publish::{Publisher, Stopped};
use sendoff::journal::{Position, Recorded};
use sendoff::{BoxError, Failure};

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
impl Publisher for BookKeeper {
    fn name(&self) -> &str {
        "balances"
    }

    async fn publish_batch(&self, facts: &[Arc<Recorded>]) -> Result<(), Stopped> {
        let mut books = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        for (done, fact) in facts.iter().enumerate() {
            // What cannot be read today cannot be read tomorrow.
            let entered = books.enter(fact);
            entered.map_err(|error| Stopped::behind(done, Failure::dead(error)))?;
        }
        Ok(())
    }
}
