//! The parameters of the insert, in its order, whatever the driver.

use ::tokio_postgres::types::ToSql;
#[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
use sendoff_engine::capture::WriteError;

use super::draft::Draft;
#[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
use crate::encoded::{Encoded, encode};
use crate::options::Doorbell;
#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
use crate::sql::Statement;
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

    /// The statement for a driver that sends one at a time. The one for many costs the server more, and most
    /// writes are of one event.
    #[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
    pub(super) fn statement<'s>(&self, store: &'s PostgresStore) -> &'s Statement {
        let sql = store.sql();
        match (self.draft.len(), self.ring) {
            (1, true) => &sql.write_one_due,
            (1, false) => &sql.write_one,
            _ => &sql.insert,
        }
    }

    /// The parameters of that statement, as bytes.
    #[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
    pub(super) fn encoded(&self, statement: &Statement) -> Result<Vec<Encoded>, WriteError> {
        let encoded = match self.draft.len() {
            1 => encode(&self.of_one(), statement.types),
            _ => encode(&self.in_order(), statement.types),
        };
        encoded.map_err(WriteError::Driver)
    }

    /// Those of `write_one`; `write_one_due` has no use for the last two.
    #[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
    fn of_one(&self) -> [&(dyn ToSql + Sync); 13] {
        let draft = self.draft;
        [
            &draft.ids[0],
            &draft.event_types[0],
            &draft.aggregate_types[0],
            &draft.aggregate_ids[0],
            &draft.tenant_ids[0],
            &draft.ordering_keys[0],
            &draft.shards[0],
            &draft.content_types[0],
            &draft.occurred_at[0],
            &draft.headers[0],
            &draft.payloads[0],
            &draft.after[0],
            &draft.locked_by[0],
        ]
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
