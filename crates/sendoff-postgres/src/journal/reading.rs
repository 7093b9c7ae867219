//! Readings: parameters of `journal_read`, `journal_read_from_last` and `journal_read_tag`, and what they
//! find.

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

/// No fact closes: what is null is found nowhere.
const NO_TAG: Option<String> = None;
const NO_TYPES: Option<Vec<String>> = None;

/// A page of what a query means, from the last fact on that another means.
pub(super) struct Reading {
    manner: Manner,
    after: i64,
    up_to: i64,
    limit: i64,
    bytes: i64,
}

/// How it is found.
enum Manner {
    /// By one tag, and from the last fact on with another, or the same, and some types.
    Tag {
        query: Tagged,
        closing: Option<Tagged>,
    },
    Searches {
        query: Search,
        closing: Option<Search>,
    },
}

impl Manner {
    fn of(query: &Query, closing: Option<&Query>) -> Self {
        let by_tag = Tagged::of(query).and_then(|query| {
            // Where any type closes, no type is there to be looked for.
            let closing = match closing.map(Tagged::of) {
                Some(closing) => Some(closing.filter(|closing| closing.types.is_some())?),
                None => None,
            };
            Some(Self::Tag { query, closing })
        });
        by_tag.unwrap_or_else(|| Self::Searches {
            query: Search::of(query),
            closing: closing.map(Search::of),
        })
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

impl Reading {
    pub(super) fn of(query: &Query, closing: Option<&Query>, page: Page) -> Self {
        Self {
            manner: Manner::of(query, closing),
            after: page.after.into(),
            up_to: page.up_to.into(),
            limit: count(page.limit.min(limits::BATCH_ROWS)),
            bytes: count(page.bytes),
        }
    }

    pub(super) fn statement<'s>(&self, sql: &'s Sql) -> &'s Statement {
        match self.manner {
            Manner::Tag { .. } => &sql.journal_read_tag,
            Manner::Searches { closing: Some(_), .. } => &sql.journal_read_from_last,
            Manner::Searches { closing: None, .. } => &sql.journal_read,
        }
    }

    /// As the statement numbers them.
    pub(super) fn in_order(&self) -> Vec<&(dyn ToSql + Sync)> {
        let Self { manner, after, up_to, limit, bytes } = self;
        let page: [&(dyn ToSql + Sync); 4] = [after, up_to, limit, bytes];
        let mut params: Vec<&(dyn ToSql + Sync)> = Vec::new();
        match manner {
            Manner::Tag { query, closing } => {
                params.extend([&query.tag as &(dyn ToSql + Sync), &query.types]);
                params.extend(page);
                match closing {
                    Some(Tagged { tag, types }) => {
                        params.extend([tag as &(dyn ToSql + Sync), types])
                    }
                    None => params.extend([&NO_TAG as &(dyn ToSql + Sync), &NO_TYPES]),
                }
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

    /// What the rows say.
    pub(super) fn found(&self, rows: Vec<Row>) -> Result<Found, StoreError> {
        let mut found = Found { facts: Vec::new(), more: count(rows.len()) >= self.limit };
        for row in rows {
            if facts::fits(&row, 0)? {
                let fact = facts::recorded(&row, 0);
                found.facts.push(fact.map_err(|error| StoreError::Refused(error.into()))?);
            } else {
                found.more = true;
            }
        }
        Ok(found)
    }
}
