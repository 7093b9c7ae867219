//! Queries as the searches that the database makes for them.

use std::collections::BTreeMap;

use sendoff_core::journal::{Item, Query, Tag};
use sendoff_engine::journal::Page;

use crate::sql::{Sql, Statement};
use crate::wire::Literal;

/// How the searches are made.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Manner {
    /// For looking: as far as a snapshot shows.
    Looking,
    /// Under a condition's locks: whatever is committed.
    Locking,
}

/// The tag that each item with tags is searched by, where it is not the first.
pub(super) type Rarest = BTreeMap<usize, Tag>;

/// Searches whose union is what the query means, each of at most a page.
pub(super) fn searches(
    sql: &Sql,
    query: &Query,
    page: Page,
    manner: Manner,
    rarest: &Rarest,
) -> Literal {
    searches_above(sql, query, Literal::position(page.after), page, manner, rarest)
}

/// The same above a position that the database notes.
fn searches_above(
    sql: &Sql,
    query: &Query,
    after: Literal,
    page: Page,
    manner: Manner,
    rarest: &Rarest,
) -> Literal {
    let search = Search { sql, after, page, manner };
    let mut texts = Vec::new();
    if query.items().is_empty() {
        texts.push(search.all());
    }
    for (at, item) in query.items().iter().enumerate() {
        // Under locks by the first, which is the one that is locked: whoever has appended a fact with
        // it is over, so that no search waits for anybody.
        if let Some(tag) = rarest.get(&at).or_else(|| item.tags().next()) {
            texts.push(search.by_tag(item, tag));
        } else if item.types().len() > 0 {
            texts.extend(item.types().map(|event_type| search.by_type(event_type)));
        } else {
            texts.push(search.all());
        }
    }
    Literal::union(&texts)
}

/// Asks how often the tags of items with several are there; none where no item has several.
pub(super) fn counts(sql: &Sql, query: &Query, page: Page) -> Option<(Vec<(usize, Tag)>, Literal)> {
    let several = query.items().iter().enumerate().filter(|(_, item)| item.tags().len() > 1);
    let tags: Vec<(usize, Tag)> =
        several.flat_map(|(at, item)| item.tags().map(move |tag| (at, tag.clone()))).collect();
    let texts = tags.iter().enumerate().map(|(nth, (_, tag))| {
        sql.journal_rarest.with(&[
            ("nth", &Literal::count(nth)),
            ("tag", &Literal::text(tag.as_str())),
            ("after", &Literal::position(page.after)),
            ("up_to", &Literal::position(page.up_to)),
        ])
    });
    let texts: Vec<String> = texts.collect();
    (!texts.is_empty()).then(|| (tags, Literal::union(&texts)))
}

/// A text that reads from the last fact on which `closing` means, where that can be found by its tags.
pub(super) fn from_last(
    sql: &Sql,
    query: &Query,
    closing: &Query,
    page: Page,
    rarest: &Rarest,
) -> Option<String> {
    let search =
        Search { sql, after: Literal::position(page.after), page, manner: Manner::Looking };
    let tagged = |item| Item::tags(item).next().map(|tag| (item, tag));
    let tagged: Option<Vec<_>> = closing.items().iter().map(tagged).collect();
    let last: Vec<_> = tagged?
        .into_iter()
        .map(|(item, tag)| search.by_tag_in(&sql.journal_last_by_tag, item, tag))
        .collect();
    if last.is_empty() {
        return None;
    }
    let after = Literal::position(page.after);
    let last = sql.journal_last.with(&[("after", &after), ("searches", &Literal::union(&last))]);
    let found = searches_above(sql, query, Literal::noted_last(), page, Manner::Looking, rarest);
    Some(format!("{last};\n{}", reading(sql, &found, page)))
}

/// A text that reads what searches find.
pub(super) fn reading(sql: &Sql, found: &Literal, page: Page) -> String {
    sql.journal_read.with(&[
        ("searches", found),
        ("limit", &Literal::count(page.limit)),
        ("bytes", &Literal::count(page.bytes)),
    ])
}

struct Search<'s> {
    sql: &'s Sql,
    after: Literal,
    page: Page,
    manner: Manner,
}

impl Search<'_> {
    fn by_tag(&self, item: &Item, tag: &Tag) -> String {
        self.by_tag_in(&self.sql.journal_by_tag, item, tag)
    }

    fn by_tag_in(&self, statement: &Statement, item: &Item, tag: &Tag) -> String {
        let others = || item.tags().filter(|other| *other != tag).map(Tag::as_str);
        statement.with(&[
            ("tag", &Literal::text(tag.as_str())),
            ("types_count", &Literal::count(item.types().len())),
            ("types", &Literal::texts(item.types())),
            ("others", &Literal::texts(others())),
            ("others_count", &Literal::count(others().count())),
            ("after", &self.after),
            ("up_to", &Literal::position(self.page.up_to)),
            ("limit", &Literal::count(self.page.limit)),
            ("locking", &Literal::locking(self.manner == Manner::Locking)),
        ])
    }

    fn by_type(&self, event_type: &str) -> String {
        self.sql.journal_by_type.with(&[
            ("type", &Literal::text(event_type)),
            ("after", &self.after),
            ("up_to", &Literal::position(self.page.up_to)),
            ("limit", &Literal::count(self.page.limit)),
            ("locking", &Literal::locking(self.manner == Manner::Locking)),
        ])
    }

    fn all(&self) -> String {
        self.sql.journal_all.with(&[
            ("after", &self.after),
            ("up_to", &Literal::position(self.page.up_to)),
            ("limit", &Literal::count(self.page.limit)),
            ("locking", &Literal::locking(self.manner == Manner::Locking)),
        ])
    }
}
