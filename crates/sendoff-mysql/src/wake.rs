//! Waking a poller, on servers that cannot ring: a look every so often, at what is due and what is paused.
//!
//! One look serves all who wait, and is cheap while there is nothing. It may miss something, and be late;
//! the poll interval covers both (I7).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::PauseScope;
use sendoff_engine::store::frame::{SIGHT_ROWS, Sight};
use sendoff_engine::store::{Claim, PAUSES_READ, StoreError, Suspects, TakeKeys, WakeStore};

use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

/// How often: an event that another process wrote is found within half a second, and an idle server answers
/// a handful of statements in a second.
pub(crate) const LOOK: Duration = Duration::from_millis(430);

#[async_trait]
impl WakeStore for MysqlStore {
    async fn arm(&self) -> Result<bool, StoreError> {
        self.check_open()?;
        Ok(true)
    }

    async fn rung(&self) {
        self.keep_lookout();
        self.lookout().rung().await;
    }
}

impl MysqlStore {
    /// Looks from now on, if nobody does yet.
    pub(crate) fn keep_lookout(&self) {
        // Not the store itself: it must end with its last user.
        let store = self.weak();
        self.lookout().keep(move || {
            let store = store();
            async move { Some(store?.look_out().await) }
        });
    }

    async fn look_out(&self) -> Result<Sight, StoreError> {
        self.check_open()?;
        let text = self.sql().look.with(&[
            ("limit", &Literal::count(SIGHT_ROWS)),
            ("pauses", &Literal::count(PAUSES_READ)),
        ]);
        let (mut visible, mut scopes) = (BTreeSet::new(), Vec::new());
        for row in self.links().proofs.query(&text).await? {
            let number = rows::integer(&row, 1)?;
            if rows::integer(&row, 0)? == 0 {
                visible.insert(number);
            } else {
                scopes.extend(PauseScope::of_stored(number, &rows::name(&row, 2)?).ok());
            }
        }
        Ok(Sight { visible, paused: scopes.into_iter().collect() })
    }
}

/// Whether the last claims found anything: if not, the next one asks first whether it would. A claim is five
/// statements, and an idle node makes them again and again.
#[derive(Debug, Default)]
pub(crate) struct Idle {
    company: AtomicBool,
    suspects: AtomicBool,
    /// The same of keys, which take more.
    keys: AtomicBool,
    suspect_keys: AtomicBool,
}

impl Idle {
    fn of(&self, suspects: Suspects) -> &AtomicBool {
        match suspects {
            Suspects::Skip => &self.company,
            Suspects::Only => &self.suspects,
        }
    }

    fn of_keys(&self, suspects: Suspects) -> &AtomicBool {
        match suspects {
            Suspects::Skip => &self.keys,
            Suspects::Only => &self.suspect_keys,
        }
    }

    /// Keys were looked for, and there were some or there were none.
    pub(crate) fn learn_keys(&self, take: &TakeKeys<'_>, found: bool) {
        self.of_keys(take.suspects).store(!found, Ordering::Relaxed);
    }

    /// A claim ended, with rows or without.
    pub(crate) fn learn(&self, claim: &Claim<'_>, found: bool) {
        self.of(claim.suspects).store(!found, Ordering::Relaxed);
    }
}

impl MysqlStore {
    /// Whether a claim would find nothing, as far as that can be told cheaply.
    pub(crate) async fn is_in_vain(&self, claim: &Claim<'_>) -> Result<bool, StoreError> {
        if !self.idle().of(claim.suspects).load(Ordering::Relaxed) {
            return Ok(false);
        }
        let statement = match claim.suspects {
            Suspects::Skip => &self.sql().some_visible,
            Suspects::Only => &self.sql().some_suspects,
        };
        let text = statement.with(&[("from", &Literal::from(claim.from))]);
        Ok(self.links().claims.query(&text).await?.is_empty())
    }

    /// The same of taking keys.
    pub(crate) async fn has_no_keys(&self, take: &TakeKeys<'_>) -> Result<bool, StoreError> {
        if !self.idle().of_keys(take.suspects).load(Ordering::Relaxed) {
            return Ok(false);
        }
        let statement = match take.suspects {
            Suspects::Skip => &self.sql().some_keys,
            Suspects::Only => &self.sql().some_suspect_keys,
        };
        let after = Literal::number(take.walk.map_or(i64::MAX, |walk| walk.after));
        Ok(self.links().claims.query(&statement.with(&[("after", &after)])).await?.is_empty())
    }
}
