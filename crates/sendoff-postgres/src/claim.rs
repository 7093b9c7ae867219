//! Claims, holds and confirmations on PostgreSQL.

use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{EventId, Holding, Token, limits};
use sendoff_engine::store::{
    Claim, ClaimStore, Claimed, Claims, EventKind, Held, RESCUE_SLACK, StoreError, Suspects, Take,
    TenantWalk, TenantsFound, sift_claim,
};
use tokio_postgres::Row;

use crate::fair;
use crate::link::Params;
use crate::rows::{self, Placed};
use crate::schema;
use crate::scope::Scope;
use crate::store::PostgresStore;
use crate::wire::{At, Id, Span};

#[async_trait]
impl ClaimStore for PostgresStore {
    async fn claim(&self, claim: &Claim<'_>) -> Result<Claims, StoreError> {
        self.check_open()?;
        if !claim.shares.is_empty() {
            return fair::claim(self, claim).await;
        }
        sift_claim(self, claim).await
    }

    async fn confirm(&self, holds: &[Held]) -> Result<Vec<EventId>, StoreError> {
        self.check_open()?;
        if holds.is_empty() {
            return Ok(Vec::new());
        }
        let (ids, tokens) = columns(holds);
        let rows = self.links().claims.query(&self.sql().confirm, &[&ids, &tokens]).await?;
        rows.iter().map(|row| rows::get(row, 0).map(|Id(id)| id)).collect()
    }

    async fn rescue(&self, longest: Duration) -> Result<u64, StoreError> {
        self.check_open()?;
        let (slack, delay) = (Span(RESCUE_SLACK), Span(limits::DELAY));
        let params: Params<'_> = &[&Span(longest), &slack, &delay, &(limits::BATCH_ROWS as i64)];
        let rescued = self.links().upkeep.query(&self.sql().rescue, params).await?;
        Ok(rescued.len() as u64)
    }

    async fn check_fair(&self) -> Result<(), StoreError> {
        self.check_open()?;
        schema::check_fair(self).await
    }

    async fn tenants(&self, walk: &TenantWalk<'_>) -> Result<TenantsFound, StoreError> {
        self.check_open()?;
        fair::tenants(self, walk).await
    }

    fn epoch(&self) -> u64 {
        self.connector().lost()
    }
}

impl Take<PostgresStore> for Claim<'_> {
    type Taken = Vec<Claimed>;

    async fn take(
        &self,
        store: &PostgresStore,
        limit: usize,
        passed: &[EventId],
    ) -> Result<Option<Vec<Claimed>>, StoreError> {
        let (scope, hold) = (Scope::of_claim(self, limit, passed), Span(self.hold));
        let params = scope.params(&[&self.owner, &hold]);
        let sql = store.sql();
        let statement = match (self.suspects, self.except.is_empty()) {
            (Suspects::Skip, true) => &sql.claim,
            (Suspects::Only, true) => &sql.claim_suspects,
            (Suspects::Skip, false) => &sql.claim_except,
            (Suspects::Only, false) => &sql.claim_suspects_except,
        };
        let rows = store.links().claims.query(statement, &params).await?;
        let claimed = claimed(&rows)?;
        Ok((!claimed.is_empty()).then_some(claimed))
    }
}

/// Rows that a statement holds, oldest due first.
pub(crate) fn claimed(rows: &[Row]) -> Result<Vec<Claimed>, StoreError> {
    let mut placed: Vec<Placed> = rows.iter().map(rows::claimed).collect::<Result<_, _>>()?;
    // An UPDATE returns its rows in whichever order it came by them.
    placed.sort_unstable_by_key(|row| row.place);
    Ok(placed.into_iter().map(|row| row.claimed).collect())
}

/// Kinds of events as two arrays: aggregate types and event types.
pub(crate) fn kinds<'k>(kinds: &[EventKind<'k>]) -> (Vec<&'k str>, Vec<&'k str>) {
    kinds.iter().map(|kind| (kind.aggregate_type, kind.event_type)).unzip()
}

/// The holds of rows, as two arrays.
pub(crate) fn columns(holds: &[Held]) -> (Vec<Id>, Vec<At>) {
    holds.iter().filter_map(|held| Some((Id(held.id), At::from(row_token(held)?)))).unzip()
}

/// The token of a row that is held; none where no statement of its own can prove the holding.
pub(crate) fn row_token(held: &Held) -> Option<Token> {
    match held.by {
        Holding::Row(token) => Some(token),
        // Its transaction settles it, by `settle_locked`; and the holder of its key, by `settle_runs`.
        Holding::Lock | Holding::Key(_) => None,
    }
}
