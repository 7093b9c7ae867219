//! Readings: parameters of `journal_read` and `journal_read_from_last`, and what they find.

use sendoff_core::journal::Query;
use sendoff_core::limits;
use sendoff_engine::journal::{Found, Page};
use sendoff_engine::store::StoreError;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

use super::facts;
use super::search::Search;
use super::tail::count;
use crate::sql::{Sql, Statement};

/// A page of what a query means, from the last fact on that another means.
pub(super) struct Reading {
    query: Search,
    closing: Option<Search>,
    after: i64,
    up_to: i64,
    limit: i64,
    bytes: i64,
}

impl Reading {
    pub(super) fn of(query: &Query, closing: Option<&Query>, page: Page) -> Self {
        Self {
            query: Search::of(query),
            closing: closing.map(Search::of),
            after: page.after.into(),
            up_to: page.up_to.into(),
            limit: count(page.limit.min(limits::BATCH_ROWS)),
            bytes: count(page.bytes),
        }
    }

    pub(super) fn statement<'s>(&self, sql: &'s Sql) -> &'s Statement {
        match self.closing {
            Some(_) => &sql.journal_read_from_last,
            None => &sql.journal_read,
        }
    }

    /// As the statement numbers them.
    pub(super) fn in_order(&self) -> Vec<&(dyn ToSql + Sync)> {
        let Self { query, closing, after, up_to, limit, bytes } = self;
        let mut params: Vec<&(dyn ToSql + Sync)> =
            vec![&query.kinds, &query.tags, &query.types, after, up_to, limit, bytes];
        if let Some(closing) = closing {
            params.extend([&closing.kinds as &(dyn ToSql + Sync), &closing.tags, &closing.types]);
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
