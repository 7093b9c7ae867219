//! Facts on their way out.

use std::borrow::Cow;

use mysql_async::Row;
use sendoff_core::journal::{Fact, Position, Recorded, Tag, Tags};
use sendoff_core::{Event, EventId, GLOBAL_AGGREGATE, StoredEvent, Undecodable};
use sendoff_engine::journal::{Found, Page};
use sendoff_engine::store::StoreError;

use crate::rows::{headers, id, integer, maybe, payload, text, time, undecodable};

/// Columns of `journal_read`, `journal_history` and `journal_tail`. By number: a name is looked up for every row.
mod column {
    pub(super) const POSITION: usize = 0;
    pub(super) const RECORDED_AT: usize = 1;
    pub(super) const EVENT_ID: usize = 2;
    pub(super) const EVENT_TYPE: usize = 3;
    pub(super) const TAGS: usize = 4;
    pub(super) const CONTENT_TYPE: usize = 5;
    pub(super) const OCCURRED_AT: usize = 6;
    pub(super) const HEADERS: usize = 7;
    pub(super) const PAYLOAD: usize = 8;
    pub(super) const CORRELATION_ID: usize = 9;
    pub(super) const CAUSATION_ID: usize = 10;
    pub(super) const FITS: usize = 11;
}

/// Whether the row fits into the page, or only says that there is more.
pub(super) fn fits(row: &Row) -> Result<bool, StoreError> {
    Ok(integer(row, column::FITS)? != 0)
}

/// Whether a row of `journal_history` has all of its headers and its payload.
pub(super) fn is_whole(row: &Row, header_chars: usize, payload_bytes: usize) -> bool {
    let size = |column| maybe(row, column).map_or(0, <[u8]>::len);
    // Where there are fewer bytes there are fewer characters.
    size(column::HEADERS) <= header_chars && size(column::PAYLOAD) <= payload_bytes
}

/// What the rows of a page say.
pub(super) fn found(rows: Vec<Row>, page: Page) -> Result<Found, StoreError> {
    let mut found = Found { facts: Vec::new(), more: rows.len() >= page.limit };
    for row in rows {
        if fits(&row)? {
            found.facts.push(decoded(row)?);
        } else {
            found.more = true;
        }
    }
    Ok(found)
}

/// The fact of a row that must be one.
pub(super) fn decoded(row: Row) -> Result<Recorded, StoreError> {
    recorded(row).map_err(|error| StoreError::Refused(error.into()))
}

pub(super) fn position(row: &Row, column: usize) -> Result<Position, StoreError> {
    to_position(integer(row, column)?)
}

pub(super) fn to_position(number: i64) -> Result<Position, StoreError> {
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
}

/// Whether the number was taken and never became a fact.
pub(super) fn is_void(row: &Row) -> bool {
    maybe(row, column::EVENT_ID).is_none()
}

/// The fact of a row, or which column is none.
pub(super) fn recorded(mut row: Row) -> Result<Recorded, Undecodable> {
    let row = &mut row;
    let position = position(row, column::POSITION).map_err(|_| absent("position"))?;
    let recorded_at = time(row, column::RECORDED_AT).map_err(|_| absent("recorded_at"))?;
    let correlation_id = maybe_id(row, column::CORRELATION_ID, "correlation_id")?;
    let causation_id = maybe_id(row, column::CAUSATION_ID, "causation_id")?;
    let fact = Fact::restore(event(row)?, tags(row)?, correlation_id, causation_id);
    Ok(Recorded { position, recorded_at, fact })
}

fn absent(field: &'static str) -> Undecodable {
    Undecodable { field, source: None }
}

fn maybe_id(row: &Row, column: usize, field: &'static str) -> Result<Option<EventId>, Undecodable> {
    let found = maybe(row, column).map(|_| id(row, column));
    found.transpose().map_err(|_| absent(field))
}

fn tags(row: &mut Row) -> Result<Tags, Undecodable> {
    let texts = text(row, column::TAGS, "tags")?;
    let texts: Vec<String> =
        serde_json::from_str(&texts).map_err(|error| undecodable("tags", error))?;
    let tags = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Tag>, _>>();
    tags.and_then(Tags::new).map_err(|invalid| undecodable("tags", invalid))
}

fn event(row: &mut Row) -> Result<Event, Undecodable> {
    Event::restore(StoredEvent {
        id: id(row, column::EVENT_ID).map_err(|_| absent("event_id"))?,
        event_type: text(row, column::EVENT_TYPE, "event_type")?,
        aggregate_type: GLOBAL_AGGREGATE.to_owned(),
        aggregate_id: None,
        tenant_id: None,
        ordering_key: None,
        headers: headers(row, column::HEADERS)?,
        content_type: Cow::Owned(text(row, column::CONTENT_TYPE, "content_type")?),
        payload: payload(row, column::PAYLOAD)?,
        occurred_at: time(row, column::OCCURRED_AT).map_err(|_| absent("occurred_at"))?,
    })
}
