//! Cursors of pairs, and facts that one of them parked. Every statement that reads them has their
//! columns in this order.

use sendoff_core::Undecodable;
use sendoff_core::journal::Position;
use sendoff_core::journal::publish::{PairId, UnknownCursorStatus, WaitsAt};

use super::row::{Cells, Column};
use crate::journal::publish::{Cursor, Parked};

const TOPIC: Column = Column::new(0, "topic");
const PUBLISHER: Column = Column::new(1, "publisher");
const POSITION: Column = Column::new(2, "position");

/// Of a cursor.
const STATUS: Column = Column::new(3, "status");
const ERRORS: Column = Column::new(4, "errors");
const LAST_ERROR: Column = Column::new(5, "last_error");
const LEADER: Column = Column::new(6, "leader");
const EPOCH: Column = Column::new(7, "epoch");
const PUBLISHED_AT: Column = Column::new(8, "published_at");
const WAITS_AT: Column = Column::new(9, "waits_at");
const WAITS_SINCE: Column = Column::new(10, "waits_since");

/// Of a parked fact.
const ATTEMPTS: Column = Column::new(3, "attempts");
const PARKED_AT: Column = Column::new(4, "parked_at");
const NEXT_AT: Column = Column::new(5, "next_at");
const ERROR: Column = Column::new(6, "error");

/// The cursor of a row.
pub fn cursor(row: &mut impl Cells) -> Result<Cursor, Undecodable> {
    let status = row.text(STATUS)?.ok_or(STATUS.absent())?;
    Ok(Cursor {
        pair: pair(row)?,
        position: position(row, POSITION)?.ok_or(POSITION.absent())?,
        status: status
            .parse()
            .map_err(|unknown: UnknownCursorStatus| STATUS.undecodable(unknown))?,
        errors: row.count(ERRORS)?,
        last_error: row.text(LAST_ERROR)?,
        leader: row.text(LEADER)?,
        epoch: row.integer(EPOCH)?.ok_or(EPOCH.absent())?,
        published_at: row.time(PUBLISHED_AT)?,
        waits_at: position(row, WAITS_AT)?
            .zip(row.time(WAITS_SINCE)?)
            .map(|(position, since)| WaitsAt { position, since }),
    })
}

/// What is parked, of a row.
pub fn parked(row: &mut impl Cells) -> Result<Parked, Undecodable> {
    Ok(Parked {
        pair: pair(row)?,
        position: position(row, POSITION)?.ok_or(POSITION.absent())?,
        attempts: row.count(ATTEMPTS)?,
        parked_at: row.time(PARKED_AT)?.ok_or(PARKED_AT.absent())?,
        next_at: row.time(NEXT_AT)?,
        error: row.text(ERROR)?,
    })
}

/// The pair of a row that begins with it.
pub fn pair(row: &mut impl Cells) -> Result<PairId, Undecodable> {
    let topic = row.text(TOPIC)?.ok_or(TOPIC.absent())?;
    Ok(PairId::restore(topic, row.text(PUBLISHER)?.ok_or(PUBLISHER.absent())?))
}

fn position(row: &mut impl Cells, column: Column) -> Result<Option<Position>, Undecodable> {
    let number = row.integer(column)?.map(Position::try_from).transpose();
    number.map_err(|invalid| column.undecodable(invalid))
}
