//! The event of an outbox's row. Every statement that reads rows has these columns in this order, one
//! after the other.

use std::borrow::Cow;

use sendoff_core::{Event, StoredEvent, Undecodable};

use super::row::{Cells, Column};

/// Its id.
pub const EVENT_ID: Column = Column::new(0, "event_id");
/// Its type.
pub const EVENT_TYPE: Column = Column::new(1, "event_type");
const AGGREGATE_TYPE: Column = Column::new(2, "aggregate_type");
const AGGREGATE_ID: Column = Column::new(3, "aggregate_id");
const TENANT_ID: Column = Column::new(4, "tenant_id");
const ORDERING_KEY: Column = Column::new(5, "ordering_key");
const CONTENT_TYPE: Column = Column::new(6, "content_type");
const OCCURRED_AT: Column = Column::new(7, "occurred_at");
/// Its headers.
pub const HEADERS: Column = Column::new(8, "headers");
/// Its payload.
pub const PAYLOAD: Column = Column::new(9, "payload");
/// How many columns it has.
pub const COLUMNS: usize = 10;

/// The event of a row, or which column is none. One bad row must not keep its neighbours from being
/// delivered.
pub fn decoded(row: &mut impl Cells) -> Result<Event, Undecodable> {
    Event::restore(StoredEvent {
        id: row.id(EVENT_ID)?.ok_or(EVENT_ID.absent())?,
        event_type: row.text(EVENT_TYPE)?.ok_or(EVENT_TYPE.absent())?,
        aggregate_type: row.text(AGGREGATE_TYPE)?.ok_or(AGGREGATE_TYPE.absent())?,
        aggregate_id: row.text(AGGREGATE_ID)?,
        tenant_id: row.text(TENANT_ID)?,
        ordering_key: row.text(ORDERING_KEY)?,
        headers: row.headers(HEADERS)?,
        content_type: Cow::Owned(row.text(CONTENT_TYPE)?.ok_or(CONTENT_TYPE.absent())?),
        payload: row.bytes(PAYLOAD)?.ok_or(PAYLOAD.absent())?,
        occurred_at: row.moment(OCCURRED_AT)?.ok_or(OCCURRED_AT.absent())?,
    })
}
