//! How events stand. Every statement that says so has these columns in this order.

use sendoff_core::{EventId, Status};

use super::row::{Cells, Column};
use crate::store::{Horizon, Standing, StoreError};

/// Of a standing, and of an id alone.
const EVENT_ID: Column = Column::new(0, "event_id");
const STATUS: Column = Column::new(1, "status");
const LAST_ERROR: Column = Column::new(2, "last_error");
/// Of a horizon.
const SEQ: Column = Column::new(0, "seq");
const NOW: Column = Column::new(1, "now");

/// How the events of rows stand.
pub fn standings<R: Cells>(rows: impl IntoIterator<Item = R>) -> Result<Vec<Standing>, StoreError> {
    let standing = |mut row: R| {
        let code = row.integer(STATUS)?.ok_or(STATUS.absent())?;
        Ok(Standing {
            id: row.id(EVENT_ID)?.ok_or(EVENT_ID.absent())?,
            status: Status::try_from(code).map_err(|unknown| STATUS.undecodable(unknown))?,
            // One that cannot be read is still an error.
            error: row.text(LAST_ERROR).unwrap_or_else(|_| Some("\u{fffd}".to_owned())),
        })
    };
    rows.into_iter().map(standing).collect()
}

/// The horizon of the row that says it.
pub fn horizon<R: Cells>(row: Option<R>) -> Result<Option<Horizon>, StoreError> {
    let mut row = row.ok_or(SEQ.absent())?;
    let Some(seq) = row.integer(SEQ)? else { return Ok(None) };
    Ok(Some(Horizon { seq, at: row.time(NOW)?.ok_or(NOW.absent())? }))
}

/// The ids of rows.
pub fn ids<R: Cells>(rows: impl IntoIterator<Item = R>) -> Result<Vec<EventId>, StoreError> {
    let id = |mut row: R| Ok(row.id(EVENT_ID)?.ok_or(EVENT_ID.absent())?);
    rows.into_iter().map(id).collect()
}
