//! Readings: parameters of `read_tag`, `read_book`, `read` and
//! `read_from_last`, and what they find.

use sendoff_core::journal::{Item, Position, Query, Recorded};
use sendoff_core::limits;
use sendoff_engine::journal::{Basis, Books, Found, MemoryKey, Page};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::facts;
use super::search::Search;
use super::store::Nothing;
use super::tail::count;
use crate::sql::{Sql, Statement};

/// Facts of a book that are read at once. Where there are more, some may be read for nothing.
const BOOK_ROWS: usize = 100;

/// A page of what a query means, from the last fact on that another means.
pub(super) struct Reading<'q> {
    books: &'q Books,
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
    /// By one tag, and backwards, down to the last fact that closes.
    Book(Closed),
    /// By one tag, from where this process saw the book closed, or from the first fact on if it saw
    /// that none closes.
    Since(Closed, i64),
    /// Whatever it is, and however large facts are.
    Searches { query: Search, closing: Option<Search>, closed: Option<Closed> },
}

impl Manner {
    fn searches(query: &Query, closing: Option<&Query>, closed: Option<Closed>) -> Self {
        Self::Searches { query: Search::of(query), closing: closing.map(Search::of), closed }
    }
}

/// Facts with a tag, from the last one on of some types.
struct Closed {
    query: Tagged,
    types: Vec<String>,
    book: MemoryKey,
}

impl Closed {
    /// None where the facts that close are not among those that are looked at.
    fn of(query: Tagged, closing: &Query) -> Option<Self> {
        let Tagged { tag, types } = Tagged::of(closing)?;
        let types = types.filter(|_| tag == query.tag)?;
        let among = |all: &Vec<String>| types.iter().all(|closing| all.contains(closing));
        if !query.types.as_ref().is_none_or(among) {
            return None;
        }
        let book = MemoryKey::of((&query.tag, &query.types, &types));
        Some(Self { query, types, book })
    }

    fn closes(&self, event_type: &str) -> bool {
        self.types.iter().any(|closing| closing == event_type)
    }

    fn is_closed_by(&self, row: &Row) -> Result<bool, StoreError> {
        Ok(self.closes(facts::event_type(row, 0)?))
    }
}

/// A tag, and types if not any will do.
pub(super) struct Tagged {
    pub(super) tag: String,
    pub(super) types: Option<Vec<String>>,
}

impl Tagged {
    /// None where the query asks for less than one tag, or for more.
    pub(super) fn of(query: &Query) -> Option<Self> {
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
    pub(super) fn of(books: &'q Books, basis: Basis<'q>) -> Self {
        let Basis { query, closing, page } = basis;
        let manner = match (Tagged::of(query), closing) {
            (Some(query), None) => Some(Manner::Tag(query)),
            (Some(query), Some(closing)) => Closed::of(query, closing).map(|closed| {
                match books.get(closed.book).filter(|_| page.after == Position::START) {
                    Some(first) => Manner::Since(closed, first.map_or(0, |(at, _)| at.into())),
                    None => Manner::Book(closed),
                }
            }),
            (None, _) => None,
        };
        let manner = manner.unwrap_or_else(|| Manner::searches(query, closing, None));
        Self::by(manner, books, query, closing, page)
    }

    /// The same in a manner that finds what this one did not, at last in one that always does.
    pub(super) fn again(self) -> Self {
        let Self { books, query, closing, page, manner, .. } = self;
        let closed = match manner {
            Manner::Since(closed, _) => {
                return Self::by(Manner::Book(closed), books, query, closing, page);
            }
            Manner::Book(closed) => Some(closed),
            Manner::Tag(_) | Manner::Searches { .. } => None,
        };
        Self::by(Manner::searches(query, closing, closed), books, query, closing, page)
    }

    fn by(
        manner: Manner,
        books: &'q Books,
        query: &'q Query,
        closing: Option<&'q Query>,
        page: Page,
    ) -> Self {
        let most = match manner {
            Manner::Book(_) | Manner::Since(..) => BOOK_ROWS,
            Manner::Tag(_) | Manner::Searches { .. } => limits::BATCH_ROWS,
        };
        let part = Page { limit: page.limit.min(most), ..page };
        let bytes = match manner {
            Manner::Searches { .. } => part.bytes,
            _ => part.share(),
        };
        let after: i64 = page.after.into();
        let after = match manner {
            Manner::Since(_, position) => after.max(position - 1),
            _ => after,
        };
        let (up_to, limit, bytes) = (page.up_to.into(), count(part.limit), count(bytes));
        Self { books, query, closing, page, manner, after, up_to, limit, bytes }
    }

    pub(super) fn statement<'s>(&self, sql: &'s Sql) -> &'s Statement {
        match self.manner {
            Manner::Tag(_) | Manner::Since(..) => &sql.journal.read_tag,
            Manner::Book(_) => &sql.journal.read_book,
            Manner::Searches { closing: Some(_), .. } => &sql.journal.read_from_last,
            Manner::Searches { closing: None, .. } => &sql.journal.read,
        }
    }

    /// As the statement numbers them.
    pub(super) fn in_order(&self) -> Vec<&(dyn ToSql + Sync)> {
        let Self { manner, after, up_to, limit, bytes, .. } = self;
        let page: [&(dyn ToSql + Sync); 4] = [after, up_to, limit, bytes];
        let mut params: Vec<&(dyn ToSql + Sync)> = Vec::with_capacity(10);
        match manner {
            Manner::Tag(Tagged { tag, types })
            | Manner::Since(Closed { query: Tagged { tag, types }, .. }, _) => {
                params.extend([tag as &(dyn ToSql + Sync), types]);
                params.extend(page);
            }
            Manner::Book(Closed { query: Tagged { tag, types }, types: closing, .. }) => {
                params.extend([tag as &(dyn ToSql + Sync), types]);
                params.extend(page);
                params.push(closing);
            }
            Manner::Searches { query, closing, .. } => {
                params.extend([&query.kinds as &(dyn ToSql + Sync), &query.tags, &query.types]);
                params.extend(page);
                if let Some(Search { kinds, tags, types }) = closing {
                    params.extend([kinds as &(dyn ToSql + Sync), tags, types]);
                }
            }
        }
        params
    }

    /// What the rows say; nothing where it takes another reading [again](Self::again).
    pub(super) fn found(&self, rows: &[Row]) -> Result<Option<Found>, StoreError> {
        let full = count(rows.len()) >= self.limit;
        match &self.manner {
            Manner::Tag(_) => page(rows, full),
            Manner::Book(closed) => {
                // Nothing closes above: another may be below.
                if let Some(lowest) = rows.last().filter(|_| full)
                    && !closed.is_closed_by(lowest)?
                {
                    return Ok(None);
                }
                self.learn(closed, all(rows.iter().rev(), false)?)
            }
            Manner::Since(closed, position) => {
                let mut begin = None;
                for (at, row) in rows.iter().enumerate() {
                    if closed.is_closed_by(row)? {
                        begin = Some(at);
                    }
                }
                let begins = match rows.first() {
                    Some(first) if *position > 0 => closed.is_closed_by(first)?,
                    None => *position == 0,
                    // From the first fact on; and none may close after what was read.
                    Some(_) => begin.is_some() || !full,
                };
                if !begins {
                    self.books.forget(closed.book);
                    return Ok(None);
                }
                self.learn(closed, all(rows[begin.unwrap_or(0)..].iter(), full)?)
            }
            Manner::Searches { closed, .. } => {
                // Of them the first always fits.
                let nothing = || StoreError::Refused(Nothing.into());
                let found = Some(page(rows, full)?.ok_or_else(nothing)?);
                match closed {
                    Some(closed) => self.learn(closed, found),
                    None => Ok(found),
                }
            }
        }
    }

    /// Remembers where the book was closed.
    fn learn(&self, closed: &Closed, found: Option<Found>) -> Result<Option<Found>, StoreError> {
        let Some(Found { facts, more, .. }) = &found else { return Ok(None) };
        let closing = facts.iter().rev().find(|fact| closed.closes(fact.event().event_type()));
        match closing {
            Some(closing) => {
                self.books.put(closed.book, Some((closing.position, closing.fact.id())));
            }
            None if !*more && self.page.after == Position::START => {
                self.books.put(closed.book, None);
            }
            None => {}
        }
        Ok(found)
    }
}

/// The facts that fit; none where not even the first does.
fn page(rows: &[Row], full: bool) -> Result<Option<Found>, StoreError> {
    let mut found = Found { facts: Vec::with_capacity(rows.len()), more: full, run: None };
    for row in rows {
        if !facts::fits(row, 0)? {
            found.more = true;
            break;
        }
        found.facts.push(fact(row)?);
    }
    Ok((!found.facts.is_empty() || rows.is_empty()).then_some(found))
}

/// All facts; none where one does not fit.
fn all<'r>(
    rows: impl ExactSizeIterator<Item = &'r Row>,
    more: bool,
) -> Result<Option<Found>, StoreError> {
    let mut found = Found { facts: Vec::with_capacity(rows.len()), more, run: None };
    for row in rows {
        if !facts::fits(row, 0)? {
            return Ok(None);
        }
        found.facts.push(fact(row)?);
    }
    Ok(Some(found))
}

fn fact(row: &Row) -> Result<Recorded, StoreError> {
    facts::recorded(row, 0).map_err(|error| StoreError::Refused(error.into()))
}
