//! Rows on their way in and out.

use std::time::Duration;

use bytes::Bytes;
use rusqlite::types::{FromSql, ToSqlOutput, ValueRef};
use sendoff_core::order::{IN_LINE, is_in_line};
use sendoff_core::{Event, EventId, Holding, Status, StoredEvent, Timestamp, Token, Undecodable};
use sendoff_engine::store::frame::{Cells, Column, event};
use sendoff_engine::store::{Birth, Born, Claimed, NewRow, Row, Waiting};

use crate::store::due;

/// A row about to be inserted, in the order of the statement's columns.
pub(crate) struct Draft<'a> {
    pub(crate) event: &'a StoredEvent,
    pub(crate) shard: u8,
    pub(crate) due_at: Timestamp,
    pub(crate) created_at: Timestamp,
    pub(crate) locked_by: Option<&'a str>,
    pub(crate) headers: Option<String>,
    pub(crate) delayed_until: Option<Timestamp>,
}

impl<'a> Draft<'a> {
    pub(crate) fn new(row: &'a NewRow, now: Timestamp) -> Self {
        let (after, locked_by) = match &row.birth {
            Birth::Due => (row.event.delay(), None),
            Birth::Held { owner, grace } => (*grace, Some(&**owner)),
        };
        let event: &StoredEvent = row.event.as_ref();
        let delayed = locked_by.is_none() && !after.is_zero();
        let in_line = locked_by.is_none() && !delayed && event.ordering_key.is_some();
        // A new row replaces no token.
        let due_at = if in_line { IN_LINE } else { due(now, after, None) };
        Self {
            event,
            shard: row.event.shard(),
            due_at,
            created_at: now,
            locked_by,
            headers: event.headers.to_json(),
            delayed_until: delayed.then_some(due_at),
        }
    }

    pub(crate) fn born(&self) -> Born {
        Born {
            created_at: self.created_at,
            token: self.locked_by.is_some().then(|| Token::new(self.due_at)),
        }
    }
}

/// Columns of `claim`, `claim_suspects`, `lock` and `find`: the event's stand between the first and the
/// others. By number: a name is looked up for every row.
mod column {
    use sendoff_engine::store::frame::Column;
    use sendoff_engine::store::frame::event::COLUMNS;

    pub(super) const SEQ: usize = 0;
    pub(super) const EVENT: usize = 1;
    pub(super) const STATUS: usize = EVENT + COLUMNS;
    pub(super) const ATTEMPTS: usize = EVENT + COLUMNS + 1;
    pub(super) const DUE_AT: usize = EVENT + COLUMNS + 2;
    pub(super) const CREATED_AT: usize = EVENT + COLUMNS + 3;
    pub(super) const DONE_AT: usize = EVENT + COLUMNS + 4;
    pub(super) const LAST_ERROR: Column = Column::new(EVENT + COLUMNS + 5, "last_error");
    pub(super) const LOCKED_BY: Column = Column::new(EVENT + COLUMNS + 6, "locked_by");
    pub(super) const LOSSES: usize = EVENT + COLUMNS + 7;
    pub(super) const FOR_TARGET: usize = EVENT + COLUMNS + 8;
    pub(super) const FOR_HANDLER: usize = EVENT + COLUMNS + 9;
    pub(super) const DELAYED_UNTIL: usize = EVENT + COLUMNS + 10;
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
    pub(crate) waiting: Waiting,
    pub(crate) event: Result<Event, Undecodable>,
}

impl Visible {
    /// The row in the hands of whoever holds it by this, with its stored attempts.
    pub(crate) fn claimed(self, by: Holding, lost: bool, now: Timestamp) -> Claimed {
        Claimed {
            id: self.id,
            by,
            attempts: self.attempts,
            was_due: self.due_at,
            lost,
            created_at: self.created_at,
            claimed_at: now,
            waiting: self.waiting,
            event: self.event,
        }
    }
}

fn visible(row: &rusqlite::Row<'_>) -> rusqlite::Result<Visible> {
    // The table's own constraints (strict types, sixteen bytes) hold for what is read with `?`.
    Ok(Visible {
        seq: row.get(column::SEQ)?,
        id: id(row)?,
        attempts: count(row, column::ATTEMPTS)?,
        due_at: time(row, column::DUE_AT)?,
        created_at: time(row, column::CREATED_AT)?,
        locked_by: match row.get_ref(column::LOCKED_BY.at)? {
            ValueRef::Text(name) => Some(name.to_vec()),
            _ => None,
        },
        waiting: waiting(row)?,
        event: event(row),
    })
}

/// Rows as long as they fit into `bytes` together, and the first one always. What does not fit is not
/// copied.
pub(crate) fn visible_within(
    found: rusqlite::Rows<'_>,
    bytes: usize,
) -> rusqlite::Result<Vec<Visible>> {
    Ok(weighed_within(found, bytes)?.into_iter().map(|(_, row)| row).collect())
}

/// The same, each with its bytes.
pub(crate) fn weighed_within(
    mut found: rusqlite::Rows<'_>,
    bytes: usize,
) -> rusqlite::Result<Vec<(usize, Visible)>> {
    let mut rows = Vec::new();
    let mut room = Room::new(bytes);
    while let Some(row) = found.next()? {
        if !room.fits(row)? {
            break;
        }
        rows.push((weight(row)?, visible(row)?));
    }
    Ok(rows)
}

/// The events of a key as long as they are in line and fit, up to `most`; and whether these are all of them.
pub(crate) fn in_line_within(
    mut found: rusqlite::Rows<'_>,
    most: usize,
    room: &mut Room,
) -> rusqlite::Result<(Vec<Visible>, bool)> {
    let mut rows = Vec::new();
    while let Some(row) = found.next()? {
        if rows.len() == most || !is_in_line(time(row, column::DUE_AT)?) || !room.fits(row)? {
            return Ok((rows, false));
        }
        rows.push(visible(row)?);
    }
    Ok((rows, true))
}

/// Room for so many bytes, and always for the first row.
pub(crate) struct Room {
    bytes: usize,
    taken: Option<usize>,
}

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        Self { bytes, taken: None }
    }

    /// Whether a row fits. One that does not leaves no room for others.
    fn fits(&mut self, row: &rusqlite::Row<'_>) -> rusqlite::Result<bool> {
        let sum = self.taken.unwrap_or(0).saturating_add(weight(row)?);
        Ok(self.taken.replace(sum).is_none() || sum <= self.bytes)
    }
}

/// The bytes of a row that can be many.
fn weight(row: &rusqlite::Row<'_>) -> rusqlite::Result<usize> {
    weight_from(row, column::EVENT)
}

/// The same, where the event's columns begin at this one.
pub(crate) fn weight_from(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<usize> {
    let mut bytes = 0_usize;
    for column in [event::PAYLOAD, event::HEADERS] {
        let value = row.get_ref(first + column.at)?;
        if let ValueRef::Text(many) | ValueRef::Blob(many) = value {
            bytes = bytes.saturating_add(many.len());
        }
    }
    Ok(bytes)
}

pub(crate) fn row(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<Row, Undecodable>> {
    let status: i64 = row.get(column::STATUS)?;
    let (attempts, losses) = (count(row, column::ATTEMPTS)?, count(row, column::LOSSES)?);
    let (due_at, created_at) = (time(row, column::DUE_AT)?, time(row, column::CREATED_AT)?);
    let (done_at, waiting) = (maybe_time(row, column::DONE_AT)?, waiting(row)?);
    let delayed_until = maybe_time(row, column::DELAYED_UNTIL)?;
    let decode = || {
        Ok(Row {
            event: event(row)?,
            status: Status::try_from(status)
                .map_err(|unknown| Undecodable { field: "status", source: Some(unknown.into()) })?,
            attempts,
            losses,
            due_at,
            created_at,
            done_at,
            last_error: all(row).text(column::LAST_ERROR)?,
            locked_by: all(row).text(column::LOCKED_BY)?,
            waiting,
            delayed_until,
        })
    };
    Ok(decode())
}

fn event(row: &rusqlite::Row<'_>) -> Result<Event, Undecodable> {
    event::decoded(&mut ColumnsFrom { row, first: column::EVENT })
}

fn id(row: &rusqlite::Row<'_>) -> rusqlite::Result<EventId> {
    row.get(column::EVENT + event::EVENT_ID.at).map(EventId::from_bytes)
}

pub(crate) fn count(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<u32> {
    let stored: i64 = row.get(column)?;
    Ok(u32::try_from(stored).unwrap_or(u32::MAX))
}

fn maybe_time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>(column)?.map(Timestamp::from_micros))
}

/// A text that can be read; SQLite stores any bytes as text.
pub(crate) fn readable(value: ValueRef<'_>) -> Option<String> {
    match value {
        ValueRef::Text(bytes) => std::str::from_utf8(bytes).ok().map(str::to_owned),
        _ => None,
    }
}

/// A text as it is stored, whether or not it can be read.
pub(crate) fn verbatim(bytes: &[u8]) -> ToSqlOutput<'_> {
    ToSqlOutput::Borrowed(ValueRef::Text(bytes))
}

fn waiting(row: &rusqlite::Row<'_>) -> rusqlite::Result<Waiting> {
    let for_target = maybe_time(row, column::FOR_TARGET)?;
    Ok(Waiting { for_target, for_handler: maybe_time(row, column::FOR_HANDLER)? })
}

pub(crate) fn time(row: &rusqlite::Row<'_>, column: usize) -> rusqlite::Result<Timestamp> {
    row.get(column).map(Timestamp::from_micros)
}

/// The columns of a row from this one on.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsFrom<'r> {
    row: &'r rusqlite::Row<'r>,
    first: usize,
}

/// Every column of a row.
pub(crate) fn all<'r>(row: &'r rusqlite::Row<'_>) -> ColumnsFrom<'r> {
    ColumnsFrom { row, first: 0 }
}

impl<'r> ColumnsFrom<'r> {
    fn get<T: FromSql>(self, column: Column) -> Result<Option<T>, Undecodable> {
        self.row.get(self.first + column.at).map_err(|error| column.undecodable(error))
    }

    fn value(self, column: Column) -> Result<ValueRef<'r>, Undecodable> {
        self.row.get_ref(self.first + column.at).map_err(|error| column.undecodable(error))
    }
}

impl Cells for ColumnsFrom<'_> {
    fn integer(&mut self, column: Column) -> Result<Option<i64>, Undecodable> {
        self.get(column)
    }

    fn id(&mut self, column: Column) -> Result<Option<EventId>, Undecodable> {
        Ok(self.get(column)?.map(EventId::from_bytes))
    }

    fn time(&mut self, column: Column) -> Result<Option<Timestamp>, Undecodable> {
        Ok(self.get(column)?.map(Timestamp::from_micros))
    }

    fn text(&mut self, column: Column) -> Result<Option<String>, Undecodable> {
        match self.value(column)? {
            ValueRef::Null => Ok(None),
            // SQLite stores any bytes as text.
            ValueRef::Text(bytes) => match std::str::from_utf8(bytes) {
                Ok(text) => Ok(Some(text.to_owned())),
                Err(error) => Err(column.undecodable(error)),
            },
            _ => Err(column.absent()),
        }
    }

    fn bytes(&mut self, column: Column) -> Result<Option<Bytes>, Undecodable> {
        match self.value(column)? {
            ValueRef::Blob(bytes) => Ok(Some(Bytes::copy_from_slice(bytes))),
            _ => Ok(None),
        }
    }
}
