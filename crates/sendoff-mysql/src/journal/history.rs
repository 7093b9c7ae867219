//! What one tag has had, as one short answer: what most decisions are about.
//!
//! Sizes are not added up before anything is sent, as `read` does it. Each row has its share of a
//! page instead, so that no answer is larger than a page may be; what does not fit is read as other
//! pages are.

use mysql_async::Row;
use sendoff_core::EventId;
use sendoff_core::journal::{Item, Position, Query, Recorded, Tag};
use sendoff_engine::journal::{Basis, Found, MemoryKey, Page};
use sendoff_engine::store::StoreError;

use super::facts;
use super::memory::Memory;
use crate::sql::Sql;
use crate::values::Values;
use crate::wire::Literal;

/// Bytes that a row may have here of its payload, and characters of its headers, of up to four bytes
/// each: 64 KiB in all.
const PAYLOAD_BYTES: usize = 32 * 1024;
const HEADER_CHARS: usize = 8 * 1024;
const ROW_BYTES: usize = PAYLOAD_BYTES + 4 * HEADER_CHARS;

/// The facts of a query that asks for one tag, from the last one on that `closing` means.
pub(super) struct History<'a> {
    memory: &'a Memory,
    item: &'a Item,
    tag: &'a Tag,
    closing: Option<&'a Query>,
    page: Page,
    key: MemoryKey,
}

/// Where an answer begins.
pub(super) enum Begin<'a> {
    /// At this very fact, which once closed the book; else at the beginning of all.
    At(Option<(Position, EventId)>),
    /// At the last fact that this item means.
    Last(&'a Item),
}

impl<'a> History<'a> {
    /// None where the query asks for something else, or where the page is none that begins.
    pub(super) fn of(memory: &'a Memory, basis: Basis<'a>) -> Option<Self> {
        let Basis { query, closing, page } = basis;
        let [item] = query.items() else { return None };
        let page = page.shared_out(ROW_BYTES);
        let tag = item.tags().next().filter(|_| item.tags().len() == 1)?;
        if page.after != Position::START || page.limit == 0 {
            return None;
        }
        let key = Memory::key([Some(query), closing]);
        Some(Self { memory, item, tag, closing, page, key })
    }

    /// Where to begin, where that can be found.
    pub(super) fn begin(&self) -> Option<Begin<'a>> {
        let Some(closing) = self.closing else { return Some(Begin::At(None)) };
        if let Some(closed) = self.memory.books.get(self.key) {
            return Some(Begin::At(closed));
        }
        let [item] = closing.items() else { return None };
        item.tags().eq([self.tag]).then_some(Begin::Last(item))
    }

    /// What reads it from there on.
    pub(super) fn text(&self, sql: &Sql, begin: &Begin<'_>, values: &mut Values) -> String {
        let tag = values.text(self.tag.as_str());
        let from = match begin {
            Begin::At(first) => {
                values.position(first.map_or(Position::START, |(position, _)| position))
            }
            Begin::Last(item) => Literal::part(sql.journal.closed.with(&[
                ("tag", &values.text(self.tag.as_str())),
                ("up_to", &values.position(self.page.up_to)),
                ("types", &Literal::of_types(item.types())),
            ])),
        };
        sql.journal.history.with(&[
            ("header_chars", &Literal::count(HEADER_CHARS + 1)),
            ("payload_bytes", &Literal::count(PAYLOAD_BYTES + 1)),
            ("tag", &tag),
            ("from", &from),
            ("up_to", &values.position(self.page.up_to)),
            ("types", &Literal::of_types(self.item.types())),
            ("limit", &Literal::count(self.page.limit)),
        ])
    }

    /// What the rows of a reading say; nothing where they do not begin as they must, or where the first
    /// does not fit.
    pub(super) fn found(
        &self,
        begin: &Begin<'_>,
        rows: Vec<Row>,
    ) -> Result<Option<Found>, StoreError> {
        let mut found = Found { facts: Vec::new(), more: rows.len() >= self.page.limit, run: None };
        for row in rows {
            if !facts::is_whole(&row, HEADER_CHARS, PAYLOAD_BYTES) {
                found.more = true;
                break;
            }
            found.facts.push(facts::decoded(row)?);
        }
        let begins = match (begin, found.facts.first()) {
            (Begin::At(Some(first)), Some(fact)) => {
                (fact.position, fact.fact.id()) == *first && self.closes(fact)
            }
            (Begin::At(Some(_)), None) => false,
            (_, fact) => fact.is_some() || !found.more,
        };
        if begins {
            self.learn(&found);
        } else {
            self.memory.books.forget(self.key);
        }
        Ok(begins.then_some(found))
    }

    /// Remembers where to begin the next time.
    pub(super) fn learn(&self, found: &Found) {
        if self.closing.is_none() {
            return;
        }
        if found.more {
            // There may be a later one, which is worth looking for.
            return self.memory.books.forget(self.key);
        }
        let last = found.facts.iter().rev().find(|fact| self.closes(fact));
        let closed = last.map(|fact| (fact.position, fact.fact.id()));
        self.memory.books.put(self.key, closed);
    }

    fn closes(&self, fact: &Recorded) -> bool {
        self.closing.is_some_and(|closing| closing.selects(fact))
    }
}
