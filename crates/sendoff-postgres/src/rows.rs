//! Rows on their way out.

use bytes::Bytes;
use sendoff_core::journal::{Tag, Tags};
use sendoff_core::order::KeyToken;
use sendoff_core::{Event, EventId, Holding, Status, Timestamp, Token, Undecodable};
use sendoff_engine::store::frame::event::{self, EVENT_ID};
use sendoff_engine::store::frame::{Cells, Column};
use sendoff_engine::store::{Claimed, Row as Standing, StoreError, Waiting};
use tokio_postgres::Row;
use tokio_postgres::types::FromSql;

use crate::error::failed;
use crate::wire::{At, Id, Integer, Json, Payload};

/// Columns of `claim`, `claim_suspects`, `lock` and `find`, after those of the event. By number: a name
/// is looked up for every row.
mod column {
    use sendoff_engine::store::frame::event::COLUMNS;
    pub(super) use sendoff_engine::store::frame::event::after::*;

    /// Of a claim or a lock.
    pub(super) const SEQ: usize = COLUMNS + 3;
    pub(super) const WAS_DUE: usize = COLUMNS + 4;
    pub(super) const LOST: usize = COLUMNS + 5;
    pub(super) const CLAIMED_AT: usize = COLUMNS + 6;
    pub(super) const CLAIMED_WAITING: usize = COLUMNS + 7;
}

/// Columns of `runs` after those of a claim: of which key, and whether it is of its run.
pub(crate) const RUN: usize = column::CLAIMED_WAITING + 2;

/// A claimed row, and its place among the others.
pub(crate) struct Placed {
    pub(crate) place: (Timestamp, i64),
    pub(crate) claimed: Claimed,
}

/// A row that a claim holds. One that is no event still has to be claimed, so that it can be settled.
pub(crate) fn claimed(row: &Row) -> Result<Placed, StoreError> {
    taken(row, Holding::Row(Token::new(time(row, column::DUE_AT)?)))
}

/// A row that a transaction has locked.
pub(crate) fn locked(row: &Row) -> Result<Claimed, StoreError> {
    taken(row, Holding::Lock).map(|placed| placed.claimed)
}

/// A row in line, whose key is held.
pub(crate) fn in_line(row: &Row, token: KeyToken, lost: bool) -> Result<Claimed, StoreError> {
    taken(row, Holding::Key(token)).map(|placed| Claimed { lost, ..placed.claimed })
}

fn taken(row: &Row, by: Holding) -> Result<Placed, StoreError> {
    let Id(id) = get(row, EVENT_ID.at)?;
    let was_due = time(row, column::WAS_DUE)?;
    let claimed = Claimed {
        id,
        by,
        attempts: attempts(row)?,
        was_due,
        lost: get(row, column::LOST)?,
        created_at: time(row, column::CREATED_AT)?,
        claimed_at: time(row, column::CLAIMED_AT)?,
        waiting: waiting(row, column::CLAIMED_WAITING)?,
        event: event(row),
    };
    Ok(Placed { place: (was_due, get(row, column::SEQ)?), claimed })
}

pub(crate) fn standing(row: &Row) -> Result<Standing, StoreError> {
    let code: i16 = get(row, column::STATUS)?;
    Ok(Standing {
        event: event(row)?,
        status: Status::try_from(i64::from(code))
            .map_err(|unknown| StoreError::Refused(unknown.into()))?,
        attempts: attempts(row)?,
        losses: u32::try_from(get::<i16>(row, column::LOSSES)?).unwrap_or(0),
        due_at: time(row, column::DUE_AT)?,
        created_at: time(row, column::CREATED_AT)?,
        done_at: maybe_time(row, column::DONE_AT)?,
        last_error: get(row, column::LAST_ERROR)?,
        locked_by: get(row, column::LOCKED_BY)?,
        waiting: waiting(row, column::WAITING)?,
        delayed_until: maybe_time(row, column::DELAYED_UNTIL)?,
    })
}

pub(crate) fn get<'r, T: FromSql<'r>>(row: &'r Row, column: usize) -> Result<T, StoreError> {
    row.try_get(column).map_err(failed)
}

pub(crate) fn time(row: &Row, column: usize) -> Result<Timestamp, StoreError> {
    get(row, column).map(|At(time)| time)
}

fn maybe_time(row: &Row, column: usize) -> Result<Option<Timestamp>, StoreError> {
    Ok(get::<Option<At>>(row, column)?.map(|At(time)| time))
}

/// Since when it waits, in this column and the next.
fn waiting(row: &Row, first: usize) -> Result<Waiting, StoreError> {
    let (for_target, for_handler) = (maybe_time(row, first)?, maybe_time(row, first + 1)?);
    Ok(Waiting { for_target, for_handler })
}

fn attempts(row: &Row) -> Result<u32, StoreError> {
    get::<i32>(row, column::ATTEMPTS).map(|stored| u32::try_from(stored).unwrap_or(0))
}

fn event(row: &Row) -> Result<Event, Undecodable> {
    event::decoded(&mut all(row))
}

/// The columns of a row from this one on.
#[derive(Clone, Copy)]
pub(crate) struct ColumnsFrom<'r> {
    pub(crate) row: &'r Row,
    pub(crate) first: usize,
}

/// Every column of a row.
pub(crate) const fn all(row: &Row) -> ColumnsFrom<'_> {
    ColumnsFrom { row, first: 0 }
}

impl<'r> ColumnsFrom<'r> {
    fn get<T: FromSql<'r>>(self, column: Column) -> Result<Option<T>, Undecodable> {
        let found = self.row.try_get(self.first + column.at);
        found.map_err(|error| column.undecodable(error))
    }
}

impl Cells for ColumnsFrom<'_> {
    fn integer(&mut self, column: Column) -> Result<Option<i64>, Undecodable> {
        Ok(self.get(column)?.map(|Integer(number)| number))
    }

    fn id(&mut self, column: Column) -> Result<Option<EventId>, Undecodable> {
        Ok(self.get(column)?.map(|Id(id)| id))
    }

    fn time(&mut self, column: Column) -> Result<Option<Timestamp>, Undecodable> {
        Ok(self.get(column)?.map(|At(time)| time))
    }

    fn moment(&mut self, column: Column) -> Result<Option<Timestamp>, Undecodable> {
        let time: Option<At> = self.get(column)?;
        Ok(time.filter(|time| time.is_finite()).map(|At(time)| time))
    }

    fn text(&mut self, column: Column) -> Result<Option<String>, Undecodable> {
        self.get(column)
    }

    fn json(&mut self, column: Column) -> Result<Option<String>, Undecodable> {
        Ok(self.get(column)?.map(|Json(text)| text))
    }

    fn bytes(&mut self, column: Column) -> Result<Option<Bytes>, Undecodable> {
        Ok(self.get(column)?.map(|Payload(bytes)| Bytes::copy_from_slice(bytes)))
    }

    fn tags(&mut self, column: Column) -> Result<Tags, Undecodable> {
        let texts: Vec<&str> = self.get(column)?.ok_or(column.absent())?;
        let tags = texts.into_iter().map(str::parse).collect::<Result<Vec<Tag>, _>>();
        tags.and_then(Tags::new).map_err(|invalid| column.undecodable(invalid))
    }
}
