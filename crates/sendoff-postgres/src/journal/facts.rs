//! Facts on their way out.

use std::borrow::Cow;

use bytes::Bytes;
use sendoff_core::journal::{Fact, Position, Recorded, Tag, Tags};
use sendoff_core::{Event, GLOBAL_AGGREGATE, StoredEvent, Undecodable};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;

use crate::rows::{field, get, headers, occurred_at, undecodable};
use crate::wire::{At, Id, Payload};

/// Columns of `journal_read`, and behind the first one of `journal_tail`. By number: a name is looked
/// up for every row.
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
pub(super) fn fits(row: &Row, first: usize) -> Result<bool, StoreError> {
    get(row, first + column::FITS)
}

/// The type of a fact, which is looked at before the fact is taken in.
pub(super) fn event_type(row: &Row, first: usize) -> Result<&str, StoreError> {
    get(row, first + column::EVENT_TYPE)
}

pub(super) fn position(row: &Row, column: usize) -> Result<Position, StoreError> {
    let number: i64 = get(row, column)?;
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
}

/// A fact, whose columns begin at `first`.
pub(super) fn recorded(row: &Row, first: usize) -> Result<Recorded, Undecodable> {
    let number: i64 = field(row, first + column::POSITION, "position")?;
    let position =
        Position::try_from(number).map_err(|invalid| undecodable("position", invalid))?;
    let At(recorded_at) = field(row, first + column::RECORDED_AT, "recorded_at")?;
    let id = |column, name| -> Result<Option<_>, Undecodable> {
        let id: Option<Id> = field(row, first + column, name)?;
        Ok(id.map(|Id(id)| id))
    };
    let fact = Fact::restore(
        event(row, first)?,
        tags(row, first)?,
        id(column::CORRELATION_ID, "correlation_id")?,
        id(column::CAUSATION_ID, "causation_id")?,
    );
    Ok(Recorded { position, recorded_at, fact })
}

fn tags(row: &Row, first: usize) -> Result<Tags, Undecodable> {
    let texts: Vec<&str> = field(row, first + column::TAGS, "tags")?;
    let tags = texts.into_iter().map(str::parse).collect::<Result<Vec<Tag>, _>>();
    tags.and_then(Tags::new).map_err(|invalid| undecodable("tags", invalid))
}

fn event(row: &Row, first: usize) -> Result<Event, Undecodable> {
    let Id(id) = field(row, first + column::EVENT_ID, "event_id")?;
    let Payload(payload) = field(row, first + column::PAYLOAD, "payload")?;
    Event::restore(StoredEvent {
        id,
        event_type: field(row, first + column::EVENT_TYPE, "event_type")?,
        aggregate_type: GLOBAL_AGGREGATE.to_owned(),
        aggregate_id: None,
        tenant_id: None,
        ordering_key: None,
        headers: headers(row, first + column::HEADERS)?,
        content_type: Cow::Owned(field(row, first + column::CONTENT_TYPE, "content_type")?),
        payload: Bytes::copy_from_slice(payload),
        occurred_at: occurred_at(row, first + column::OCCURRED_AT)?,
    })
}
