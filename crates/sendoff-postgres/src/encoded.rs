//! Parameters as the server reads them, for drivers that take bytes.

use std::fmt;

use bytes::BytesMut;
use sendoff_core::BoxError;
use tokio_postgres::types::{IsNull, ToSql, Type};

/// A parameter in PostgreSQL's binary format.
pub(crate) struct Encoded {
    pub(crate) kind: &'static Type,
    /// None for NULL.
    pub(crate) bytes: Option<BytesMut>,
}

/// Encodes parameters in their order.
pub(crate) fn encode(
    params: &[&(dyn ToSql + Sync)],
    types: &'static [Type],
) -> Result<Vec<Encoded>, BoxError> {
    let encode = |(param, kind): (&&(dyn ToSql + Sync), &'static Type)| {
        let mut bytes = BytesMut::new();
        let bytes = match param.to_sql_checked(kind, &mut bytes)? {
            IsNull::No => Some(bytes),
            IsNull::Yes => None,
        };
        Ok(Encoded { kind, bytes })
    };
    params.iter().zip(types).map(encode).collect()
}

/// Drivers may log parameters, and one of these is the payload.
impl fmt::Debug for Encoded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let length = self.bytes.as_ref().map_or(0, BytesMut::len);
        write!(f, "{length} bytes of {}", self.kind)
    }
}
