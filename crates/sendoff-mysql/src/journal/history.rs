//! What one tag has had, as one short answer: what most decisions are about.
//!
//! Sizes are not added up before anything is sent, as `read` does it. Each row has its share of a
//! page instead, so that no answer is larger than a page may be; what does not fit is read as other
//! pages are.

use std::sync::Arc;

use mysql_async::Row;
use sendoff_core::EventId;
use sendoff_core::journal::{Item, Position, Query, Recorded, Run, Tag};
use sendoff_engine::journal::{Basis, Found, Kept, MemoryKey, Page};
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
    basis: Basis<'a>,
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
    /// At the last fact that was kept of the decision before, if the first is there too.
    On(Arc<Kept>),
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
        let key = MemoryKey::of_model(query, closing);
        Some(Self { memory, basis, item, tag, closing, page, key })
    }

    /// Where to begin under the locks of a decision: after what was kept of the one before.
    pub(super) fn begin_locked(&self) -> Option<Begin<'a>> {
        self.memory.shelf.get(self.basis).map(Begin::On).or_else(|| self.begin())
    }

    /// Keeps what was found under the locks of a decision, in this run of the server.
    pub(super) fn keep(&self, run: Option<Run>, found: &Found) {
        if found.more {
            self.memory.shelf.forget(self.basis);
        } else {
            self.memory.shelf.put(self.basis, run, &found.facts);
        }
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
            Begin::On(kept) => values.position(kept.last()),
            Begin::At(first) => {
                values.position(first.map_or(Position::START, |(position, _)| position))
            }
            Begin::Last(item) => Literal::part(sql.journal.closed.with(&[
                ("tag", &values.text(self.tag.as_str())),
                ("up_to", &values.position(self.page.up_to)),
                ("types", &Literal::of_types(item.types())),
            ])),
        };
        let up_to = values.position(self.page.up_to);
        let still = match begin {
            Begin::On(kept) => Literal::part(sql.journal.still.with(&[
                ("tag", &values.text(self.tag.as_str())),
                ("first", &values.position(kept.first())),
            ])),
            Begin::At(_) | Begin::Last(_) => Literal::nothing(),
        };
        sql.journal.history.with(&[
            ("header_chars", &Literal::count(HEADER_CHARS + 1)),
            ("payload_bytes", &Literal::count(PAYLOAD_BYTES + 1)),
            ("tag", &tag),
            ("from", &from),
            ("up_to", &up_to),
            ("types", &Literal::of_types(self.item.types())),
            ("still", &still),
            ("limit", &Literal::count(self.page.limit)),
        ])
    }

    /// What the rows of a reading say, of this run of the server where it is known; nothing where they do
    /// not begin as they must, or where the first does not fit.
    pub(super) fn found(
        &self,
        begin: &Begin<'_>,
        run: Option<Run>,
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
        if let Begin::On(kept) = begin {
            let read = (!found.more).then_some(found.facts);
            let facts = read.and_then(|read| kept.continued(run, self.basis.page, read));
            return Ok(facts.map(|facts| Found { facts, ..Found::default() }));
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
