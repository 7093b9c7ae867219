//! Rows about to be inserted, as the texts that insert them.

use std::time::Duration;

use sendoff_core::{EventId, Timestamp, Token, limits};
use sendoff_engine::capture::WriteError;
use sendoff_engine::store::{Birth, Born, NewRow};

use crate::error::{code, explained};
use crate::store::MysqlStore;
use crate::wire::{Literal, is_storable};

/// Bytes of values in one statement, of which each makes two digits. Servers refuse a
/// packet of more than 4 MiB, 16 MiB or 64 MiB, as they are set.
const BYTES_PER_STATEMENT: usize = 3 * 512 * 1024;

/// The same of a write that must be one statement, whatever is in it. As digits it is below the 16 MiB that
/// MariaDB takes unless told otherwise; MySQL takes 64 MiB.
const BYTES_PER_WRITE: usize = 7 * 1024 * 1024;

/// What a row takes besides its texts: its id, its times, and what stands between values.
const BYTES_PER_ROW: usize = 128;

/// The rows of one statement.
#[derive(Default)]
pub(super) struct Draft<'a> {
    pub(super) rows: Vec<DraftRow<'a>>,
    bytes: usize,
}

/// A row, in the order of the statement's columns.
pub(super) struct DraftRow<'a> {
    pub(super) id: EventId,
    /// From event type to ordering key.
    pub(super) names: [Option<&'a str>; 5],
    pub(super) shard: u8,
    pub(super) content_type: &'a str,
    pub(super) occurred_at: Timestamp,
    /// None: it is in line.
    pub(super) after: Option<Duration>,
    pub(super) locked_by: Option<&'a str>,
    pub(super) headers: Option<String>,
    pub(super) payload: &'a [u8],
}

impl<'a> Draft<'a> {
    /// Statements for these rows, in order; at least one row in each. What a DATETIME could not keep is
    /// refused here, before any SQL.
    pub(super) fn all(rows: &'a [NewRow]) -> Result<Vec<Self>, WriteError> {
        let mut drafts: Vec<Self> = Vec::new();
        for row in rows {
            let row = DraftRow::new(row)?;
            let bytes = row.bytes();
            match drafts.last_mut() {
                Some(draft) if draft.has_room_for(bytes) => {
                    draft.bytes += bytes;
                    draft.rows.push(row);
                }
                _ => drafts.push(Self { rows: vec![row], bytes }),
            }
        }
        Ok(drafts)
    }

    /// One statement for all rows, for a transaction that somebody else ends: a future dropped between
    /// two would leave the first of them in it. Nothing where there are no rows.
    fn whole(rows: &'a [NewRow]) -> Result<Vec<Self>, WriteError> {
        if rows.len() > limits::WRITE_EVENTS {
            return Err(WriteError::TooMany { events: rows.len(), limit: limits::WRITE_EVENTS });
        }
        let mut draft = Self::default();
        for row in rows {
            let row = DraftRow::new(row)?;
            draft.bytes += row.bytes();
            draft.rows.push(row);
        }
        if draft.bytes > BYTES_PER_WRITE {
            return Err(WriteError::TooLarge { bytes: draft.bytes, limit: BYTES_PER_WRITE });
        }
        Ok(Some(draft).filter(|draft| !draft.rows.is_empty()).into_iter().collect())
    }

    /// The same for a store, which is not closed.
    pub(super) fn written(store: &MysqlStore, rows: &'a [NewRow]) -> Result<Vec<Self>, WriteError> {
        store.check_open().map_err(|_| WriteError::Closed)?;
        Self::whole(rows)
    }

    fn has_room_for(&self, bytes: usize) -> bool {
        self.rows.len() < limits::BATCH_ROWS && self.bytes + bytes <= BYTES_PER_STATEMENT
    }

    pub(super) fn ids(&self) -> Literal {
        Literal::ids(self.rows.iter().map(|row| row.id))
    }

    /// The insert with its values in it, for a driver that keeps what it sends to itself.
    pub(super) fn text(&self, store: &MysqlStore) -> String {
        self.tell_of_keys(store);
        let rows: Vec<_> = self.rows.iter().map(DraftRow::literals).collect();
        let rows = Literal::rows(rows.iter().map(<[Literal; COLUMNS]>::as_slice));
        store.sql().insert.with(&[("rows", &rows)])
    }

    /// The insert with a mark for each value, for a driver that may log its text.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(super) fn text_with_marks(&self, store: &MysqlStore) -> String {
        self.tell_of_keys(store);
        store.sql().insert.with(&[("rows", &Literal::marks(self.rows.len()))])
    }

    /// Whoever settles them looks for their keys.
    fn tell_of_keys(&self, store: &MysqlStore) {
        if self.rows.iter().any(|row| row.names.last().is_some_and(Option::is_some)) {
            store.has_keys().set();
        }
    }

    /// What the database made of each row, from the microseconds that `inserted` says.
    pub(super) fn born(&self, at: i64) -> impl Iterator<Item = Born> {
        let created_at = Timestamp::from_micros(at);
        self.rows.iter().map(move |row| Born {
            created_at,
            token: row
                .locked_by
                .and(row.after)
                .map(|after| Token::new(created_at.saturating_add(after))),
        })
    }
}

const COLUMNS: usize = 15;

impl<'a> DraftRow<'a> {
    /// What it adds to a statement.
    fn bytes(&self) -> usize {
        let texts = self.names.into_iter().chain([Some(self.content_type), self.locked_by]);
        let texts: usize = texts.flatten().map(str::len).sum();
        BYTES_PER_ROW + texts + self.headers.as_ref().map_or(0, String::len) + self.payload.len()
    }

    fn new(row: &'a NewRow) -> Result<Self, WriteError> {
        let event = &row.event;
        if !is_storable(event.occurred_at()) {
            return Err(WriteError::Driver(Box::new(OutsideTheCalendar)));
        }
        let (after, locked_by) = match &row.birth {
            Birth::Due if event.ordering_key().is_some() && event.delay().is_zero() => (None, None),
            Birth::Due => (Some(event.delay()), None),
            Birth::Held { owner, grace } => (Some(*grace), Some(&**owner)),
        };
        Ok(Self {
            id: event.id(),
            names: [
                Some(event.event_type()),
                Some(event.aggregate_type()),
                event.aggregate_id(),
                event.tenant_id(),
                event.ordering_key(),
            ],
            shard: event.shard(),
            content_type: event.content_type(),
            occurred_at: event.occurred_at(),
            after: after.map(|after| after.min(limits::DELAY)),
            locked_by,
            headers: event.headers().to_json(),
            payload: event.payload(),
        })
    }

    /// How long it is delayed, if it is: a row that is born held is not.
    pub(super) fn delay(&self) -> Option<Duration> {
        self.after.filter(|after| self.locked_by.is_none() && !after.is_zero())
    }

    fn literals(&self) -> [Literal; COLUMNS] {
        let [event_type, aggregate_type, aggregate_id, tenant_id, ordering_key] =
            self.names.map(Literal::maybe_text);
        [
            Literal::id(self.id),
            event_type,
            aggregate_type,
            aggregate_id,
            tenant_id,
            ordering_key,
            Literal::number(self.shard),
            Literal::text(self.content_type),
            Literal::time(self.occurred_at),
            self.after.map_or_else(Literal::in_line, Literal::after_insert),
            Literal::after_insert(Duration::ZERO),
            Literal::maybe_text(self.locked_by),
            Literal::maybe_text(self.headers.as_deref()),
            Literal::bytes(self.payload),
            self.delay().map_or_else(Literal::null, Literal::after_insert),
        ]
    }
}

/// How a transaction is known to be open.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Proof {
    /// Some transaction is.
    Open,
    /// The very one that the guard began, which set a savepoint then.
    Begun,
    /// The server said so with its last answer, and nobody else uses the connection: it rolls back by
    /// itself only in place of an answer, with an error.
    Told,
}

/// What stands before the insert of a draft: the proof, a savepoint where more than one insert follows
/// (a statement's error does not end the transaction here, and the others must be undone), and the
/// time.
pub(super) fn preamble(
    store: &MysqlStore,
    proof: Proof,
    drafts: &[Draft<'_>],
    at: usize,
) -> String {
    let sql = store.sql();
    let mut text = String::new();
    let mut add = |statement: &str| {
        text.push_str(statement);
        text.push_str(";\n");
    };
    if at == 0 {
        if let Some(proof) = proof.text(store) {
            add(proof);
        }
        if drafts.len() > 1 {
            add("savepoint sendoff_write");
        }
    }
    if store.is_partitioned() {
        add(&sql.no_duplicates.with(&[("ids", &drafts[at].ids())]));
    }
    add(sql.at.text());
    text
}

impl Proof {
    /// What fails where it is not so.
    pub(super) fn text(self, store: &MysqlStore) -> Option<&str> {
        match self {
            Self::Open => Some(store.sql().in_transaction.text()),
            Self::Begun => Some(store.sql().still_begun.text()),
            Self::Told => None,
        }
    }
}

/// Undoes the inserts that were carried out before one that failed.
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
        Some(code::TOO_MANY_ROWS) => WriteError::DuplicateId,
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

    use sendoff_testkit::steps::sized as row;

    use super::*;

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

    /// Holds W5.
    #[test]
    fn a_write_of_all_rows_is_one_statement_or_refused() {
        let rows = |count, bytes| -> Vec<_> { (0..count).map(|_| row(bytes)).collect() };
        let sizes = |rows: &[NewRow]| -> Vec<usize> {
            Draft::whole(rows).unwrap().iter().map(|draft| draft.rows.len()).collect()
        };
        assert!(sizes(&[]).is_empty());
        assert_eq!(sizes(&rows(limits::WRITE_EVENTS, 1)), [limits::WRITE_EVENTS]);
        assert_eq!(sizes(&rows(6, limits::PAYLOAD_BYTES)), [6]);
        let many = Draft::whole(&rows(limits::WRITE_EVENTS + 1, 1)).err();
        assert!(matches!(many, Some(WriteError::TooMany { events: 4_001, limit: 4_000 })));
        // What is beside the payloads counts too.
        let large = Draft::whole(&rows(7, limits::PAYLOAD_BYTES)).err();
        assert!(matches!(large, Some(WriteError::TooLarge { limit: BYTES_PER_WRITE, .. })));
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
