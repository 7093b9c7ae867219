//! Finding what a query means.

use std::collections::BTreeSet;

use rusqlite::{Connection, Params, Result};
use sendoff_core::journal::{Item, Query, Tag};
use sendoff_engine::journal::Page;

use super::sql::Sql;

/// Positions of what the query means, the lowest first, each once.
pub(super) fn search(conn: &Connection, sql: &Sql, query: &Query, page: Page) -> Result<Vec<i64>> {
    let mut found = BTreeSet::new();
    let everything = [Item::any()];
    let items = if query.items().is_empty() { &everything[..] } else { query.items() };
    for item in items {
        search_item(conn, sql, item, page, &mut found)?;
    }
    Ok(found.into_iter().take(page.limit).collect())
}

fn search_item(
    conn: &Connection,
    sql: &Sql,
    item: &Item,
    page: Page,
    found: &mut BTreeSet<i64>,
) -> Result<()> {
    let (after, up_to) = (i64::from(page.after), i64::from(page.up_to));
    let limit = i64::try_from(page.limit).unwrap_or(i64::MAX);
    if let Some(rarest) = rarest(conn, sql, item, after, up_to)? {
        let tags = json(item.tags().map(Tag::as_str));
        let types = (item.types().len() > 0).then(|| json(item.types()));
        let params = (rarest.as_str(), after, up_to, tags, types, limit);
        positions(conn, &sql.search_tag, params, found)
    } else if item.types().len() > 0 {
        item.types().try_for_each(|name| {
            positions(conn, &sql.search_type, (name, after, up_to, limit), found)
        })
    } else {
        positions(conn, &sql.search_all, (after, up_to, limit), found)
    }
}

/// The tag by which an item is found with the least work.
fn rarest<'i>(
    conn: &Connection,
    sql: &Sql,
    item: &'i Item,
    after: i64,
    up_to: i64,
) -> Result<Option<&'i Tag>> {
    let mut tags = item.tags();
    if tags.len() < 2 {
        return Ok(tags.next());
    }
    let mut best: Option<(i64, &Tag)> = None;
    for tag in tags {
        let mut statement = conn.prepare_cached(&sql.count_tag)?;
        let count = statement.query_row((tag.as_str(), after, up_to), |row| row.get(0))?;
        if best.is_none_or(|(least, _)| count < least) {
            best = Some((count, tag));
        }
    }
    Ok(best.map(|(_, tag)| tag))
}

fn positions(
    conn: &Connection,
    statement: &str,
    params: impl Params,
    found: &mut BTreeSet<i64>,
) -> Result<()> {
    let mut statement = conn.prepare_cached(statement)?;
    let rows = statement.query_map(params, |row| row.get::<_, i64>(0))?;
    rows.into_iter().try_for_each(|position| {
        found.insert(position?);
        Ok(())
    })
}

/// Texts as a JSON array.
pub(super) fn json<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    // A list of texts always serialises.
    serde_json::to_string(&texts.collect::<Vec<_>>()).unwrap_or_default()
}
