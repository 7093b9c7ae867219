//! The facts of a journal. Every statement that reads them has these columns in this order, one after
//! the other.

use std::borrow::Cow;

use sendoff_core::journal::{Fact, Position, Recorded};
use sendoff_core::{Event, GLOBAL_AGGREGATE, StoredEvent, Undecodable};

use super::row::{Cells, Column};

const POSITION: Column = Column::new(0, "position");
const RECORDED_AT: Column = Column::new(1, "recorded_at");
/// Its id.
pub const EVENT_ID: Column = Column::new(2, "event_id");
/// Its type.
pub const EVENT_TYPE: Column = Column::new(3, "event_type");
const TAGS: Column = Column::new(4, "tags");
const CONTENT_TYPE: Column = Column::new(5, "content_type");
const OCCURRED_AT: Column = Column::new(6, "occurred_at");
/// Its headers.
pub const HEADERS: Column = Column::new(7, "headers");
/// Its payload.
pub const PAYLOAD: Column = Column::new(8, "payload");
const CORRELATION_ID: Column = Column::new(9, "correlation_id");
const CAUSATION_ID: Column = Column::new(10, "causation_id");
/// How many columns it has.
pub const COLUMNS: usize = 11;

/// The fact of a row, or which column is none.
pub fn recorded(row: &mut impl Cells) -> Result<Recorded, Undecodable> {
    let position = row.integer(POSITION)?.ok_or(POSITION.absent())?;
    let position = Position::try_from(position).map_err(|invalid| POSITION.undecodable(invalid))?;
    let recorded_at = row.time(RECORDED_AT)?.ok_or(RECORDED_AT.absent())?;
    let (event, tags) = (event(row)?, row.tags(TAGS)?);
    let fact = Fact::restore(event, tags, row.id(CORRELATION_ID)?, row.id(CAUSATION_ID)?);
    Ok(Recorded { position, recorded_at, fact })
}

fn event(row: &mut impl Cells) -> Result<Event, Undecodable> {
    Event::restore(StoredEvent {
        id: row.id(EVENT_ID)?.ok_or(EVENT_ID.absent())?,
        event_type: row.text(EVENT_TYPE)?.ok_or(EVENT_TYPE.absent())?,
        aggregate_type: GLOBAL_AGGREGATE.to_owned(),
        aggregate_id: None,
        tenant_id: None,
        ordering_key: None,
        headers: row.headers(HEADERS)?,
        content_type: Cow::Owned(row.text(CONTENT_TYPE)?.ok_or(CONTENT_TYPE.absent())?),
        payload: row.bytes(PAYLOAD)?.ok_or(PAYLOAD.absent())?,
        occurred_at: row.moment(OCCURRED_AT)?.ok_or(OCCURRED_AT.absent())?,
    })
}
