//! Rows on their way out.

use std::borrow::Cow;

use bytes::Bytes;
use sendoff_core::{BoxError, Event, Headers, Status, StoredEvent, Timestamp, Token, Undecodable};
use sendoff_engine::store::{Claimed, Row as Standing, StoreError};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::failed;
use crate::wire::{At, Id, Json, Payload};

/// Columns of `claim`, `claim_suspects`, `lock` and `find`. By number: a name is looked up for every row.
mod column {
    pub(super) const EVENT_ID: usize = 0;
    pub(super) const EVENT_TYPE: usize = 1;
    pub(super) const AGGREGATE_TYPE: usize = 2;
    pub(super) const AGGREGATE_ID: usize = 3;
    pub(super) const TENANT_ID: usize = 4;
    pub(super) const ORDERING_KEY: usize = 5;
    pub(super) const CONTENT_TYPE: usize = 6;
    pub(super) const OCCURRED_AT: usize = 7;
    pub(super) const HEADERS: usize = 8;
    pub(super) const PAYLOAD: usize = 9;
    pub(super) const ATTEMPTS: usize = 10;
    pub(super) const DUE_AT: usize = 11;
    pub(super) const CREATED_AT: usize = 12;
    /// Of a claim or a lock.
    pub(super) const SEQ: usize = 13;
    pub(super) const WAS_DUE: usize = 14;
    pub(super) const LOST: usize = 15;
    pub(super) const CLAIMED_AT: usize = 16;
    /// Of a row that was found.
    pub(super) const STATUS: usize = 13;
    pub(super) const DONE_AT: usize = 14;
    pub(super) const LAST_ERROR: usize = 15;
    pub(super) const LOCKED_BY: usize = 16;
    pub(super) const LOSSES: usize = 17;
}

/// A claimed row, and its place among the others.
pub(crate) struct Placed {
    pub(crate) place: (Timestamp, i64),
    pub(crate) claimed: Claimed,
}

/// A row that is no event still has to be claimed, so that it can be settled.
pub(crate) fn claimed(row: &Row) -> Result<Placed, StoreError> {
    let Id(id) = get(row, column::EVENT_ID)?;
    let was_due = time(row, column::WAS_DUE)?;
    let claimed = Claimed {
        id,
        token: Token::new(time(row, column::DUE_AT)?),
        attempts: attempts(row)?,
        was_due,
        lost: get(row, column::LOST)?,
        created_at: time(row, column::CREATED_AT)?,
        claimed_at: time(row, column::CLAIMED_AT)?,
        event: event(row),
    };
    Ok(Placed { place: (was_due, get(row, column::SEQ)?), claimed })
}

pub(crate) fn standing(row: &Row) -> Result<Standing, StoreError> {
    let event = event(row).map_err(|undecodable| StoreError::Refused(undecodable.into()))?;
    let code: i16 = get(row, column::STATUS)?;
    Ok(Standing {
        event,
        status: Status::try_from(i64::from(code))
            .map_err(|unknown| StoreError::Refused(unknown.into()))?,
        attempts: attempts(row)?,
        losses: u32::try_from(get::<i16>(row, column::LOSSES)?).unwrap_or(0),
        due_at: time(row, column::DUE_AT)?,
        created_at: time(row, column::CREATED_AT)?,
        done_at: get::<Option<At>>(row, column::DONE_AT)?.map(|At(time)| time),
        last_error: get(row, column::LAST_ERROR)?,
        locked_by: get(row, column::LOCKED_BY)?,
    })
}

pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(failed)
}

pub(crate) fn time(row: &Row, column: usize) -> Result<Timestamp, StoreError> {
    get(row, column).map(|At(time)| time)
}

fn attempts(row: &Row) -> Result<u32, StoreError> {
    get::<i32>(row, column::ATTEMPTS).map(|stored| u32::try_from(stored).unwrap_or(0))
}

/// The headers of a row.
pub(crate) fn headers(row: &Row, column: usize) -> Result<Headers, Undecodable> {
    let headers: Option<Json> = field(row, column, "headers")?;
    Headers::from_json(headers.as_ref().map(|Json(text)| text.as_str()))
        // Not the parser's own words, which may quote a header's value.
        .map_err(|error| undecodable("headers", NotHeaders { column: error.column() }))
}

/// When the event of a row happened.
pub(crate) fn occurred_at(row: &Row, column: usize) -> Result<Timestamp, Undecodable> {
    let at: At = field(row, column, "occurred_at")?;
    if at.is_finite() { Ok(at.0) } else { Err(Undecodable { field: "occurred_at", source: None }) }
}

fn event(row: &Row) -> Result<Event, Undecodable> {
    let Id(id) = field(row, column::EVENT_ID, "event_id")?;
    let Payload(payload) = field(row, column::PAYLOAD, "payload")?;
    Event::restore(StoredEvent {
        id,
        event_type: field(row, column::EVENT_TYPE, "event_type")?,
        aggregate_type: field(row, column::AGGREGATE_TYPE, "aggregate_type")?,
        aggregate_id: field(row, column::AGGREGATE_ID, "aggregate_id")?,
        tenant_id: field(row, column::TENANT_ID, "tenant_id")?,
        ordering_key: field(row, column::ORDERING_KEY, "ordering_key")?,
        headers: headers(row, column::HEADERS)?,
        content_type: Cow::Owned(field(row, column::CONTENT_TYPE, "content_type")?),
        payload: Bytes::copy_from_slice(payload),
        occurred_at: occurred_at(row, column::OCCURRED_AT)?,
    })
}

#[derive(Debug, thiserror::Error)]
#[error("not a JSON object of texts, at character {column}")]
struct NotHeaders {
    column: usize,
}

pub(crate) fn undecodable(field: &'static str, source: impl Into<BoxError>) -> Undecodable {
    Undecodable { field, source: Some(source.into()) }
}

pub(crate) fn field<'r, T: FromSql<'r>>(
    row: &'r Row,
    column: usize,
    field: &'static str,
) -> Result<T, Undecodable> {
    row.try_get(column).map_err(|error| undecodable(field, error))
}
