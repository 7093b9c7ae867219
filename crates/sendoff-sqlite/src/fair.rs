//! Claims that are shared among tenants, and the index they need.

use rusqlite::{Connection, OptionalExtension, Transaction};
use sendoff_core::{Timestamp, limits};
use sendoff_engine::store::{StoreError, TenantWalk, TenantsFound};

use crate::claim::Wanted;
use crate::error::failed;
use crate::rows::{self, Visible};
use crate::sql::Sql;
use crate::store::SqliteStore;

/// Makes the index. Looks first, without a lock: a start must not wait for a writer where there is nothing to do.
pub(crate) async fn make_index(store: &SqliteStore) -> Result<(), StoreError> {
    let sql = store.sql().clone();
    store
        .call(move |conn| match is_there(conn, &sql) {
            true => Ok(()),
            false => conn.execute_batch(&sql.tenant_index).map_err(failed),
        })
        .await
}

/// Whether it is there.
pub(crate) async fn check(store: &SqliteStore) -> Result<(), StoreError> {
    let sql = store.sql().clone();
    let is_there = store.call(move |conn| Ok(is_there(conn, &sql))).await?;
    if is_there {
        return Ok(());
    }
    Err(StoreError::Schema {
        missing: format!("{} has no index that fair claims need", store.table()),
        remedy:
            "open it with `tenant_index` in its options, run `sendoff migrate --fair`, or leave \
                 `fair` out"
                .into(),
    })
}

/// SQLite looks for an index when it compiles a statement that names it.
fn is_there(conn: &Connection, sql: &Sql) -> bool {
    sql.fair().into_iter().all(|statement| conn.prepare(statement).is_ok())
}

pub(crate) async fn tenants(
    store: &SqliteStore,
    walk: &TenantWalk<'_>,
) -> Result<TenantsFound, StoreError> {
    let (after, limit) = (walk.after.to_owned(), walk.limit);
    store.read(move |conn, sql, now| walked(conn, sql, now, &after, limit)).await
}

fn walked(
    conn: &Connection,
    sql: &Sql,
    now: Timestamp,
    after: &str,
    limit: usize,
) -> rusqlite::Result<TenantsFound> {
    let mut next = conn.prepare_cached(&sql.tenant_next)?;
    let mut waits = conn.prepare_cached(&sql.tenant_waits)?;
    let mut found = TenantsFound::default();
    let mut came_around = false;
    for _ in 0..limits::TENANTS_WALKED {
        if found.waiting.len() == limit {
            break;
        }
        let last = found.last.as_deref().unwrap_or(after);
        let mut tenant: Option<String> = next.query_row([last], |row| row.get(0)).optional()?;
        if tenant.is_none() && !came_around {
            came_around = true;
            let mut first = conn.prepare_cached(&sql.tenant_first)?;
            tenant = first.query_row([], |row| row.get(0)).optional()?;
        }
        let Some(tenant) = tenant.filter(|tenant| !came_around || **tenant <= *after) else {
            break;
        };
        if waits.query_row((&tenant, now.as_micros()), |row| row.get(0))? {
            found.waiting.push(tenant.clone());
        }
        found.last = Some(tenant);
    }
    Ok(found)
}

/// What each tenant has of the visible rows, up to its share, oldest due first.
pub(crate) fn visible(
    tx: &Transaction<'_>,
    sql: &Sql,
    now: Timestamp,
    wanted: &Wanted,
) -> rusqlite::Result<Vec<Visible>> {
    let statement = match &wanted.except {
        None => &sql.claim_fair,
        Some(_) => &sql.claim_fair_except,
    };
    let mut statement = tx.prepare_cached(statement)?;
    let (until, created_from) = rows::created_within(now, wanted.skip_recent, wanted.window);
    let (now, from) = (now.as_micros(), rows::due_from(wanted.from));
    // No tenant is read for more bytes than its part, or all of them might be read for nothing.
    let bytes = wanted.bytes / wanted.shares.len().max(1);
    let mut turns = Vec::new();
    for (place, share) in wanted.shares.iter().enumerate() {
        let (limit, owner, tenant) = (share.rows as i64, &wanted.owner, &share.tenant);
        let found = match &wanted.except {
            None => statement.query((now, until, from, created_from, limit, owner, tenant))?,
            Some((kinds, types)) => statement.query((
                now,
                until,
                from,
                created_from,
                limit,
                owner,
                tenant,
                kinds,
                types,
            ))?,
        };
        let found = rows::weighed_within(found, bytes)?.into_iter().enumerate();
        turns.extend(found.map(|(turn, (weight, row))| (turn, place, weight, row)));
    }
    turns.sort_by_key(|&(turn, place, ..)| (turn, place));
    let mut sum = 0_usize;
    let mut rows: Vec<Visible> = turns
        .into_iter()
        .take(wanted.limit)
        .enumerate()
        .map_while(|(at, (.., weight, row))| {
            sum = sum.saturating_add(weight);
            (at == 0 || sum <= wanted.bytes).then_some(row)
        })
        .collect();
    rows.sort_by_key(|row| (row.due_at, row.seq));
    Ok(rows)
}
