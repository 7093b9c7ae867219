//! Facts on their way out.

use mysql_async::Row;
use sendoff_core::Undecodable;
use sendoff_core::journal::{Position, Recorded};
use sendoff_engine::journal::{Found, Page};
use sendoff_engine::store::StoreError;
use sendoff_engine::store::frame::fact;

use crate::rows::{Taken, integer, maybe};

/// Whether a row fits, after the columns of the fact.
const FITS: usize = fact::COLUMNS;

/// Whether the row fits into the page, or only says that there is more.
pub(super) fn fits(row: &Row) -> Result<bool, StoreError> {
    Ok(integer(row, FITS)? != 0)
}

/// Whether a row of `history` has all of its headers and its payload.
pub(super) fn is_whole(row: &Row, header_chars: usize, payload_bytes: usize) -> bool {
    let size = |column| maybe(row, column).map_or(0, <[u8]>::len);
    // Where there are fewer bytes there are fewer characters.
    size(fact::HEADERS.at) <= header_chars && size(fact::PAYLOAD.at) <= payload_bytes
}

/// What the rows of a page say.
pub(super) fn found(rows: Vec<Row>, page: Page) -> Result<Found, StoreError> {
    let mut found = Found { facts: Vec::new(), more: rows.len() >= page.limit, run: None };
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
    Ok(recorded(row)?)
}

/// The fact of a row, or which column is none.
pub(super) fn recorded(mut row: Row) -> Result<Recorded, Undecodable> {
    fact::recorded(&mut Taken(&mut row))
}

pub(super) fn position(row: &Row, column: usize) -> Result<Position, StoreError> {
    to_position(integer(row, column)?)
}

pub(super) fn to_position(number: i64) -> Result<Position, StoreError> {
    Position::try_from(number).map_err(|invalid| StoreError::Refused(invalid.into()))
}

/// Whether the number was taken and never became a fact.
pub(super) fn is_void(row: &Row) -> bool {
    maybe(row, fact::EVENT_ID.at).is_none()
}
