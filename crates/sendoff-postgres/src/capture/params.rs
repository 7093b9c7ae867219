//! The parameters of the insert, in its order, whatever the driver.

#[cfg(any(feature = "diesel-async", feature = "sqlx"))]
use ::{
    bytes::BytesMut, sendoff_engine::capture::WriteError, std::fmt, tokio_postgres::types::Type,
};
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

    /// The same as the server reads them, for drivers that take bytes.
    #[cfg(any(feature = "diesel-async", feature = "sqlx"))]
    pub(super) fn encoded(&self, types: &'static [Type]) -> Result<Vec<Encoded>, WriteError> {
        let encode = |(param, kind): (&(dyn ToSql + Sync), &'static Type)| {
            let mut bytes = BytesMut::new();
            // None of them is NULL as a whole.
            param.to_sql_checked(kind, &mut bytes).map_err(WriteError::Driver)?;
            Ok(Encoded { kind, bytes })
        };
        self.in_order().into_iter().zip(types).map(encode).collect()
    }
}

/// A parameter in PostgreSQL's binary format.
#[cfg(any(feature = "diesel-async", feature = "sqlx"))]
pub(super) struct Encoded {
    pub(super) kind: &'static Type,
    pub(super) bytes: BytesMut,
}

/// Drivers may log parameters, and one of these is the payload.
#[cfg(any(feature = "diesel-async", feature = "sqlx"))]
impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} bytes of {}", self.bytes.len(), self.kind)
    }
}
