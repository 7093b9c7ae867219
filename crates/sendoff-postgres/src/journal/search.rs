//! Queries as the searches that the database makes for them.

use sendoff_core::journal::{Item, Query};

use crate::wire::array_text;

/// Columns of a list of searches; see `journal_search`.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Search {
    pub(super) kinds: Vec<i16>,
    pub(super) tags: Vec<Option<String>>,
    pub(super) types: Vec<Option<String>>,
}

const BY_TAG: i16 = 1;
const BY_TYPE: i16 = 2;
const ALL: i16 = 3;

impl Search {
    pub(super) fn of(query: &Query) -> Self {
        let mut search = Self::default();
        if query.items().is_empty() {
            search.push(ALL, None, None);
        }
        for item in query.items() {
            search.add(item);
        }
        search
    }

    fn add(&mut self, item: &Item) {
        if item.tags().len() > 0 {
            let tags = array_text(item.tags().map(|tag| tag.as_str()));
            let types = (item.types().len() > 0).then(|| array_text(item.types()));
            self.push(BY_TAG, Some(tags), types);
        } else if item.types().len() > 0 {
            item.types().for_each(|name| self.push(BY_TYPE, None, Some(array_text([name]))));
        } else {
            self.push(ALL, None, None);
        }
    }

    fn push(&mut self, kind: i16, tags: Option<String>, types: Option<String>) {
        self.kinds.push(kind);
        self.tags.push(tags);
        self.types.push(types);
    }
}

#[cfg(test)]
mod tests {
    use sendoff_core::journal::Tag;

    use super::*;

    #[test]
    fn an_item_is_searched_by_its_tags_else_by_each_of_its_types() {
        let tag = |text: &str| text.parse::<Tag>().unwrap();
        let query = Query::of(Item::any().of_type("a").of_type("b").tagged(tag("k=1")))
            .or(Query::of(Item::any().tagged(tag("k=2")).tagged(tag("l={\"\\}"))))
            .or(Query::of(Item::any().of_type("c").of_type("d")));
        let Search { kinds, tags, types } = Search::of(&query);
        assert_eq!(kinds, [1, 1, 2, 2]);
        let shown = |texts: Vec<Option<String>>| -> Vec<String> {
            texts.into_iter().map(|text| text.unwrap_or_default()).collect()
        };
        assert_eq!(shown(tags), [r#"{"k=1"}"#, r#"{"k=2","l={\"\\}"}"#, "", ""]);
        assert_eq!(shown(types), [r#"{"a","b"}"#, "", r#"{"c"}"#, r#"{"d"}"#]);
        assert_eq!(Search::of(&Query::all()).kinds, [3]);
        assert_eq!(Search::of(&Query::of(Item::any())).kinds, [3]);
    }
}
