//! Claims by tenant on the table in memory.

use std::collections::BTreeMap;

use sendoff_core::fair::{NO_TENANT, Share};
use sendoff_core::{Timestamp, limits};

use super::entry::Entry;
use super::table::Table;
use crate::store::{TenantWalk, TenantsFound};

/// The tenant of a row.
fn tenant(entry: &Entry) -> &str {
    entry.row.event.tenant_id().unwrap_or(NO_TENANT)
}

/// What each tenant has of these rows, up to its share: the first of each, then the second of each, and so on.
pub(super) fn in_turns<'a>(
    visible: impl Iterator<Item = &'a Entry>,
    shares: &[Share],
    limit: usize,
) -> Vec<&'a Entry> {
    let places: BTreeMap<&str, usize> =
        shares.iter().enumerate().map(|(at, share)| (&*share.tenant, at)).collect();
    let mut had = vec![0; shares.len()];
    let mut turns: Vec<(usize, usize, &Entry)> = Vec::new();
    for entry in visible {
        let Some(&place) = places.get(tenant(entry)) else { continue };
        if had[place] < shares[place].rows {
            turns.push((had[place], place, entry));
            had[place] += 1;
        }
    }
    turns.sort_by_key(|&(turn, place, _)| (turn, place));
    turns.into_iter().map(|(.., entry)| entry).take(limit).collect()
}

impl Table {
    pub(super) fn tenants(&self, walk: &TenantWalk<'_>, now: Timestamp) -> TenantsFound {
        // Whether each has a visible row.
        let mut tenants: BTreeMap<&str, bool> = BTreeMap::new();
        for ((due_at, _), id) in &self.pending {
            let Some(entry) = self.rows.get(id) else { continue };
            *tenants.entry(tenant(entry)).or_default() |= *due_at <= now;
        }
        let is_after = |&(name, _): &(&&str, &bool)| **name > *walk.after;
        let lap =
            tenants.iter().filter(is_after).chain(tenants.iter().filter(|entry| !is_after(entry)));
        let mut found = TenantsFound::default();
        for (name, waits) in lap.take(limits::TENANTS_WALKED) {
            if found.waiting.len() == walk.limit {
                break;
            }
            found.last = Some((*name).to_owned());
            if *waits {
                found.waiting.push((*name).to_owned());
            }
        }
        found
    }
}
