//! Rows on their way out.

use bytes::Bytes;
use mysql_async::{Row, Value};
use sendoff_core::order::KeyToken;
use sendoff_core::{EventId, Holding, Status, Timestamp, Token, Undecodable};
use sendoff_engine::store::frame::event::{self, EVENT_ID, EVENT_TYPE, ORDERING_KEY};
use sendoff_engine::store::frame::{Cells, Column};
use sendoff_engine::store::{Claimed, Row as Standing, StoreError, Waiting};

use crate::wire::{EARLIEST, time_of};

/// Columns of `claimed`, `locked` and `find`, after those of the event. By number: a name is looked up
/// for every row.
mod column {
    use sendoff_engine::store::frame::event::COLUMNS;
    pub(super) use sendoff_engine::store::frame::event::after::*;

    /// Of a claim.
    pub(super) const TOKEN: usize = COLUMNS + 3;
    pub(super) const LOST: usize = COLUMNS + 4;
    pub(super) const CLAIMED_AT: usize = COLUMNS + 5;
    pub(super) const SEQ: usize = COLUMNS + 6;
    pub(super) const CLAIMED_WAITING: usize = COLUMNS + 7;
    /// Of a run.
    pub(super) const PLACE: usize = COLUMNS + 9;
}

/// Rows that a claim holds, oldest due first. A row that is no event still has to be claimed, so that it
/// can be settled; and whatever stands in it, the others go on.
pub(crate) fn claimed(rows: Vec<Row>) -> Result<Vec<Claimed>, StoreError> {
    all(rows, |row| Holding::Row(Token::new(or_earliest(row, column::TOKEN))))
}

/// The same of rows that a transaction has locked.
pub(crate) fn locked(rows: Vec<Row>) -> Result<Vec<Claimed>, StoreError> {
    all(rows, |_| Holding::Lock)
}

/// A row in line whose key is held, and whether its last holder was lost, which is counted.
pub(crate) fn of_run(row: Row, token: KeyToken, lost: bool) -> Result<Claimed, StoreError> {
    Ok(Claimed { lost, ..one(row, Holding::Key(token))? })
}

/// The place of a row's key in the list that `runs` was given, from 1.
pub(crate) fn place(row: &Row) -> Result<usize, StoreError> {
    let place = integer(row, column::PLACE)?;
    usize::try_from(place).map_err(|_| unreadable(column::PLACE))
}

fn all(rows: Vec<Row>, by: impl Fn(&Row) -> Holding) -> Result<Vec<Claimed>, StoreError> {
    let taken = rows.into_iter().map(|row| {
        let by = by(&row);
        one(row, by)
    });
    let mut taken = taken.collect::<Result<Vec<_>, _>>()?;
    // The server gives them in their order; nothing promises that it does.
    taken.sort_by_key(|row| row.was_due);
    Ok(taken)
}

/// A date of zeros, say, is the earliest. What is to be written back must be a time.
fn or_earliest(row: &Row, column: usize) -> Timestamp {
    time(row, column).unwrap_or(EARLIEST)
}

fn one(mut row: Row, by: Holding) -> Result<Claimed, StoreError> {
    let lost = integer(&row, column::LOST)? != 0;
    let attempts = count(&row, column::ATTEMPTS)?;
    let or_earliest = |column| or_earliest(&row, column);
    // A claim has written the loss into the row, or the taking of its key; a lock has written nothing.
    let uncounted = match by {
        Holding::Row(_) | Holding::Key(_) => false,
        Holding::Lock => lost,
    };
    Ok(Claimed {
        id: id(&row, EVENT_ID.at)?,
        by,
        attempts: attempts.saturating_add(u32::from(uncounted)),
        was_due: or_earliest(column::DUE_AT),
        lost,
        created_at: or_earliest(column::CREATED_AT),
        claimed_at: time(&row, column::CLAIMED_AT)?,
        waiting: waiting(&row, column::CLAIMED_WAITING),
        event: event::decoded(&mut Taken(&mut row)),
    })
}

/// A time, if there is one that makes sense.
fn maybe_time(row: &Row, column: usize) -> Option<Timestamp> {
    maybe(row, column).and_then(|_| time(row, column).ok())
}

/// Since when it waits, in this column and the next.
fn waiting(row: &Row, first: usize) -> Waiting {
    Waiting { for_target: maybe_time(row, first), for_handler: maybe_time(row, first + 1) }
}

/// What identifies a row beside its id, where a table in partitions may have the id twice.
pub(crate) fn seq(row: &Row) -> Result<i64, StoreError> {
    integer(row, column::SEQ)
}

/// The bytes of a row's type, whether or not they are text.
pub(crate) fn event_type(row: &Row) -> &[u8] {
    maybe(row, EVENT_TYPE.at).unwrap_or_default()
}

/// The bytes of a row's key, if it has one.
pub(crate) fn ordering_key(row: &Row) -> Option<&[u8]> {
    maybe(row, ORDERING_KEY.at)
}

pub(crate) fn standing(mut row: Row) -> Result<Standing, StoreError> {
    let event = event::decoded(&mut Taken(&mut row))?;
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
        done_at: maybe_time(&row, column::DONE_AT),
        last_error: maybe_text(column::LAST_ERROR)?,
        locked_by: maybe_text(column::LOCKED_BY)?,
        waiting: waiting(&row, column::WAITING),
        delayed_until: maybe_time(&row, column::DELAYED_UNTIL),
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

/// The columns of a row, whose bytes are taken out.
pub(crate) struct Taken<'r>(pub(crate) &'r mut Row);

impl Cells for Taken<'_> {
    fn integer(&mut self, column: Column) -> Result<Option<i64>, Undecodable> {
        present(self.0, column)
            .then(|| integer(self.0, column.at))
            .transpose()
            .map_err(|_| column.absent())
    }

    fn id(&mut self, column: Column) -> Result<Option<EventId>, Undecodable> {
        present(self.0, column)
            .then(|| id(self.0, column.at))
            .transpose()
            .map_err(|_| column.absent())
    }

    fn time(&mut self, column: Column) -> Result<Option<Timestamp>, Undecodable> {
        present(self.0, column)
            .then(|| time(self.0, column.at))
            .transpose()
            .map_err(|_| column.absent())
    }

    fn text(&mut self, column: Column) -> Result<Option<String>, Undecodable> {
        let Some(Value::Bytes(bytes)) = self.0.take(column.at) else { return Ok(None) };
        // Not the error itself, which carries the bytes.
        let text = String::from_utf8(bytes).map_err(|error| error.utf8_error());
        text.map(Some).map_err(|error| column.undecodable(error))
    }

    fn bytes(&mut self, column: Column) -> Result<Option<Bytes>, Undecodable> {
        match self.0.take(column.at) {
            Some(Value::Bytes(bytes)) => Ok(Some(Bytes::from(bytes))),
            _ => Ok(None),
        }
    }
}

fn present(row: &Row, column: Column) -> bool {
    !matches!(row.as_ref(column.at), None | Some(Value::NULL))
}
