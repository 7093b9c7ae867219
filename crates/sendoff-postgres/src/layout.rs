//! One migration, two layouts; and one text of a function, whichever migrations make it.

use crate::options::Layout;

/// Functions that several migrations make. Each stands here as the last of them makes it: the ones before
/// may as well, because a function is only called when all of them ran.
const FUNCTIONS: [Function; 5] = [
    Function {
        name: "exactly_once",
        whose: "outbox_",
        texts: &[include_str!("../migrations/functions/exactly_once.sql")],
    },
    Function {
        name: "journal_append",
        whose: "journal_",
        texts: &[
            include_str!("../migrations/functions/journal_append.sql"),
            include_str!("../migrations/functions/writing.sql"),
            include_str!("../migrations/functions/journal_append_sql.sql"),
        ],
    },
    Function {
        name: "journal_clash",
        whose: "journal_",
        texts: &[include_str!("../migrations/functions/journal_clash.sql")],
    },
    Function {
        name: "outbox_keys",
        whose: "outbox_",
        texts: &[include_str!("../migrations/functions/outbox_keys.sql")],
    },
    Function {
        name: "sendoff_emit",
        whose: "outbox_",
        texts: &[
            include_str!("../migrations/functions/writing.sql"),
            include_str!("../migrations/functions/sendoff_emit.sql"),
        ],
    },
];

/// A function with all that only it and its kind need.
struct Function {
    name: &'static str,
    /// What the names of its helpers begin with, in the place of [`HELPER`].
    whose: &'static str,
    texts: &'static [&'static str],
}

/// What the names of helpers begin with that outbox and journal both have.
const HELPER: &str = "sendoff.writing_";

/// What a line begins with in whose place a function stands.
const INCLUDE: &str = "-- include ";

/// In its place stand settings by which a function's plans are made once, along the indexes: the caller's session is
/// not ours to rely on.
const PLANNED: (&str, &str) =
    ("-- include planned\n", include_str!("../migrations/functions/planned.sql"));

/// What stands at the end of a line that is for one layout only.
const FLAT: &str = "-- [flat]";
const PARTITIONED: &str = "-- [partitioned]";

/// Which lines of a migration are meant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Lines {
    Flat,
    Partitioned,
}

impl From<Layout> for Lines {
    fn from(layout: Layout) -> Self {
        match layout {
            Layout::Flat => Self::Flat,
            Layout::Partitioned(_) => Self::Partitioned,
        }
    }
}

/// A migration with the functions that it includes.
fn with_functions(migration: &str) -> String {
    let mut text = String::with_capacity(migration.len());
    for line in migration.lines() {
        let name = line.strip_prefix(INCLUDE);
        match FUNCTIONS.iter().find(|function| Some(function.name) == name) {
            Some(Function { whose, texts, .. }) => {
                let whose = format!("sendoff.{whose}");
                let (mark, planned) = PLANNED;
                for part in *texts {
                    text.push_str(&part.replace(HELPER, &whose).replace(mark, planned));
                }
            }
            None => {
                text.push_str(line);
                text.push('\n');
            }
        }
    }
    text
}

/// A migration without the lines of the other layout.
pub(crate) fn for_layout(migration: &str, lines: Lines) -> String {
    let (ours, theirs) = match lines {
        Lines::Flat => (FLAT, PARTITIONED),
        Lines::Partitioned => (PARTITIONED, FLAT),
    };
    let mut text = String::with_capacity(migration.len());
    for line in with_functions(migration).lines().filter(|line| !line.ends_with(theirs)) {
        text.push_str(line.strip_suffix(ours).map_or(line, str::trim_end));
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use sendoff_core::partition::Period;

    #[test]
    fn a_function_stands_where_it_is_included() {
        let text = for_layout("begin\n-- include journal_clash\nend", Lines::Flat);
        assert!(text.contains("create or replace function sendoff.journal_clash("), "{text}");
        assert!(text.starts_with("begin\n") && text.ends_with("$body$;\nend\n"), "{text}");
    }

    #[test]
    fn a_line_is_for_its_layout_only() {
        let text = "always\nflat   -- [flat]\nparts -- [partitioned]\nend";
        assert_eq!(for_layout(text, Layout::Flat.into()), "always\nflat\nend\n");
        let partitioned = Layout::Partitioned(Period::Day).into();
        assert_eq!(for_layout(text, partitioned), "always\nparts\nend\n");
    }
}
