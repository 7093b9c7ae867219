//! Rows on their way out.

use std::borrow::Cow;

use bytes::Bytes;
use mysql_async::{Row, Value};
use sendoff_core::{
    BoxError, Event, EventId, Headers, Status, StoredEvent, Timestamp, Token, Undecodable,
};
use sendoff_engine::store::{Claimed, Row as Standing, StoreError};

use crate::wire::{EARLIEST, time_of};

/// Columns of `claimed`, `locked` and `find`. By number: a name is looked up for every row.
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
    /// Of a claim.
    pub(super) const TOKEN: usize = 13;
    pub(super) const LOST: usize = 14;
    pub(super) const CLAIMED_AT: usize = 15;
    pub(super) const SEQ: usize = 16;
    /// Of a row that was found.
    pub(super) const STATUS: usize = 13;
    pub(super) const DONE_AT: usize = 14;
    pub(super) const LAST_ERROR: usize = 15;
    pub(super) const LOCKED_BY: usize = 16;
    pub(super) const LOSSES: usize = 17;
}

/// Rows that a claim holds or a transaction has locked, oldest due first. A row that is no event still
/// has to be claimed, so that it can be settled; and whatever stands in it, the others go on.
pub(crate) fn claimed(rows: Vec<Row>, counted: bool) -> Result<Vec<Claimed>, StoreError> {
    let mut claimed =
        rows.into_iter().map(|row| one(row, counted)).collect::<Result<Vec<_>, _>>()?;
    // The server gives them in their order; nothing promises that it does.
    claimed.sort_by_key(|row| row.was_due);
    Ok(claimed)
}

/// `counted`: a loss is counted in the row already.
fn one(mut row: Row, counted: bool) -> Result<Claimed, StoreError> {
    let lost = integer(&row, column::LOST)? != 0;
    let attempts = count(&row, column::ATTEMPTS)?;
    // A date of zeros, say. What is to be written back must be a time.
    let or_earliest = |column| time(&row, column).unwrap_or(EARLIEST);
    Ok(Claimed {
        id: id(&row, column::EVENT_ID)?,
        token: Token::new(or_earliest(column::TOKEN)),
        attempts: if lost && !counted { attempts.saturating_add(1) } else { attempts },
        was_due: or_earliest(column::DUE_AT),
        lost,
        created_at: or_earliest(column::CREATED_AT),
        claimed_at: time(&row, column::CLAIMED_AT)?,
        event: event(&mut row),
    })
}

/// What identifies a row beside its id, where a table in partitions may have the id twice.
pub(crate) fn seq(row: &Row) -> Result<i64, StoreError> {
    integer(row, column::SEQ)
}

/// The bytes of a row's type, whether or not they are text.
pub(crate) fn event_type(row: &Row) -> &[u8] {
    maybe(row, column::EVENT_TYPE).unwrap_or_default()
}

pub(crate) fn standing(mut row: Row) -> Result<Standing, StoreError> {
    let event = event(&mut row).map_err(|undecodable| StoreError::Refused(undecodable.into()))?;
    let maybe_text = |column| {
        let text = maybe(&row, column).map(|bytes| String::from_utf8(bytes.to_vec())).transpose();
        text.map_err(|_| unreadable(column))
    };
    Ok(Standing {
        event,
        status: Status::try_from(integer(&row, column::STATUS)?)
            .map_err(|unknown| StoreError::Refused(unknown.into()))?,
        attempts: count(&row, column::ATTEMPTS)?,
        losses: count(&row, column::LOSSES)?,
        due_at: time(&row, column::DUE_AT)?,
        created_at: time(&row, column::CREATED_AT)?,
        done_at: maybe(&row, column::DONE_AT).map(|_| time(&row, column::DONE_AT)).transpose()?,
        last_error: maybe_text(column::LAST_ERROR)?,
        locked_by: maybe_text(column::LOCKED_BY)?,
    })
}

pub(crate) fn id(row: &Row, column: usize) -> Result<EventId, StoreError> {
    let bytes = maybe(row, column).and_then(|bytes| bytes.try_into().ok());
    bytes.map(EventId::from_bytes).ok_or_else(|| unreadable(column))
}

pub(crate) fn integer(row: &Row, column: usize) -> Result<i64, StoreError> {
    let digits = match row.as_ref(column) {
        Some(Value::Int(number)) => return Ok(*number),
        Some(Value::UInt(number)) => return i64::try_from(*number).map_err(|_| unreadable(column)),
        Some(Value::Bytes(digits)) => std::str::from_utf8(digits).ok(),
        _ => None,
    };
    digits.and_then(|digits| digits.parse().ok()).ok_or_else(|| unreadable(column))
}

pub(crate) fn time(row: &Row, column: usize) -> Result<Timestamp, StoreError> {
    row.as_ref(column).and_then(time_of).ok_or_else(|| unreadable(column))
}

/// A text that cannot be NULL.
pub(crate) fn name(row: &Row, column: usize) -> Result<String, StoreError> {
    let text = maybe(row, column).map(|bytes| String::from_utf8(bytes.to_vec()));
    text.and_then(Result::ok).ok_or_else(|| unreadable(column))
}

fn count(row: &Row, column: usize) -> Result<u32, StoreError> {
    integer(row, column).map(|count| u32::try_from(count).unwrap_or(u32::MAX))
}

/// What the server sent, unless it was NULL. The answer to a text is text.
pub(crate) fn maybe(row: &Row, column: usize) -> Option<&[u8]> {
    match row.as_ref(column) {
        Some(Value::Bytes(bytes)) => Some(bytes),
        _ => None,
    }
}

/// Without the value, which may be a secret.
fn unreadable(column: usize) -> StoreError {
    StoreError::Refused(format!("column {column} of the server's answer cannot be read").into())
}

fn event(row: &mut Row) -> Result<Event, Undecodable> {
    let absent = |field| Undecodable { field, source: None };
    let id = id(row, column::EVENT_ID).map_err(|_| absent("event_id"))?;
    let headers = headers(row, column::HEADERS)?;
    let occurred_at = time(row, column::OCCURRED_AT).map_err(|_| absent("occurred_at"))?;
    let payload = payload(row, column::PAYLOAD)?;
    Event::restore(StoredEvent {
        id,
        event_type: text(row, column::EVENT_TYPE, "event_type")?,
        aggregate_type: text(row, column::AGGREGATE_TYPE, "aggregate_type")?,
        aggregate_id: maybe_text(row, column::AGGREGATE_ID, "aggregate_id")?,
        tenant_id: maybe_text(row, column::TENANT_ID, "tenant_id")?,
        ordering_key: maybe_text(row, column::ORDERING_KEY, "ordering_key")?,
        headers,
        content_type: Cow::Owned(text(row, column::CONTENT_TYPE, "content_type")?),
        payload,
        occurred_at,
    })
}

pub(crate) fn headers(row: &mut Row, column: usize) -> Result<Headers, Undecodable> {
    let headers = maybe_text(row, column, "headers")?;
    Headers::from_json(headers.as_deref())
        // Not the parser's own words, which may quote a header's value.
        .map_err(|error| undecodable("headers", NotHeaders { column: error.column() }))
}

pub(crate) fn payload(row: &mut Row, column: usize) -> Result<Bytes, Undecodable> {
    match row.take(column) {
        Some(Value::Bytes(bytes)) => Ok(Bytes::from(bytes)),
        _ => Err(Undecodable { field: "payload", source: None }),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not a JSON object of texts, at character {column}")]
struct NotHeaders {
    column: usize,
}

pub(crate) fn undecodable(field: &'static str, source: impl Into<BoxError>) -> Undecodable {
    Undecodable { field, source: Some(source.into()) }
}

pub(crate) fn text(
    row: &mut Row,
    column: usize,
    field: &'static str,
) -> Result<String, Undecodable> {
    maybe_text(row, column, field)?.ok_or(Undecodable { field, source: None })
}

pub(crate) fn maybe_text(
    row: &mut Row,
    column: usize,
    field: &'static str,
) -> Result<Option<String>, Undecodable> {
    match row.take(column) {
        Some(Value::Bytes(bytes)) => {
            // Not the error itself, which carries the bytes.
            let text = String::from_utf8(bytes).map_err(|error| error.utf8_error());
            text.map(Some).map_err(|error| undecodable(field, error))
        }
        _ => Ok(None),
    }
}
