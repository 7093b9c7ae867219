//! Finding what a query means.

use std::collections::BTreeSet;

use sendoff_core::journal::{Item, Query, Tag};
use sendoff_engine::journal::Page;

use super::conn::{Conn, Value};
use super::sql::Sql;

/// Positions of what the query means, the lowest first, each once.
pub(super) async fn search<C: Conn>(
    conn: &mut C,
    sql: &Sql,
    query: &Query,
    page: Page,
) -> Result<Vec<i64>, C::Error> {
    let mut found = BTreeSet::new();
    let everything = [Item::any()];
    let items = if query.items().is_empty() { &everything[..] } else { query.items() };
    for item in items {
        search_item(conn, sql, item, page, &mut found).await?;
    }
    Ok(found.into_iter().take(page.limit).collect())
}

async fn search_item<C: Conn>(
    conn: &mut C,
    sql: &Sql,
    item: &Item,
    page: Page,
    found: &mut BTreeSet<i64>,
) -> Result<(), C::Error> {
    let (after, up_to) = (i64::from(page.after), i64::from(page.up_to));
    let limit = Value::Integer(i64::try_from(page.limit).unwrap_or(i64::MAX));
    let (above, up_to) = (Value::Integer(after), Value::Integer(up_to));
    let mut add = |rows: Vec<Vec<i64>>| found.extend(rows.into_iter().flatten());
    if let Some(rarest) = rarest(conn, sql, item, above, up_to).await? {
        let tags = json(item.tags().map(Tag::as_str));
        let types = (item.types().len() > 0).then(|| json(item.types()));
        let (rarest, tags) = (Value::Text(rarest.as_str()), Value::Text(&tags));
        let params = [rarest, above, up_to, tags, types.as_deref().into(), limit];
        add(conn.rows(&sql.search_tag, &params).await?);
    } else if item.types().len() > 0 {
        for name in item.types() {
            let params = [Value::Text(name), above, up_to, limit];
            add(conn.rows(&sql.search_type, &params).await?);
        }
    } else {
        add(conn.rows(&sql.search_all, &[above, up_to, limit]).await?);
    }
    Ok(())
}

/// The tag by which an item is found with the least work.
async fn rarest<'i, C: Conn>(
    conn: &mut C,
    sql: &Sql,
    item: &'i Item,
    above: Value<'_>,
    up_to: Value<'_>,
) -> Result<Option<&'i Tag>, C::Error> {
    let mut tags = item.tags();
    if tags.len() < 2 {
        return Ok(tags.next());
    }
    let mut best: Option<(i64, &Tag)> = None;
    for tag in tags {
        let params = [Value::Text(tag.as_str()), above, up_to];
        let count = conn.rows(&sql.count_tag, &params).await?.into_iter().flatten().sum();
        if best.is_none_or(|(least, _)| count < least) {
            best = Some((count, tag));
        }
    }
    Ok(best.map(|(_, tag)| tag))
}

/// Texts as a JSON array.
pub(super) fn json<'a>(texts: impl Iterator<Item = &'a str>) -> String {
    // A list of texts always serialises.
    serde_json::to_string(&texts.collect::<Vec<_>>()).unwrap_or_default()
}
