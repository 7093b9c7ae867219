//! Facts about to be inserted, as the texts that insert them.

#[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
use sendoff_core::EventId;
use sendoff_core::journal::{Append, Fact, Tag};
use sendoff_engine::store::StoreError;
use sha2::{Digest, Sha256};

use crate::sql::Sql;
use crate::values::Values;
use crate::wire::{KnownFacts, Literal, is_storable};

/// Bytes of payload, headers and tags in one text, of which each makes two digits and those of tags
/// four. Servers refuse a packet of more than 4 MiB, 16 MiB or 64 MiB, as they are set.
const BYTES_PER_TEXT: usize = 1024 * 1024;

/// What most decisions end in. Of each number of rows and tags there is another text.
const COMMON_ROWS: usize = 2;
const COMMON_TAGS: usize = 3;

/// The facts of one insert.
pub(super) struct Draft<'a> {
    pub(super) rows: Vec<DraftRow<'a>>,
    bytes: usize,
}

pub(super) struct DraftRow<'a> {
    pub(super) fact: &'a Fact,
    pub(super) tags: String,
    pub(super) headers: Option<String>,
}

impl<'a> Draft<'a> {
    /// Texts for these facts, in order; at least one in each. What a DATETIME could not keep is
    /// refused here, before any SQL.
    pub(super) fn all(append: &'a Append) -> Result<Vec<Self>, StoreError> {
        let mut drafts: Vec<Self> = Vec::new();
        for fact in append.facts() {
            if !is_storable(fact.event().occurred_at()) {
                return Err(StoreError::Refused(OutsideTheCalendar.into()));
            }
            let row = DraftRow::new(fact);
            let bytes = row.bytes();
            match drafts.last_mut() {
                Some(draft) if draft.bytes + bytes <= BYTES_PER_TEXT => {
                    draft.bytes += bytes;
                    draft.rows.push(row);
                }
                _ => drafts.push(Self { rows: vec![row], bytes }),
            }
        }
        Ok(drafts)
    }

    /// The insert with its values, for a driver that keeps what it sends to itself.
    pub(super) fn text(&self, sql: &Sql, values: &mut Values) -> String {
        let rows: Vec<_> = self.rows.iter().map(|row| row.literals(values)).collect();
        let rows = Literal::rows(rows.iter().map(<[Literal; COLUMNS]>::as_slice));
        sql.journal.insert.with(&[("rows", &rows)])
    }

    /// The insert with a mark for each value, for a driver that may log its text.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(super) fn text_with_marks(&self, sql: &Sql) -> String {
        sql.journal.insert.with(&[("rows", &Literal::fact_marks(self.rows.len()))])
    }

    /// The tags, to be inserted after the facts; none where there is none.
    pub(super) fn tags(&self, sql: &Sql, values: &mut Values) -> Option<String> {
        let mut tags = Vec::new();
        for (at, row) in self.rows.iter().enumerate() {
            let position = Literal::behind_first(at);
            let tag = |tag: &Tag| [values.text(tag.as_str()), position.clone()];
            tags.extend(row.fact.tags().iter().map(tag));
        }
        let rows = Literal::rows(tags.iter().map(<[Literal; 2]>::as_slice));
        (!tags.is_empty()).then(|| sql.journal.tags.with(&[("rows", &rows)]))
    }

    /// Whether many drafts are like it but for their values.
    pub(super) fn is_common(&self) -> bool {
        self.rows.len() <= COMMON_ROWS
            && self.rows.iter().all(|row| row.fact.tags().iter().count() <= COMMON_TAGS)
    }

    /// Asks which of them are there.
    pub(super) fn known(&self, sql: &Sql) -> String {
        known(sql, &self.rows)
    }

    /// Asks it of all drafts.
    pub(super) fn all_known(sql: &Sql, drafts: &[Self]) -> String {
        known(sql, drafts.iter().flat_map(|draft| &draft.rows))
    }
}

fn known<'r>(sql: &Sql, rows: impl IntoIterator<Item = &'r DraftRow<'r>>) -> String {
    let mut facts = KnownFacts::default();
    for row in rows {
        facts.push(row.fact.id(), &row.digest());
    }
    sql.journal.known.with(&[("facts", &facts.literal())])
}

const COLUMNS: usize = 10;

impl<'a> DraftRow<'a> {
    fn new(fact: &'a Fact) -> Self {
        let tags: Vec<_> = fact.tags().iter().map(Tag::as_str).collect();
        // A list of texts always serialises.
        let tags = serde_json::to_string(&tags).unwrap_or_default();
        Self { fact, tags, headers: fact.event().headers().to_json() }
    }

    fn bytes(&self) -> usize {
        let headers = self.headers.as_ref().map_or(0, String::len);
        self.fact.event().payload().len() + headers + 2 * self.tags.len()
    }

    fn literals(&self, values: &mut Values) -> [Literal; COLUMNS] {
        let event = self.fact.event();
        [
            values.id(self.fact.id()),
            values.text(event.event_type()),
            values.text(event.content_type()),
            values.time(event.occurred_at()),
            Literal::noted_time(),
            values.maybe_id(self.fact.correlation_id()),
            values.maybe_id(self.fact.causation_id()),
            values.text(&self.tags),
            values.maybe_text(self.headers.as_deref()),
            values.bytes(event.payload()),
        ]
    }

    /// The ids that may be there, in the order of the columns.
    #[cfg(any(feature = "sea-orm", feature = "_sqlx"))]
    pub(super) fn related(&self) -> [Option<EventId>; 2] {
        [self.fact.correlation_id(), self.fact.causation_id()]
    }

    /// Of what must be the same for a fact to be the same; `known` computes it too.
    fn digest(&self) -> [u8; 32] {
        let event = self.fact.event();
        let mut digest = Sha256::new();
        for part in [event.event_type(), event.content_type(), &self.tags] {
            digest.update(part);
            digest.update([0]);
        }
        digest.update(event.payload());
        digest.finalize().into()
    }
}

#[derive(Debug, thiserror::Error)]
#[error("occurred_at lies outside the years 1000 to 9999, which are all that a DATETIME keeps")]
struct OutsideTheCalendar;
