//! Claims that are shared among tenants.

use sendoff_core::EventId;
use sendoff_core::limits;
use sendoff_engine::store::{Claim, Claimed, Claims, StoreError, TenantWalk, TenantsFound};
use tokio::time::Instant;

use crate::claim::{claimed, kinds};
use crate::link::Params;
use crate::rows;
use crate::sift::wired;
use crate::store::PostgresStore;
use crate::wire::{At, Span};

/// Rows of each tenant, up to its share. A row that makes it fail is left to claims as usual, which find it and
/// pass it over; from then on it is passed over here too.
pub(crate) async fn claim(store: &PostgresStore, claim: &Claim<'_>) -> Result<Claims, StoreError> {
    let limit = claim.limit.min(limits::BATCH_ROWS) as i64;
    let passed: Vec<EventId> = store.passed().ids(Instant::now());
    let passed = wired(&passed);
    let (hold, skip_recent) = (Span(claim.hold), Span(claim.skip_recent));
    let (window, from) = (claim.window.map(Span), claim.from.map(At));
    let bytes = i64::try_from(claim.bytes).unwrap_or(i64::MAX);
    let tenants: Vec<&str> = claim.shares.iter().map(|share| &*share.tenant).collect();
    let shares: Vec<i64> = claim.shares.iter().map(|share| share.rows as i64).collect();
    let (aggregates, kinds) = kinds(claim.except.kinds);
    let params: Params<'_> = &[
        &skip_recent,
        &window,
        &from,
        &passed,
        &limit,
        &bytes,
        &claim.owner,
        &hold,
        &tenants,
        &shares,
        &aggregates,
        &kinds,
        &claim.except.types,
    ];
    let sql = store.sql();
    let (statement, params) = match claim.except.is_empty() {
        true => (&sql.claim_fair, &params[..10]),
        false => (&sql.claim_fair_except, params),
    };
    let rows = store.links().claims.query(statement, params).await?;
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
