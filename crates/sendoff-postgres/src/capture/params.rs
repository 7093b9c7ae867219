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

/// Which statement a draft is for, from a driver that sends one at a time. The one for many costs the server more,
/// and most writes are of one event, of which most say little.
#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Form {
    /// `write_one_plain`: one that is due at once, and about no aggregate, of no tenant, without key or headers.
    Plain,
    /// `write_one_due`: one that is due at once, or in line.
    Due,
    /// `write_one`: one that is held, or due later.
    One,
    /// `insert`.
    Many,
}

impl<'a> Params<'a> {
    pub(super) fn new(store: &PostgresStore, draft: &'a Draft<'a>) -> Self {
        let ring = draft.ring && store.doorbell() == Doorbell::On;
        Self { draft, ring }
    }

    #[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
    pub(super) fn form(&self) -> Form {
        match (self.draft.len(), self.ring) {
            (1, true) if self.draft.begins_plain() => Form::Plain,
            (1, true) => Form::Due,
            (1, false) => Form::One,
            _ => Form::Many,
        }
    }

    /// The parameters of a form's statement, as bytes.
    #[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
    pub(super) fn encoded(
        &self,
        form: Form,
        statement: &Statement,
    ) -> Result<Vec<Encoded>, WriteError> {
        let encoded = match form {
            Form::Plain => encode(&self.of_plain(), statement.types),
            Form::Due | Form::One => encode(&self.of_one(), statement.types),
            Form::Many => encode(&self.in_order(), statement.types),
        };
        encoded.map_err(WriteError::Driver)
    }

    /// Those of `write_one_plain`.
    #[cfg(any(feature = "diesel-async", feature = "_sqlx"))]
    fn of_plain(&self) -> [&(dyn ToSql + Sync); 6] {
        let draft = self.draft;
        [
            &draft.ids[0],
            &draft.event_types[0],
            &draft.shards[0],
            &draft.content_types[0],
            &draft.occurred_at[0],
            &draft.payloads[0],
        ]
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

#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
impl Form {
    pub(super) fn statement(self, store: &PostgresStore) -> &Statement {
        let sql = store.sql();
        match self {
            Self::Plain => &sql.write_one_plain,
            Self::Due => &sql.write_one_due,
            Self::One => &sql.write_one,
            Self::Many => &sql.insert,
        }
    }
}
