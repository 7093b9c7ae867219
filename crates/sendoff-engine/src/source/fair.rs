//! Claims that are shared among tenants, before the usual one takes what is left.

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use sendoff_core::fair::{NO_TENANT, Share, Weights, shares, shares_of_rest};
use sendoff_core::{limits, report};
use tokio::time::Instant;
use tracing::warn;

use crate::appetite::Portion;
use crate::lock::lock;
use crate::options::FairOptions;
use crate::store::{Answer, Claim, ClaimStore, Claimed, StoreError, TenantWalk, within};

/// So many times as long as it took, nothing is shared after an attempt that failed: rows are claimed as usual
/// meanwhile, which is unfair and better than not at all.
const REST: u32 = 9;

/// Shares claims among tenants. What it does not fill is for a claim as usual: the oldest due first, whosesoever.
#[derive(Debug)]
pub(crate) struct Fair {
    weights: Weights,
    /// How long an answer may take.
    limit: Duration,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// The last tenant that was walked over.
    after: String,
    /// When claims are shared again.
    from: Instant,
}

impl Fair {
    pub(crate) fn new(options: &FairOptions, limit: Duration) -> Self {
        let state = State { after: NO_TENANT.to_owned(), from: Instant::now() };
        Self { weights: options.weights(), limit, state: Mutex::new(state) }
    }

    /// What the next tenants have of these rows: as `claim`, but no more than `portion`, each tenant its share.
    /// All that one could not use goes to those who could use more.
    ///
    /// # Errors
    ///
    /// Where the database is unavailable or locked. Whatever else goes wrong is in the log, and nothing is shared for a
    /// while.
    pub(crate) async fn claim<S: ClaimStore + ?Sized>(
        &self,
        store: &S,
        claim: &Claim<'_>,
        portion: Portion,
    ) -> Answer<Vec<Claimed>> {
        let began = Instant::now();
        let mut rows = Vec::new();
        if lock(&self.state).from > began {
            return Ok(rows);
        }
        let Err(error) = self.fill(store, claim, portion, &mut rows).await else { return Ok(rows) };
        if rows.is_empty() && is_everybodys(&error) {
            return Err(error);
        }
        let pause = began.elapsed().saturating_mul(REST).max(self.limit);
        lock(&self.state).from = Instant::now() + pause;
        warn!(error = report(&error), ?pause, "claims are not shared among tenants for a while");
        Ok(rows)
    }

    async fn fill<S: ClaimStore + ?Sized>(
        &self,
        store: &S,
        claim: &Claim<'_>,
        portion: Portion,
        rows: &mut Vec<Claimed>,
    ) -> Answer<()> {
        let after = lock(&self.state).after.clone();
        // No more than can have a row each: whoever is walked over has had a turn.
        let walk = TenantWalk { after: &after, limit: portion.rows.min(limits::TENANTS_SERVED) };
        let found = within(self.limit, store.tenants(&walk)).await?;
        let given = shares(found.waiting, &self.weights, portion.rows);
        let first = self.take(store, claim, portion, &given).await?;
        // Where bytes ran out, those who got nothing are the next: first rows are taken in the order of the walk.
        let is_full = portion.is_filled_by(&first) && first.len() < portion.rows;
        let reached = match is_full {
            true => last_served(&given, &first).map(str::to_owned),
            false => found.last,
        };
        if let Some(reached) = reached {
            lock(&self.state).after = reached;
        }
        let took = count(&first);
        rows.extend(first);
        let left = portion.without(rows);
        if is_full || left.rows == 0 {
            return Ok(());
        }
        let took = |tenant: &str| took.get(tenant).copied().unwrap_or(0);
        let rest = shares_of_rest(&given, took, &self.weights, left.rows);
        rows.extend(self.take(store, claim, left, &rest).await?);
        Ok(())
    }

    async fn take<S: ClaimStore + ?Sized>(
        &self,
        store: &S,
        claim: &Claim<'_>,
        Portion { rows, bytes }: Portion,
        shares: &[Share],
    ) -> Answer<Vec<Claimed>> {
        if shares.is_empty() {
            return Ok(Vec::new());
        }
        let claim = Claim { limit: rows, bytes, shares, from: None, window: None, ..*claim };
        Ok(within(self.limit, store.claim(&claim)).await?.rows)
    }
}

/// Whether a claim as usual would meet it too.
fn is_everybodys(error: &StoreError) -> bool {
    matches!(error, StoreError::Unavailable(_) | StoreError::Busy(_) | StoreError::Closed)
}

/// How many rows each tenant has among these.
fn count(rows: &[Claimed]) -> BTreeMap<String, usize> {
    let mut counts = BTreeMap::new();
    for row in rows {
        *counts.entry(tenant(row).to_owned()).or_insert(0) += 1;
    }
    counts
}

/// The tenant of a row; one that is no event counts as nobody's.
fn tenant(row: &Claimed) -> &str {
    row.event.as_ref().ok().and_then(|event| event.tenant_id()).unwrap_or(NO_TENANT)
}

fn last_served<'g>(given: &'g [Share], rows: &[Claimed]) -> Option<&'g str> {
    let is_served = |share: &&Share| rows.iter().any(|row| tenant(row) == share.tenant);
    given.iter().rfind(is_served).map(|share| &*share.tenant)
}
