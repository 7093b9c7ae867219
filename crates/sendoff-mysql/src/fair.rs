//! Claims that are shared among tenants.

use std::time::Duration;

use sendoff_core::limits;
use sendoff_engine::store::{Claim, Claims, StoreError, TenantWalk, TenantsFound};
use tokio::time::Instant;

use crate::claim::note_keys;
use crate::rows;
use crate::store::MysqlStore;
use crate::wire::Literal;

/// Tenants that are looked at in one direction by one walk: some of them have nothing that is visible. Fewer than
/// others walk over, because all of them are looked at, however soon enough are found.
const PAGE: usize = 4 * limits::TENANTS_SERVED;

/// Rows of each tenant, up to its share. A row that makes it fail is left to claims as usual, which find it and
/// pass it over; from then on it is passed over here too.
pub(crate) async fn claim(store: &MysqlStore, claim: &Claim<'_>) -> Result<Claims, StoreError> {
    let sql = store.sql();
    let owner = Literal::text(claim.owner);
    let passed = Literal::other_ids(&store.passed().ids(Instant::now()));
    let tenants: Vec<String> = claim
        .shares
        .iter()
        .enumerate()
        .map(|(nth, share)| {
            sql.fair_tenant.with(&[
                ("tenant", &Literal::text(&share.tenant)),
                ("nth", &Literal::count(nth)),
                ("share", &Literal::count(share.rows)),
                ("owner", &owner),
                ("skip_recent", &Literal::span(claim.skip_recent)),
                ("since", &Literal::since(claim.window)),
                ("from", &Literal::from(claim.from)),
                ("passed", &passed),
                ("kinds", &Literal::other_kinds(claim.except.kinds)),
                ("types", &Literal::other_types(claim.except.types)),
            ])
        })
        .collect();
    let values = [
        ("tenants", &Literal::union(&tenants)),
        ("owner", &owner),
        ("limit", &Literal::count(claim.limit.min(limits::BATCH_ROWS))),
        ("bytes", &Literal::count(claim.bytes)),
        // A visible row was due before now: one that is held for later than now has another token.
        ("hold", &Literal::span(claim.hold.max(Duration::from_micros(1)))),
    ];
    let (look, hold) = (sql.claim_fair.with(&values), sql.hold.with(&values));
    let text = format!("{look};\n{hold};\ncommit;\n{}", sql.claimed.with(&values));
    let mut results = store.links().claims.results(&text).await?;
    let claimed = rows::claimed(results.pop().unwrap_or_default())?;
    note_keys(store, &claimed);
    Ok(claimed.into())
}

pub(crate) async fn tenants(
    store: &MysqlStore,
    walk: &TenantWalk<'_>,
) -> Result<TenantsFound, StoreError> {
    let text = store
        .sql()
        .tenants
        .with(&[("after", &Literal::text(walk.after)), ("page", &Literal::count(PAGE))]);
    let rows = store.links().claims.query(&text).await?;
    let mut tenants = Vec::with_capacity(rows.len());
    for row in &rows {
        let waits = rows::integer(row, 2)? != 0;
        tenants.push((rows::integer(row, 0)?, rows::name(row, 1)?, waits));
    }
    // The server gives them in their order; nothing promises that it does.
    tenants.sort();
    let before_the_end = tenants.iter().filter(|(lap, ..)| *lap == 0).count() == PAGE;
    let mut found = TenantsFound::default();
    for (lap, tenant, waits) in tenants {
        if found.waiting.len() == walk.limit || (before_the_end && lap > 0) {
            break;
        }
        if waits {
            found.waiting.push(tenant.clone());
        }
        found.last = Some(tenant);
    }
    Ok(found)
}

/// Whether column and index are there.
pub(crate) async fn check(store: &MysqlStore) -> Result<(), StoreError> {
    match store.links().upkeep.query(store.sql().tenants_ready.text()).await {
        Ok(_) => Ok(()),
        Err(StoreError::Refused(_) | StoreError::Schema { .. }) => Err(StoreError::Schema {
            missing: format!("{} has no index that fair claims need", store.table()),
            remedy: "run `sendoff migrate --fair`, or migrate with `tenant_index` in the store's options, \
                     or leave `fair` out"
                .into(),
        }),
        Err(error) => Err(error),
    }
}
