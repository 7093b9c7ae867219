//! Facts on their way out.

use std::borrow::Cow;

use rusqlite::Row;
use sendoff_core::journal::{Fact, Position, Recorded, Tag, Tags};
use sendoff_core::{Event, EventId, GLOBAL_AGGREGATE, StoredEvent, Undecodable};

use crate::rows::{headers, payload, text, time, undecodable};

/// Columns of `fetch`. By number: a name is looked up for every row.
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
}

/// The fact of a row, or which column is none.
pub(super) fn recorded(row: &Row<'_>) -> Result<Recorded, Undecodable> {
    let number: i64 = get(row, column::POSITION, "position")?;
    let position =
        Position::try_from(number).map_err(|invalid| undecodable("position", invalid))?;
    let recorded_at =
        time(row, column::RECORDED_AT).map_err(|error| undecodable("recorded_at", error))?;
    let id = |column, name| -> Result<Option<EventId>, Undecodable> {
        let id: Option<[u8; 16]> = get(row, column, name)?;
        Ok(id.map(EventId::from_bytes))
    };
    let fact = Fact::restore(
        event(row)?,
        tags(row)?,
        id(column::CORRELATION_ID, "correlation_id")?,
        id(column::CAUSATION_ID, "causation_id")?,
    );
    Ok(Recorded { position, recorded_at, fact })
}

fn get<T: rusqlite::types::FromSql>(
    row: &Row<'_>,
    column: usize,
    field: &'static str,
) -> Result<T, Undecodable> {
    row.get(column).map_err(|error| undecodable(field, error))
}

fn tags(row: &Row<'_>) -> Result<Tags, Undecodable> {
    let texts = text(row, column::TAGS, "tags")?;
    let texts: Vec<String> =
        serde_json::from_str(&texts).map_err(|error| undecodable("tags", error))?;
    let tags = texts.iter().map(|text| text.parse()).collect::<Result<Vec<Tag>, _>>();
    tags.and_then(Tags::new).map_err(|invalid| undecodable("tags", invalid))
}

fn event(row: &Row<'_>) -> Result<Event, Undecodable> {
    let id: [u8; 16] = get(row, column::EVENT_ID, "event_id")?;
    Event::restore(StoredEvent {
        id: EventId::from_bytes(id),
        event_type: text(row, column::EVENT_TYPE, "event_type")?,
        aggregate_type: GLOBAL_AGGREGATE.to_owned(),
        aggregate_id: None,
        tenant_id: None,
        ordering_key: None,
        headers: headers(row, column::HEADERS)?,
        content_type: Cow::Owned(text(row, column::CONTENT_TYPE, "content_type")?),
        payload: payload(row, column::PAYLOAD)?,
        occurred_at: time(row, column::OCCURRED_AT)
            .map_err(|error| undecodable("occurred_at", error))?,
    })
}
