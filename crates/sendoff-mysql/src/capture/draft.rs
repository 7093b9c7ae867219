//! Rows about to be inserted, as the texts that insert them.

use std::time::Duration;

use sendoff_core::{EventId, Timestamp, Token, limits};
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Birth, Born, NewRow};

use crate::error::{code, explained};
use crate::store::MysqlStore;
use crate::wire::{Literal, is_storable};

/// Bytes of payload and headers in one statement, of which each makes two digits. Servers refuse a
/// packet of more than 4 MiB, 16 MiB or 64 MiB, as they are set.
const BYTES_PER_STATEMENT: usize = 3 * 512 * 1024;

/// The rows of one statement.
#[derive(Default)]
pub(super) struct Draft {
    rows: Vec<[Literal; 14]>,
    ids: Vec<EventId>,
    /// Of each row: how long it is held, if it is.
    held: Vec<Option<Duration>>,
    bytes: usize,
}

impl Draft {
    /// Statements for these rows, in order; at least one row in each. What a DATETIME could not keep is
    /// refused here, before any SQL.
    pub(super) fn all(rows: &[NewRow]) -> Result<Vec<Self>, WriteError> {
        let mut drafts: Vec<Self> = Vec::new();
        for row in rows {
            let headers = row.event.headers().to_json();
            let bytes = row.event.payload().len() + headers.as_ref().map_or(0, String::len);
            if !drafts.last().is_some_and(|draft| draft.has_room_for(bytes)) {
                drafts.push(Self::default());
            }
            if let Some(draft) = drafts.last_mut() {
                draft.bytes += bytes;
                draft.push(row, headers.as_deref())?;
            }
        }
        Ok(drafts)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.rows.len() < limits::BATCH_ROWS && self.bytes + bytes <= BYTES_PER_STATEMENT
    }

    fn push(&mut self, row: &NewRow, headers: Option<&str>) -> Result<(), WriteError> {
        let event = &row.event;
        if !is_storable(event.occurred_at()) {
            return Err(WriteError::Driver(Box::new(OutsideTheCalendar)));
        }
        let (after, locked_by, held) = match &row.birth {
            Birth::Due => (event.delay(), None, None),
            Birth::Held { owner, grace } => (*grace, Some(&**owner), Some(*grace)),
        };
        self.ids.push(event.id());
        self.held.push(held.map(|grace| grace.min(limits::DELAY)));
        self.rows.push([
            Literal::id(event.id()),
            Literal::text(event.event_type()),
            Literal::text(event.aggregate_type()),
            Literal::maybe_text(event.aggregate_id()),
            Literal::maybe_text(event.tenant_id()),
            Literal::maybe_text(event.ordering_key()),
            Literal::number(event.shard()),
            Literal::text(event.content_type()),
            Literal::time(event.occurred_at()),
            Literal::after_insert(after.min(limits::DELAY)),
            Literal::after_insert(Duration::ZERO),
            Literal::maybe_text(locked_by),
            Literal::maybe_text(headers),
            Literal::bytes(event.payload()),
        ]);
        Ok(())
    }

    /// The insert itself.
    fn text(&self, store: &MysqlStore) -> String {
        let rows = Literal::rows(self.rows.iter().map(<[Literal; 14]>::as_slice));
        let insert = store.sql().insert.with(&[("rows", &rows)]);
        if !store.is_partitioned() {
            return insert;
        }
        let ids = Literal::ids(self.ids.iter().copied());
        format!("{};\n{insert}", store.sql().no_duplicates.with(&[("ids", &ids)]))
    }

    /// What the database made of each row, from the microseconds that `inserted` says.
    pub(super) fn born(&self, at: i64) -> impl Iterator<Item = Born> {
        let created_at = Timestamp::from_micros(at);
        self.held.iter().map(move |held| Born {
            created_at,
            token: held.map(|grace| Token::new(created_at.saturating_add(grace))),
        })
    }
}

/// How a transaction is known to be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// Some transaction is.
    Open,
    /// The very one that the guard began, which set a savepoint then.
    Begun,
}

/// The texts that insert these drafts, each to be sent after the one before was answered. All or none:
/// an error leaves nothing behind where there is one text, and [`undo`] must be sent where there are
/// more, since a statement's error does not end the transaction here.
pub(super) fn insert_texts(store: &MysqlStore, proof: Proof, drafts: &[Draft]) -> Vec<String> {
    let sql = store.sql();
    let proof = match proof {
        Proof::Open => sql.in_transaction.text(),
        Proof::Begun => sql.still_begun.text(),
    };
    let last = drafts.len().saturating_sub(1);
    let texts = drafts.iter().enumerate().map(|(at, draft)| {
        let mut text = String::new();
        if at == 0 {
            text.push_str(proof);
            text.push_str(";\n");
            if last > 0 {
                text.push_str("savepoint sendoff_write;\n");
            }
        }
        text.push_str(&draft.text(store));
        text
    });
    texts.collect()
}

/// Undoes the texts that were carried out before one that failed.
pub(super) const UNDO: &str = "rollback to savepoint sendoff_write";

#[derive(Debug, thiserror::Error)]
#[error("occurred_at lies outside the years 1000 to 9999, which are all that a DATETIME keeps")]
struct OutsideTheCalendar;

/// What it means that the server refused an insert with this number.
pub(super) fn refused(
    number: Option<u16>,
    is_our_key: bool,
    source: sendoff_core::BoxError,
) -> WriteError {
    match number {
        Some(code::DOES_NOT_EXIST) => WriteError::NoTransaction,
        Some(code::MORE_THAN_ONE_ROW) => WriteError::DuplicateId,
        Some(code::DUPLICATE_ENTRY) if is_our_key => WriteError::DuplicateId,
        Some(CHECK_MYSQL | CHECK_MARIADB | NOT_UTF8) => {
            WriteError::Driver(Box::new(NotJson(source)))
        }
        number => WriteError::Driver(explained(number, source)),
    }
}

const CHECK_MYSQL: u16 = 3819;
const CHECK_MARIADB: u16 = 4025;
/// MariaDB, of bytes that are no text and so no JSON.
const NOT_UTF8: u16 = 1300;

#[derive(Debug, thiserror::Error)]
#[error("the table refused the row: where it takes JSON only, a payload must be JSON")]
struct NotJson(#[source] sendoff_core::BoxError);

/// Whether the message of a duplicate names our primary key: the transaction may trip over unique
/// indexes of its own. The one place where a text is read, because nothing else says which key it was.
pub(super) fn names_our_key(store: &MysqlStore, message: &str) -> bool {
    message.ends_with("key 'PRIMARY'")
        || message.ends_with(&format!("key '{}.PRIMARY'", store.names().plain("outbox_event")))
}

#[cfg(test)]
mod tests {
    use sendoff_core::Event;

    use super::*;

    fn row(bytes: usize) -> NewRow {
        let event = Event::builder("t").bytes(vec![0; bytes]).build().unwrap();
        NewRow { event, birth: Birth::Due }
    }

    /// Holds W5.
    #[test]
    fn statements_are_limited_in_rows_and_in_bytes() {
        let sizes = |rows: &[NewRow]| -> Vec<usize> {
            Draft::all(rows).unwrap().iter().map(|draft| draft.rows.len()).collect()
        };
        assert!(sizes(&[]).is_empty());
        let small: Vec<_> = (0..=limits::BATCH_ROWS).map(|_| row(1)).collect();
        assert_eq!(sizes(&small), [limits::BATCH_ROWS, 1]);
        let large: Vec<_> = (0..3).map(|_| row(limits::PAYLOAD_BYTES)).collect();
        assert_eq!(sizes(&large), [1, 1, 1]);
    }

    #[test]
    fn a_time_outside_the_calendar_is_refused_before_any_sql() {
        let at = |micros| {
            let time = Timestamp::from_micros(micros);
            let event = Event::builder("t").occurred_at(time).json(&1).build().unwrap();
            Draft::all(&[NewRow { event, birth: Birth::Due }]).is_ok()
        };
        assert!(at(-30_610_224_000_000_000) && at(253_402_300_799_999_999));
        assert!(!at(-30_610_224_000_000_001) && !at(253_402_300_800_000_000) && !at(i64::MIN));
    }
}
