//! Claims that are shared among tenants.

use sendoff_core::EventId;
use sendoff_core::limits;
use sendoff_engine::store::{Claim, Claimed, Claims, StoreError, TenantWalk, TenantsFound};
use tokio::time::Instant;

use crate::claim::claimed;
use crate::link::Params;
use crate::rows;
use crate::scope::Scope;
use crate::store::PostgresStore;
use crate::wire::Span;

/// Rows of each tenant, up to its share. A row that makes it fail is left to claims as usual, which find it and
/// pass it over; from then on it is passed over here too.
pub(crate) async fn claim(store: &PostgresStore, claim: &Claim<'_>) -> Result<Claims, StoreError> {
    let passed: Vec<EventId> = store.passed().ids(Instant::now());
    let scope = Scope::of_claim(claim, claim.limit.min(limits::BATCH_ROWS), &passed);
    let hold = Span(claim.hold);
    let tenants: Vec<&str> = claim.shares.iter().map(|share| &*share.tenant).collect();
    let shares: Vec<i64> = claim.shares.iter().map(|share| share.rows as i64).collect();
    let params = scope.params(&[&claim.owner, &hold, &tenants, &shares]);
    let statement = match claim.except.is_empty() {
        true => &store.sql().claim_fair,
        false => &store.sql().claim_fair_except,
    };
    let rows = store.links().claims.query(statement, &params).await?;
    let rows: Vec<Claimed> = claimed(&rows)?;
    Ok(rows.into())
}

pub(crate) async fn tenants(
    store: &PostgresStore,
    walk: &TenantWalk<'_>,
) -> Result<TenantsFound, StoreError> {
    let (limit, walked) = (walk.limit as i64, limits::TENANTS_WALKED as i64);
    let params: Params<'_> = &[&walk.after, &limit, &walked];
    let rows = store.links().claims.query(&store.sql().tenants, params).await?;
    let mut found = TenantsFound::default();
    for row in &rows {
        let tenant: String = rows::get(row, 0)?;
        if rows::get(row, 1)? {
            found.waiting.push(tenant.clone());
        }
        found.last = Some(tenant);
    }
    Ok(found)
}
