//! Delivered events. Every statement that reads them has the event's columns, and these after them.

use sendoff_core::{ReplayPosition, Undecodable};

use super::event::{self, COLUMNS, EVENT_ID};
use super::row::{Cells, Column};
use crate::store::{DoneRow, ReplayPage, Replayable, StoreError};

const CREATED_AT: Column = Column::new(COLUMNS, "created_at");
const DONE_AT: Column = Column::new(COLUMNS + 1, "done_at");
const SEQ: Column = Column::new(COLUMNS + 2, "seq");
/// How many rows met the filter: more than are answered, if their bytes were too many.
const FOUND: Column = Column::new(COLUMNS + 3, "found");
/// Of a place alone.
const PLACE: [Column; 2] = [Column::new(0, "done_at"), Column::new(1, "seq")];

/// The delivered event of a row.
pub fn done(row: &mut impl Cells) -> Result<DoneRow, Undecodable> {
    Ok(DoneRow {
        id: row.id(EVENT_ID)?.ok_or(EVENT_ID.absent())?,
        position: position(row, [DONE_AT, SEQ])?,
        created_at: row.time(CREATED_AT)?.ok_or(CREATED_AT.absent())?,
        event: event::decoded(row),
    })
}

/// A page of the rows of a walk that ended at a place, or at the end of all.
pub fn page<R: Cells>(
    rows: impl IntoIterator<Item = R>,
    page: &ReplayPage<'_>,
    walked_to: Option<ReplayPosition>,
) -> Result<Replayable, StoreError> {
    let mut met = 0;
    let mut read = Vec::new();
    for mut row in rows {
        met = row.integer(FOUND)?.and_then(|met| usize::try_from(met).ok()).unwrap_or(0);
        read.push(done(&mut row)?);
    }
    Ok(Replayable::read(read, met, page, walked_to))
}

/// The place that a row is.
pub fn place(row: &mut impl Cells) -> Result<ReplayPosition, Undecodable> {
    position(row, PLACE)
}

fn position(
    row: &mut impl Cells,
    [done_at, seq]: [Column; 2],
) -> Result<ReplayPosition, Undecodable> {
    Ok(ReplayPosition {
        done_at: row.time(done_at)?.ok_or(done_at.absent())?,
        seq: row.integer(seq)?.ok_or(seq.absent())?,
    })
}
