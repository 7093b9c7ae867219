//! Rows about to be inserted, as the arrays that the statement takes.

use std::time::Duration;

use sendoff_core::limits;
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Birth, NewRow};

use crate::wire::{At, Id, Json, Payload, Span};

/// Payload bytes in one statement. The server refuses a message of a gigabyte.
const BYTES_PER_STATEMENT: usize = 8 * 1024 * 1024;

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
    /// Whether a relay elsewhere has work at once. Held rows are the writer's own, and a delay is
    /// nobody's yet.
    pub(super) ring: bool,
    bytes: usize,
}

impl<'a> Draft<'a> {
    /// Statements for these rows, in order; at least one row in each. What PostgreSQL could not keep
    /// is refused here, before any SQL: a refusal by the server would abort the transaction.
    pub(super) fn all(rows: &'a [NewRow]) -> Result<Vec<Self>, WriteError> {
        let mut drafts: Vec<Self> = Vec::new();
        for row in rows {
            let bytes = row.event.payload().len();
            match drafts.last_mut() {
                Some(draft) if draft.has_room_for(bytes) => draft.push(row)?,
                _ => {
                    let mut draft = Self::default();
                    draft.push(row)?;
                    drafts.push(draft);
                }
            }
        }
        Ok(drafts)
    }

    pub(super) fn len(&self) -> usize {
        self.ids.len()
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.len() < limits::BATCH_ROWS && self.bytes + bytes <= BYTES_PER_STATEMENT
    }

    fn push(&mut self, row: &'a NewRow) -> Result<(), WriteError> {
        let event = &row.event;
        let occurred_at = At(event.occurred_at());
        if !occurred_at.is_storable() {
            return Err(WriteError::Driver(Box::new(TooLongAgo)));
        }
        let (after, locked_by) = match &row.birth {
            Birth::Due => (event.delay(), None),
            Birth::Held { owner, grace } => (*grace, Some(&**owner)),
        };
        self.ring |= locked_by.is_none() && after == Duration::ZERO;
        self.bytes += event.payload().len();
        self.ids.push(Id(event.id()));
        self.event_types.push(event.event_type());
        self.aggregate_types.push(event.aggregate_type());
        self.aggregate_ids.push(event.aggregate_id());
        self.tenant_ids.push(event.tenant_id());
        self.ordering_keys.push(event.ordering_key());
        self.shards.push(i16::from(event.shard()));
        self.content_types.push(event.content_type());
        self.occurred_at.push(occurred_at);
        self.after.push(Span(after.min(limits::DELAY)));
        self.locked_by.push(locked_by);
        self.headers.push(event.headers().to_json().map(Json));
        self.payloads.push(Payload(event.payload()));
        Ok(())
    }
}

#[derive(Debug, thiserror::Error)]
#[error("occurred_at lies before 4713 BC, where PostgreSQL's calendar begins")]
struct TooLongAgo;

#[cfg(test)]
mod tests {
    use sendoff_core::{Event, Timestamp};

    use super::*;

    fn row(bytes: usize) -> NewRow {
        let event = Event::builder("t").bytes(vec![0; bytes]).build().unwrap();
        NewRow { event, birth: Birth::Due }
    }

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
