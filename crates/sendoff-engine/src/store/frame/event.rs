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
/// Its ordering key.
pub const ORDERING_KEY: Column = Column::new(5, "ordering_key");
const CONTENT_TYPE: Column = Column::new(6, "content_type");
const OCCURRED_AT: Column = Column::new(7, "occurred_at");
/// Its headers.
pub const HEADERS: Column = Column::new(8, "headers");
/// Its payload.
pub const PAYLOAD: Column = Column::new(9, "payload");
/// How many columns it has.
pub const COLUMNS: usize = 10;

/// Columns that stores put after those of the event, where a statement reads them. By number: a name is
/// looked up for every row.
pub mod after {
    use super::COLUMNS;

    /// Of every row: attempts counted so far.
    pub const ATTEMPTS: usize = COLUMNS;
    /// When it is due, or until when it is held.
    pub const DUE_AT: usize = COLUMNS + 1;
    /// When it was written.
    pub const CREATED_AT: usize = COLUMNS + 2;
    /// Of a row that was found: where it stands.
    pub const STATUS: usize = COLUMNS + 3;
    /// When it ended.
    pub const DONE_AT: usize = COLUMNS + 4;
    /// The last error.
    pub const LAST_ERROR: usize = COLUMNS + 5;
    /// Who holds it.
    pub const LOCKED_BY: usize = COLUMNS + 6;
    /// Holders in a row who vanished with it.
    pub const LOSSES: usize = COLUMNS + 7;
    /// Since when it waits, in this column and the next.
    pub const WAITING: usize = COLUMNS + 8;
    /// When it first became due, if it was delayed.
    pub const DELAYED_UNTIL: usize = COLUMNS + 10;
}

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
