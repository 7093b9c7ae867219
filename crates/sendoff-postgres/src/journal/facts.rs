//! Facts on their way out.

use sendoff_core::Undecodable;
use sendoff_core::journal::{Position, Recorded};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::fact;
use tokio_postgres::Row;

use crate::rows::{ColumnsFrom, get};
use crate::wire::Payload;

/// Whether the row fits into the page, or only says that there is more. Every fact has a payload: where it
/// is missing, the statement left it out.
pub(super) fn fits(row: &Row, first: usize) -> Result<bool, StoreError> {
    Ok(get::<Option<Payload<'_>>>(row, first + fact::PAYLOAD.at)?.is_some())
}

/// The type of a fact, which is looked at before the fact is taken in.
pub(super) fn event_type(row: &Row, first: usize) -> Result<&str, StoreError> {
    get(row, first + fact::EVENT_TYPE.at)
}

pub(super) fn position(row: &Row, column: usize) -> Result<Position, StoreError> {
    let number: i64 = get(row, column)?;
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
}

/// A fact, whose columns begin at `first`.
pub(super) fn recorded(row: &Row, first: usize) -> Result<Recorded, Undecodable> {
    fact::recorded(&mut ColumnsFrom { row, first })
}
