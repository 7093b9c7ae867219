//! The parameters of the insert, in its order, whatever the driver.

use ::tokio_postgres::types::ToSql;

use super::draft::Draft;
use crate::options::Doorbell;
use crate::store::PostgresStore;

/// What one statement is given.
pub(super) struct Params<'a> {
    pub(super) draft: &'a Draft<'a>,
    pub(super) ring: bool,
}

impl<'a> Params<'a> {
    pub(super) fn new(store: &PostgresStore, draft: &'a Draft<'a>) -> Self {
        let ring = draft.ring && store.doorbell() == Doorbell::On;
        Self { draft, ring }
    }

    pub(super) fn in_order(&self) -> [&(dyn ToSql + Sync); 14] {
        let Self { draft, ring } = self;
        [
            &draft.ids,
            &draft.event_types,
            &draft.aggregate_types,
            &draft.aggregate_ids,
            &draft.tenant_ids,
            &draft.ordering_keys,
            &draft.shards,
            &draft.content_types,
            &draft.occurred_at,
            &draft.after,
            &draft.locked_by,
            &draft.headers,
            &draft.payloads,
            ring,
        ]
    }
}
