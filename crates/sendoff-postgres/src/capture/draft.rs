//! Rows about to be inserted, as the arrays that the statement takes.

use std::time::Duration;

#[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
use sendoff_core::GLOBAL_AGGREGATE;
use sendoff_core::limits;
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Birth, NewRow};

use crate::wire::{At, Id, Json, Payload, Span};

/// Payload bytes in one statement. The server refuses a message of a gigabyte.
const BYTES_PER_STATEMENT: usize = 8 * 1024 * 1024;

/// One row, checked: what PostgreSQL could not keep is refused before any SQL, because a refusal by
/// the server would abort the transaction.
pub(super) struct Line<'a> {
    pub(super) id: Id,
    pub(super) event_type: &'a str,
    pub(super) aggregate_type: &'a str,
    pub(super) aggregate_id: Option<&'a str>,
    pub(super) tenant_id: Option<&'a str>,
    pub(super) ordering_key: Option<&'a str>,
    pub(super) shard: i16,
    pub(super) content_type: &'a str,
    pub(super) occurred_at: At,
    pub(super) after: Span,
    pub(super) locked_by: Option<&'a str>,
    pub(super) headers: Option<Json>,
    pub(super) payload: Payload<'a>,
}

impl<'a> Line<'a> {
    pub(super) fn new(row: &'a NewRow) -> Result<Self, WriteError> {
        let event = &row.event;
        let occurred_at = At(event.occurred_at());
        if !occurred_at.is_storable() {
            return Err(WriteError::Driver(Box::new(TooLongAgo)));
        }
        let (after, locked_by) = match &row.birth {
            Birth::Due => (event.delay(), None),
            Birth::Held { owner, grace } => (*grace, Some(&**owner)),
        };
        Ok(Self {
            id: Id(event.id()),
            event_type: event.event_type(),
            aggregate_type: event.aggregate_type(),
            aggregate_id: event.aggregate_id(),
            tenant_id: event.tenant_id(),
            ordering_key: event.ordering_key(),
            shard: i16::from(event.shard()),
            content_type: event.content_type(),
            occurred_at,
            after: Span(after.min(limits::DELAY)),
            locked_by,
            headers: event.headers().to_json().map(Json),
            payload: Payload(event.payload()),
        })
    }

    /// Whether a relay elsewhere has work at once. Held rows are the writer's own, and a delay is
    /// nobody's yet.
    pub(super) fn is_due_at_once(&self) -> bool {
        self.locked_by.is_none() && self.after.0 == Duration::ZERO
    }
}

/// The rows of one statement, column by column.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) ids: Vec<Id>,
    pub(super) event_types: Vec<&'a str>,
    pub(super) aggregate_types: Vec<&'a str>,
    pub(super) aggregate_ids: Vec<Option<&'a str>>,
    pub(super) tenant_ids: Vec<Option<&'a str>>,
    pub(super) ordering_keys: Vec<Option<&'a str>>,
    pub(super) shards: Vec<i16>,
    pub(super) content_types: Vec<&'a str>,
    pub(super) occurred_at: Vec<At>,
    pub(super) after: Vec<Span>,
    pub(super) locked_by: Vec<Option<&'a str>>,
    pub(super) headers: Vec<Option<Json>>,
    pub(super) payloads: Vec<Payload<'a>>,
    /// Whether one of them is due at once.
    pub(super) ring: bool,
    bytes: usize,
}

impl<'a> Draft<'a> {
    /// Statements for these rows, in order; at least one row in each.
    pub(super) fn all(rows: &'a [NewRow]) -> Result<Vec<Self>, WriteError> {
        let mut drafts: Vec<Self> = Vec::new();
        for row in rows {
            let line = Line::new(row)?;
            match drafts.last_mut() {
                Some(draft) if draft.has_room_for(line.payload.0.len()) => draft.push(line),
                _ => {
                    let mut draft = Self::default();
                    draft.push(line);
                    drafts.push(draft);
                }
            }
        }
        Ok(drafts)
    }

    /// One statement for all rows, for a transaction that somebody else ends: a future dropped between
    /// two would leave the first of them in it. None where there are no rows.
    pub(super) fn whole(rows: &'a [NewRow]) -> Result<Option<Self>, WriteError> {
        let mut draft = Self::default();
        for row in rows {
            draft.push(Line::new(row)?);
        }
        Ok(Some(draft).filter(|draft| draft.len() > 0))
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    /// Whether its first event says nothing but what every event does, delay and hold aside.
    #[cfg(any(feature = "diesel-async", feature = "sea-orm", feature = "_sqlx"))]
    pub(super) fn begins_plain(&self) -> bool {
        self.aggregate_types[0] == GLOBAL_AGGREGATE
            && self.aggregate_ids[0].is_none()
            && self.tenant_ids[0].is_none()
            && self.ordering_keys[0].is_none()
            && self.headers[0].is_none()
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.len() < limits::BATCH_ROWS && self.bytes + bytes <= BYTES_PER_STATEMENT
    }

    fn push(&mut self, line: Line<'a>) {
        self.ring |= line.is_due_at_once();
        self.bytes += line.payload.0.len();
        self.ids.push(line.id);
        self.event_types.push(line.event_type);
        self.aggregate_types.push(line.aggregate_type);
        self.aggregate_ids.push(line.aggregate_id);
        self.tenant_ids.push(line.tenant_id);
        self.ordering_keys.push(line.ordering_key);
        self.shards.push(line.shard);
        self.content_types.push(line.content_type);
        self.occurred_at.push(line.occurred_at);
        self.after.push(line.after);
        self.locked_by.push(line.locked_by);
        self.headers.push(line.headers);
        self.payloads.push(line.payload);
    }
}

#[derive(Debug, thiserror::Error)]
#[error("occurred_at lies before 4713 BC, where PostgreSQL's calendar begins")]
struct TooLongAgo;

#[cfg(test)]
mod tests {
    use sendoff_core::{Event, Timestamp};

    use sendoff_testkit::steps::sized as row;

    use super::*;

    /// Holds W5.
    #[test]
    fn statements_are_limited_in_rows_and_in_bytes() {
        let sizes = |rows: &[NewRow]| -> Vec<usize> {
            Draft::all(rows).unwrap().iter().map(Draft::len).collect()
        };
        assert!(sizes(&[]).is_empty());
        let small: Vec<_> = (0..=limits::BATCH_ROWS).map(|_| row(1)).collect();
        assert_eq!(sizes(&small), [limits::BATCH_ROWS, 1]);
        let large: Vec<_> = (0..9).map(|_| row(limits::PAYLOAD_BYTES)).collect();
        assert_eq!(sizes(&large), [8, 1]);
    }

    #[test]
    fn only_what_is_due_at_once_rings() {
        let rings = |event: Event, birth| Draft::all(&[NewRow { event, birth }]).unwrap()[0].ring;
        let event = || Event::json_text("t", "1").unwrap();
        let late = Event::builder("t").delay(Duration::from_secs(1)).json(&1).build().unwrap();
        assert!(rings(event(), Birth::Due));
        assert!(!rings(late, Birth::Due));
        assert!(!rings(event(), Birth::Held { owner: "a".into(), grace: Duration::from_secs(1) }));
    }

    #[test]
    fn a_time_before_the_calendar_is_refused_before_any_sql() {
        let at = |micros| {
            let time = Timestamp::from_micros(micros);
            let event = Event::builder("t").occurred_at(time).json(&1).build().unwrap();
            Draft::all(&[NewRow { event, birth: Birth::Due }]).is_ok()
        };
        assert!(at(-210_866_803_200_000_000));
        assert!(!at(-210_866_803_200_000_001));
        assert!(!at(i64::MIN));
    }
}
