//! Readings: parameters of `journal_read_tag`, `journal_read_book`, `journal_read` and
//! `journal_read_from_last`, and what they find.

use sendoff_core::journal::{Item, Query};
use sendoff_core::limits;
use sendoff_engine::journal::{Found, Page};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::facts;
use super::search::Search;
use super::tail::count;
use crate::sql::{Sql, Statement};

/// Facts since the last closing that are looked for backwards. Where there are more, they were read for
/// nothing.
const BOOK_ROWS: usize = 100;

/// A page of what a query means, from the last fact on that another means.
pub(super) struct Reading<'q> {
    query: &'q Query,
    closing: Option<&'q Query>,
    page: Page,
    manner: Manner,
    after: i64,
    up_to: i64,
    limit: i64,
    /// Of each fact where they are found by a tag, else of all of them.
    bytes: i64,
}

/// How it is found.
enum Manner {
    /// By one tag, which is what most models are made of.
    Tag(Tagged),
    /// By one tag, and backwards, down to the last fact of some types.
    Book { query: Tagged, closing: Vec<String> },
    /// Whatever it is, and however large facts are.
    Searches { query: Search, closing: Option<Search> },
}

impl Manner {
    fn of(query: &Query, closing: Option<&Query>) -> Option<Self> {
        let query = Tagged::of(query)?;
        let Some(closing) = closing else { return Some(Self::Tag(query)) };
        // The facts that close have to be among those that are looked at.
        let closing = Tagged::of(closing).filter(|closing| closing.tag == query.tag)?;
        let closing = closing.types?;
        let types = query.types.as_ref();
        let all = types.is_none_or(|types| closing.iter().all(|closing| types.contains(closing)));
        all.then_some(Self::Book { query, closing })
    }

    fn searches(query: &Query, closing: Option<&Query>) -> Self {
        Self::Searches { query: Search::of(query), closing: closing.map(Search::of) }
    }
}

/// A tag, and types if not any will do.
struct Tagged {
    tag: String,
    types: Option<Vec<String>>,
}

impl Tagged {
    /// None where the query asks for less than one tag, or for more.
    fn of(query: &Query) -> Option<Self> {
        let [item] = query.items() else { return None };
        let mut tags = item.tags();
        let (Some(tag), None) = (tags.next(), tags.next()) else { return None };
        Some(Self { tag: tag.as_str().to_owned(), types: types(item) })
    }
}

fn types(item: &Item) -> Option<Vec<String>> {
    (item.types().len() > 0).then(|| item.types().map(str::to_owned).collect())
}

impl<'q> Reading<'q> {
    /// In the cheapest manner there is.
    pub(super) fn of(query: &'q Query, closing: Option<&'q Query>, page: Page) -> Self {
        let manner = Manner::of(query, closing);
        Self::by(manner.unwrap_or_else(|| Manner::searches(query, closing)), query, closing, page)
    }

    /// The same in a manner that always finds it.
    pub(super) fn thorough(&self) -> Self {
        let Self { query, closing, page, .. } = *self;
        Self::by(Manner::searches(query, closing), query, closing, page)
    }

    fn by(manner: Manner, query: &'q Query, closing: Option<&'q Query>, page: Page) -> Self {
        let most = match manner {
            Manner::Book { .. } => BOOK_ROWS,
            Manner::Tag(_) | Manner::Searches { .. } => limits::BATCH_ROWS,
        };
        let limit = page.limit.min(most);
        let bytes = match manner {
            Manner::Tag(_) | Manner::Book { .. } => page.bytes / limit.max(1),
            Manner::Searches { .. } => page.bytes,
        };
        let (after, up_to) = (page.after.into(), page.up_to.into());
        let (limit, bytes) = (count(limit), count(bytes));
        Self { query, closing, page, manner, after, up_to, limit, bytes }
    }

    pub(super) fn statement<'s>(&self, sql: &'s Sql) -> &'s Statement {
        match self.manner {
            Manner::Tag(_) => &sql.journal_read_tag,
            Manner::Book { .. } => &sql.journal_read_book,
            Manner::Searches { closing: Some(_), .. } => &sql.journal_read_from_last,
            Manner::Searches { closing: None, .. } => &sql.journal_read,
        }
    }

    /// As the statement numbers them.
    pub(super) fn in_order(&self) -> Vec<&(dyn ToSql + Sync)> {
        let Self { manner, after, up_to, limit, bytes, .. } = self;
        let page: [&(dyn ToSql + Sync); 4] = [after, up_to, limit, bytes];
        let mut params: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(10);
        match manner {
            Manner::Tag(Tagged { tag, types }) => {
                params.extend([tag as &(dyn ToSql + Sync), types]);
                params.extend(page);
            }
            Manner::Book { query: Tagged { tag, types }, closing } => {
                params.extend([tag as &(dyn ToSql + Sync), types]);
                params.extend(page);
                params.push(closing);
            }
            Manner::Searches { query, closing } => {
                params.extend([&query.kinds as &(dyn ToSql + Sync), &query.tags, &query.types]);
                params.extend(page);
                if let Some(Search { kinds, tags, types }) = closing {
                    params.extend([kinds as &(dyn ToSql + Sync), tags, types]);
                }
            }
        }
        params
    }

    /// What the rows say; nothing where only a [thorough](Self::thorough) reading finds it.
    pub(super) fn found(&self, rows: &[Row]) -> Result<Option<Found>, StoreError> {
        let full = count(rows.len()) >= self.limit;
        if let Manner::Book { closing, .. } = &self.manner {
            return book(rows, full, closing);
        }
        let mut found = Found { facts: Vec::with_capacity(rows.len()), more: full };
        for row in rows {
            if !facts::fits(row, 0)? {
                found.more = true;
                break;
            }
            found.facts.push(fact(row)?);
        }
        // The first always fits where all are counted together.
        Ok((!found.facts.is_empty() || rows.is_empty()).then_some(found))
    }
}

/// What the rows of `journal_read_book` say. They are all there is, unless another may be below them.
fn book(rows: &[Row], full: bool, closing: &[String]) -> Result<Option<Found>, StoreError> {
    if let Some(first) = rows.last().filter(|_| full) {
        let event_type = facts::event_type(first, 0)?;
        if !closing.iter().any(|closing| closing == event_type) {
            return Ok(None);
        }
    }
    let mut found = Found { facts: Vec::with_capacity(rows.len()), more: false };
    for row in rows.iter().rev() {
        if !facts::fits(row, 0)? {
            return Ok(None);
        }
        found.facts.push(fact(row)?);
    }
    Ok(Some(found))
}

fn fact(row: &Row) -> Result<sendoff_core::journal::Recorded, StoreError> {
    facts::recorded(row, 0).map_err(|error| StoreError::Refused(error.into()))
}
