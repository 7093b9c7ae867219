//! Rows on their way in and out.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;
use rusqlite::types::ValueRef;
use sendoff_core::{
    BoxError, Event, EventId, Headers, Status, StoredEvent, Timestamp, Token, Undecodable,
};
use sendoff_engine::store::{Birth, Born, NewRow, Row};

use crate::store::due;

/// A row about to be inserted, in the order of the statement's columns.
pub(crate) struct Draft<'a> {
    pub(crate) event: &'a StoredEvent,
    pub(crate) shard: u8,
    pub(crate) due_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) locked_by: Option<&'a str>,
    pub(crate) headers: Option<String>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(row: &'a NewRow, now: Timestamp) -> Self {
        let (after, locked_by) = match &row.birth {
            Birth::Due => (row.event.delay(), None),
            Birth::Held { owner, grace } => (*grace, Some(&**owner)),
        };
        let event: &StoredEvent = row.event.as_ref();
        Self {
            event,
            shard: row.event.shard(),
            // A new row replaces no token.
            due_at: due(now, after, Timestamp::from_micros(i64::MIN)),
            created_at: now,
            locked_by,
            headers: event.headers.to_json(),
        }
    }

    pub(crate) fn born(&self) -> Born {
        Born {
            created_at: self.created_at,
            token: self.locked_by.is_some().then(|| Token::new(self.due_at)),
        }
    }
}

/// Columns of `claim`, `claim_suspects`, `lock` and `find`. By number: a name is looked up for every row.
mod column {
    pub(super) const SEQ: usize = 0;
    pub(super) const EVENT_ID: usize = 1;
    pub(super) const EVENT_TYPE: usize = 2;
    pub(super) const AGGREGATE_TYPE: usize = 3;
    pub(super) const AGGREGATE_ID: usize = 4;
    pub(super) const TENANT_ID: usize = 5;
    pub(super) const ORDERING_KEY: usize = 6;
    pub(super) const CONTENT_TYPE: usize = 7;
    pub(super) const OCCURRED_AT: usize = 8;
    pub(super) const HEADERS: usize = 9;
    pub(super) const PAYLOAD: usize = 10;
    pub(super) const STATUS: usize = 11;
    pub(super) const ATTEMPTS: usize = 12;
    pub(super) const DUE_AT: usize = 13;
    pub(super) const CREATED_AT: usize = 14;
    pub(super) const DONE_AT: usize = 15;
    pub(super) const LAST_ERROR: usize = 16;
    pub(super) const LOCKED_BY: usize = 17;
    pub(super) const LOSSES: usize = 18;
}

/// When a row may have been created: not after the first, which excepts rows from the future that a
/// clock which stepped back left behind, and not before the second.
pub(crate) fn created_within(
    now: Timestamp,
    skip_recent: Duration,
    window: Option<Duration>,
) -> (i64, i64) {
    let oldest = window.map_or(i64::MIN, |window| now.saturating_sub(window).as_micros());
    (now.saturating_sub(skip_recent).as_micros(), oldest)
}

/// From when on a row may be due.
pub(crate) fn due_from(from: Option<Timestamp>) -> i64 {
    from.map_or(i64::MIN, Timestamp::as_micros)
}

/// What the claim must know of a row, whatever its event looks like.
pub(crate) struct Visible {
    pub(crate) seq: i64,
    pub(crate) id: EventId,
    pub(crate) attempts: u32,
    pub(crate) due_at: Timestamp,
    pub(crate) created_at: Timestamp,
    /// Verbatim: an owner's name that is no UTF-8 is still somebody else's.
    pub(crate) locked_by: Option<Vec<u8>>,
    pub(crate) event: Result<Event, Undecodable>,
}

fn visible(row: &rusqlite::Row<'_>) -> rusqlite::Result<Visible> {
    // The table's own constraints (strict types, sixteen bytes) hold for what is read with `?`.
    Ok(Visible {
        seq: row.get(column::SEQ)?,
        id: id(row)?,
        attempts: count(row, column::ATTEMPTS)?,
        due_at: time(row, column::DUE_AT)?,
        created_at: time(row, column::CREATED_AT)?,
        locked_by: match row.get_ref(column::LOCKED_BY)? {
            ValueRef::Text(name) => Some(name.to_vec()),
            _ => None,
        },
        event: event(row),
    })
}

/// Rows as long as they fit into `bytes` together, and the first one always. What does not fit is not
/// copied.
pub(crate) fn visible_within(
    mut found: rusqlite::Rows<'_>,
    bytes: usize,
) -> rusqlite::Result<Vec<Visible>> {
    let mut rows = Vec::new();
    let mut sum = 0_usize;
    while let Some(row) = found.next()? {
        sum = sum.saturating_add(weight(row)?);
        if sum > bytes && !rows.is_empty() {
            break;
        }
        rows.push(visible(row)?);
    }
    Ok(rows)
}

/// The bytes of a row that can be many.
fn weight(row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
    let mut bytes = 0_usize;
    for column in [column::PAYLOAD, column::HEADERS] {
        if let ValueRef::Text(many) | ValueRef::Blob(many) = row.get_ref(column)? {
            bytes = bytes.saturating_add(many.len());
        }
    }
    Ok(bytes)
}

pub(crate) fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<Row, Undecodable>> {
    let status: i64 = row.get(column::STATUS)?;
    let (attempts, losses) = (count(row, column::ATTEMPTS)?, count(row, column::LOSSES)?);
    let (due_at, created_at) = (time(row, column::DUE_AT)?, time(row, column::CREATED_AT)?);
    let done_at = row.get::<_, Option<i64>>(column::DONE_AT)?.map(Timestamp::from_micros);
    let decode = || {
        Ok(Row {
            event: event(row)?,
            status: Status::try_from(status).map_err(|e| undecodable("status", e))?,
            attempts,
            losses,
            due_at,
            created_at,
            done_at,
            last_error: optional_text(row, column::LAST_ERROR, "last_error")?,
            locked_by: optional_text(row, column::LOCKED_BY, "locked_by")?,
        })
    };
    Ok(decode())
}

/// The event of a row, or which column is none. Never fails the statement: one bad row must not keep
/// its neighbours from being delivered.
fn event(row: &rusqlite::Row<'_>) -> Result<Event, Undecodable> {
    Event::restore(StoredEvent {
        id: id(row).map_err(|error| undecodable("event_id", error))?,
        event_type: text(row, column::EVENT_TYPE, "event_type")?,
        aggregate_type: text(row, column::AGGREGATE_TYPE, "aggregate_type")?,
        aggregate_id: optional_text(row, column::AGGREGATE_ID, "aggregate_id")?,
        tenant_id: optional_text(row, column::TENANT_ID, "tenant_id")?,
        ordering_key: optional_text(row, column::ORDERING_KEY, "ordering_key")?,
        headers: headers(row, column::HEADERS)?,
        content_type: Cow::Owned(text(row, column::CONTENT_TYPE, "content_type")?),
        payload: payload(row, column::PAYLOAD)?,
        occurred_at: time(row, column::OCCURRED_AT)
            .map_err(|error| undecodable("occurred_at", error))?,
    })
}

/// The headers of a row.
pub(crate) fn headers(row: &rusqlite::Row<'_>, column: usize) -> Result<Headers, Undecodable> {
    let headers = optional_text(row, column, "headers")?;
    Headers::from_json(headers.as_deref()).map_err(|error| {
        // Not the error itself: its text may quote a header's value.
        undecodable("headers", NotHeaders { line: error.line(), column: error.column() })
    })
}

/// The payload of a row.
pub(crate) fn payload(row: &rusqlite::Row<'_>, column: usize) -> Result<Bytes, Undecodable> {
    match value(row, column, "payload")? {
        ValueRef::Blob(payload) => Ok(Bytes::copy_from_slice(payload)),
        _ => Err(Undecodable { field: "payload", source: None }),
    }
}

#[derive(Debug, thiserror::Error)]
#[error("not a JSON object of texts, at line {line} column {column}")]
struct NotHeaders {
    line: usize,
    column: usize,
}

pub(crate) fn undecodable(field: &'static str, source: impl Into<BoxError>) -> Undecodable {
    Undecodable { field, source: Some(source.into()) }
}

fn id(row: &rusqlite::Row<'_>) -> rusqlite::Result<EventId> {
    row.get(column::EVENT_ID).map(EventId::from_bytes)
}

fn count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let stored: i64 = row.get(column)?;
    Ok(u32::try_from(stored).unwrap_or(u32::MAX))
}

pub(crate) fn time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

fn value<'r>(
    row: &'r rusqlite::Row<'_>,
    column: usize,
    field: &'static str,
) -> Result<ValueRef<'r>, Undecodable> {
    row.get_ref(column).map_err(|error| undecodable(field, error))
}

pub(crate) fn text(
    row: &rusqlite::Row<'_>,
    column: usize,
    field: &'static str,
) -> Result<String, Undecodable> {
    optional_text(row, column, field)?.ok_or(Undecodable { field, source: None })
}

fn optional_text(
    row: &rusqlite::Row<'_>,
    column: usize,
    field: &'static str,
) -> Result<Option<String>, Undecodable> {
    match value(row, column, field)? {
        ValueRef::Null => Ok(None),
        // SQLite stores any bytes as text.
        ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
            Ok(text) => Ok(Some(text.to_owned())),
            Err(error) => Err(undecodable(field, error)),
        },
        _ => Err(Undecodable { field, source: None }),
    }
}
