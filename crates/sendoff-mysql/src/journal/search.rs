//! Queries as the searches that the database makes for them.

use std::collections::BTreeMap;

use sendoff_core::journal::{Item, Position, Query, Tag};
use sendoff_engine::journal::Page;

use crate::sql::{Sql, Statement};
use crate::values::Values;
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
    let after = Literal::position(page.after);
    Literal::union(&searches_above(sql, query, after, page, manner, rarest))
}

/// Whether it asks for one tag, as most do.
pub(super) fn is_common(query: &Query) -> bool {
    matches!(query.items(), [item] if item.tags().len() == 1)
}

/// The first fact above a position that the query means, whatever is committed.
pub(super) fn first(sql: &Sql, query: &Query, after: Position, values: &mut Values) -> Literal {
    if let ([item], true) = (query.items(), is_common(query)) {
        let tags: Vec<_> = item.tags().map(Tag::as_str).collect();
        return Literal::part(sql.journal.search_tag.with(&[
            ("tag", &values.text(tags.first().copied().unwrap_or_default())),
            ("after", &values.position(after)),
            ("up_to", &Literal::position(Position::END)),
            ("types", &Literal::of_types(item.types())),
            ("others", &Literal::part(String::new())),
            ("limit", &Literal::count(1)),
            ("locking", &Literal::locking(true)),
        ]));
    }
    let (page, none) = (Page::first(after, Position::END), Rarest::default());
    let after = Literal::position(after);
    let mut texts = searches_above(sql, query, after, page, Manner::Locking, &none);
    Literal::part(match texts.len() {
        1 => texts.remove(0),
        _ => sql.journal.least.with(&[("searches", &Literal::union(&texts))]),
    })
}

/// The same above a position that the database notes.
fn searches_above(
    sql: &Sql,
    query: &Query,
    after: Literal,
    page: Page,
    manner: Manner,
    rarest: &Rarest,
) -> Vec<String> {
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
    texts
}

/// Asks how often the tags of items with several are there; none where no item has several.
pub(super) fn counts(sql: &Sql, query: &Query, page: Page) -> Option<(Vec<(usize, Tag)>, Literal)> {
    let several = query.items().iter().enumerate().filter(|(_, item)| item.tags().len() > 1);
    let tags: Vec<(usize, Tag)> =
        several.flat_map(|(at, item)| item.tags().map(move |tag| (at, tag.clone()))).collect();
    let texts = tags.iter().enumerate().map(|(nth, (_, tag))| {
        sql.journal.rarest.with(&[
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
        .map(|(item, tag)| search.by_tag_in(&sql.journal.last_by_tag, item, tag))
        .collect();
    if last.is_empty() {
        return None;
    }
    let after = Literal::position(page.after);
    let last = sql.journal.last.with(&[("after", &after), ("searches", &Literal::union(&last))]);
    let found = searches_above(sql, query, Literal::noted_last(), page, Manner::Looking, rarest);
    Some(format!("{last};\n{}", reading(sql, &Literal::union(&found), page)))
}

/// A text that reads what searches find.
pub(super) fn reading(sql: &Sql, found: &Literal, page: Page) -> String {
    sql.journal.read.with(&[
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
        self.by_tag_in(&self.sql.journal.search_tag, item, tag)
    }

    fn by_tag_in(&self, statement: &Statement, item: &Item, tag: &Tag) -> String {
        let others = item.tags().filter(|other| *other != tag).map(Tag::as_str);
        let others: Vec<_> = others.collect();
        let locking = Literal::locking(self.manner == Manner::Locking);
        let others = match others.len() {
            0 => String::new(),
            count => self.sql.journal.others.with(&[
                ("others", &Literal::texts(others)),
                ("others_count", &Literal::count(count)),
                ("locking", &locking),
            ]),
        };
        statement.with(&[
            ("tag", &Literal::text(tag.as_str())),
            ("types", &Literal::of_types(item.types())),
            ("others", &Literal::part(others)),
            ("after", &self.after),
            ("up_to", &Literal::position(self.page.up_to)),
            ("limit", &Literal::count(self.page.limit)),
            ("locking", &locking),
        ])
    }

    fn by_type(&self, event_type: &str) -> String {
        self.sql.journal.search_type.with(&[
            ("type", &Literal::text(event_type)),
            ("after", &self.after),
            ("up_to", &Literal::position(self.page.up_to)),
            ("limit", &Literal::count(self.page.limit)),
            ("locking", &Literal::locking(self.manner == Manner::Locking)),
        ])
    }

    fn all(&self) -> String {
        self.sql.journal.search_all.with(&[
            ("after", &self.after),
            ("up_to", &Literal::position(self.page.up_to)),
            ("limit", &Literal::count(self.page.limit)),
            ("locking", &Literal::locking(self.manner == Manner::Locking)),
        ])
    }
}
