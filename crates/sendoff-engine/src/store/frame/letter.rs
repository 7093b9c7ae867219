//! Dead letters, events as they stand, and what operators did. Every statement that reads them has their
//! columns in this order.
//!
//! What cannot be read is shown as such: one bad value must not keep an operator from seeing its row, or
//! the rows beside it.

use sendoff_core::order::is_in_line;
use sendoff_core::{AuditAction, EventId, Letter, Status, Timestamp, Undecodable};

use super::row::{Cells, Column};
use crate::store::{AuditEntry, EventRecord, StoreError};

/// Of a letter and of a record.
const EVENT_ID: Column = Column::new(0, "event_id");
const SEQ: Column = Column::new(1, "seq");
const EVENT_TYPE: Column = Column::new(2, "event_type");
const AGGREGATE_TYPE: Column = Column::new(3, "aggregate_type");
const AGGREGATE_ID: Column = Column::new(4, "aggregate_id");
const TENANT_ID: Column = Column::new(5, "tenant_id");
const ATTEMPTS: Column = Column::new(6, "attempts");
const CREATED_AT: Column = Column::new(7, "created_at");
const DONE_AT: Column = Column::new(8, "done_at");
const LAST_ERROR: Column = Column::new(9, "last_error");
/// Of a record.
const ORDERING_KEY: Column = Column::new(10, "ordering_key");
const SHARD: Column = Column::new(11, "shard");
const CONTENT_TYPE: Column = Column::new(12, "content_type");
const HEADERS: Column = Column::new(13, "headers");
const STATUS: Column = Column::new(14, "status");
const LOSSES: Column = Column::new(15, "losses");
const OCCURRED_AT: Column = Column::new(16, "occurred_at");
const DUE_AT: Column = Column::new(17, "due_at");
const UNAVAILABLE_SINCE: Column = Column::new(18, "unavailable_since");
const UNROUTABLE_SINCE: Column = Column::new(19, "unroutable_since");
const DELAYED_UNTIL: Column = Column::new(20, "delayed_until");
const LOCKED_BY: Column = Column::new(21, "locked_by");
const PAYLOAD_BYTES: Column = Column::new(22, "payload_bytes");
const PAYLOAD: Column = Column::new(23, "payload");

/// The dead letter of a row.
pub fn letter(row: &mut impl Cells) -> Result<Letter, Undecodable> {
    Ok(Letter {
        id: id(row)?,
        seq: row.integer(SEQ)?.ok_or(SEQ.absent())?,
        event_type: shown(row, EVENT_TYPE).unwrap_or_default(),
        aggregate_type: shown(row, AGGREGATE_TYPE).unwrap_or_default(),
        aggregate_id: shown(row, AGGREGATE_ID),
        tenant_id: shown(row, TENANT_ID),
        attempts: row.count(ATTEMPTS)?,
        created_at: time(row, CREATED_AT).unwrap_or(UNREADABLE_TIME),
        died_at: time(row, DONE_AT).unwrap_or(UNREADABLE_TIME),
        last_error: shown(row, LAST_ERROR),
    })
}

/// The dead letters of rows, in their order.
pub fn letters<R: Cells>(rows: impl IntoIterator<Item = R>) -> Result<Vec<Letter>, StoreError> {
    let letters = rows.into_iter().map(|mut row| letter(&mut row));
    Ok(letters.collect::<Result<_, _>>()?)
}

/// How many letters there are, of the row that says it.
pub fn counted<R: Cells>(row: Option<R>) -> Result<u64, StoreError> {
    const COUNT: Column = Column::new(0, "count");
    let count = row.map_or(Ok(None), |mut row| row.integer(COUNT))?;
    Ok(count.and_then(|count| u64::try_from(count).ok()).unwrap_or(0))
}

/// The event of a row, as it stands.
pub fn record(row: &mut impl Cells) -> Result<EventRecord, Undecodable> {
    let code = row.integer(STATUS)?.ok_or(STATUS.absent())?;
    let bytes = row.integer(PAYLOAD_BYTES)?.ok_or(PAYLOAD_BYTES.absent())?;
    // The first columns of a record are those of a letter.
    let letter = letter(row)?;
    Ok(EventRecord {
        id: letter.id,
        seq: letter.seq,
        event_type: letter.event_type,
        aggregate_type: letter.aggregate_type,
        aggregate_id: letter.aggregate_id,
        tenant_id: letter.tenant_id,
        ordering_key: shown(row, ORDERING_KEY),
        shard: row.count(SHARD)?,
        content_type: shown(row, CONTENT_TYPE).unwrap_or_default(),
        headers: row.json(HEADERS).unwrap_or_else(|_| Some(UNREADABLE.to_owned())),
        status: Status::try_from(code).map_err(|unknown| STATUS.undecodable(unknown))?,
        attempts: letter.attempts,
        losses: row.count(LOSSES)?,
        occurred_at: time(row, OCCURRED_AT).unwrap_or(UNREADABLE_TIME),
        // A row in line is due at no time.
        due_at: time(row, DUE_AT).filter(|due_at| !is_in_line(*due_at)),
        created_at: letter.created_at,
        done_at: time(row, DONE_AT),
        unavailable_since: time(row, UNAVAILABLE_SINCE),
        unroutable_since: time(row, UNROUTABLE_SINCE),
        delayed_until: time(row, DELAYED_UNTIL),
        locked_by: shown(row, LOCKED_BY),
        last_error: letter.last_error,
        payload_bytes: u64::try_from(bytes).unwrap_or(0),
        payload: row.bytes(PAYLOAD)?,
    })
}

/// Of an entry of the audit.
mod audit {
    use super::Column;

    pub(super) const SEQ: Column = Column::new(0, "seq");
    pub(super) const AT: Column = Column::new(1, "at");
    pub(super) const ACTION: Column = Column::new(2, "action");
    pub(super) const ACTOR: Column = Column::new(3, "actor");
    pub(super) const REASON: Column = Column::new(4, "reason");
    pub(super) const EVENT_ID: Column = Column::new(5, "event_id");
    pub(super) const EVENT_TYPE: Column = Column::new(6, "event_type");
    pub(super) const ATTEMPTS: Column = Column::new(7, "attempts");
    pub(super) const LAST_ERROR: Column = Column::new(8, "last_error");
    pub(super) const SUBJECT: Column = Column::new(9, "subject");
}

/// What an operator did, of a row.
pub fn entry(row: &mut impl Cells) -> Result<AuditEntry, Undecodable> {
    let action = row.text(audit::ACTION)?.ok_or(audit::ACTION.absent())?;
    let attempts = row.integer(audit::ATTEMPTS)?;
    Ok(AuditEntry {
        seq: row.integer(audit::SEQ)?.ok_or(audit::SEQ.absent())?,
        at: time(row, audit::AT).unwrap_or(UNREADABLE_TIME),
        action: action
            .parse::<AuditAction>()
            .map_err(|unknown| audit::ACTION.undecodable(unknown))?,
        actor: shown(row, audit::ACTOR).unwrap_or_default(),
        reason: shown(row, audit::REASON).unwrap_or_default(),
        event: row.id(audit::EVENT_ID)?,
        event_type: shown(row, audit::EVENT_TYPE),
        attempts: attempts.map(|count| u32::try_from(count.max(0)).unwrap_or(u32::MAX)),
        last_error: shown(row, audit::LAST_ERROR),
        subject: shown(row, audit::SUBJECT),
    })
}

/// What operators did, of rows, in their order.
pub fn entries<R: Cells>(rows: impl IntoIterator<Item = R>) -> Result<Vec<AuditEntry>, StoreError> {
    let entries = rows.into_iter().map(|mut row| entry(&mut row));
    Ok(entries.collect::<Result<_, _>>()?)
}

/// In the place of text that cannot be read.
const UNREADABLE: &str = "\u{fffd}";
/// In the place of a time that cannot be read.
pub(super) const UNREADABLE_TIME: Timestamp = Timestamp::from_micros(i64::MIN);

fn id(row: &mut impl Cells) -> Result<EventId, Undecodable> {
    row.id(EVENT_ID)?.ok_or(EVENT_ID.absent())
}

pub(super) fn shown(row: &mut impl Cells, column: Column) -> Option<String> {
    row.text(column).unwrap_or_else(|_| Some(UNREADABLE.to_owned()))
}

pub(super) fn time(row: &mut impl Cells, column: Column) -> Option<Timestamp> {
    row.time(column).unwrap_or(Some(UNREADABLE_TIME))
}
