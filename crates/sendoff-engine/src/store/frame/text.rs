//! Files of SQL: a statement with its variants in each.
//!
//! ```sql
//! -- text claim, claim_suspects
//! select event_id from outbox_event
//!  where {visible}
//!  where {visible} and losses > 0  -- [claim_suspects]
//!
//! -- text first_visible
//! select event_id from outbox_event where {visible} limit 1
//!
//! -- part visible
//! status in (0, 2)
//! and due_at <= now()
//! ```
//!
//! - `-- text` begins a text, with the names it can be had by. A file without is one text.
//! - `-- part` begins a piece, which stands wherever its name is in braces.
//! - A line that ends in `-- [name]` is only in a text that is asked for by that name, and one that
//!   ends in `-- [not name]` only in the others. Several names stand beside each other, with commas.
//! - Whatever else begins with `--` is a comment.

/// The text of a file that is known by these names, without comments. Empty if there is none.
pub fn text(file: &str, names: &[&str]) -> String {
    let sections = Section::all(file, names);
    let asked = |section: &&Section<'_>| match &section.kind {
        Kind::Text(known) => known.iter().any(|name| names.contains(name)),
        Kind::Whole => true,
        Kind::Part(_) => false,
    };
    let mut text = String::new();
    for section in sections.iter().filter(asked) {
        section.write(&mut text, "", &sections);
    }
    text.trim().to_owned()
}

/// The file of a statement in a folder of a store's `sql`: one of its own name, or that of its variants
/// (`in file`), which may be in another folder (`in shared/file`).
#[doc(hidden)]
#[macro_export]
macro_rules! sql_file {
    ($folder:ident/$name:ident) => {
        include_str!(concat!(
            env!("CARGO_MANIFEST_DIR"),
            "/sql/",
            stringify!($folder),
            "/",
            stringify!($name),
            ".sql"
        ))
    };
    ($folder:ident/$name:ident in $file:ident) => {
        $crate::sql_file!($folder / $file)
    };
    ($folder:ident/$name:ident in $other:ident/$file:ident) => {
        $crate::sql_file!($other / $file)
    };
}

struct Section<'f> {
    kind: Kind<'f>,
    lines: Vec<&'f str>,
}

enum Kind<'f> {
    /// What stands before any other section.
    Whole,
    Text(Vec<&'f str>),
    Part(&'f str),
}

impl<'f> Section<'f> {
    fn all(file: &'f str, names: &[&str]) -> Vec<Self> {
        let mut sections = vec![Self { kind: Kind::Whole, lines: Vec::new() }];
        for line in file.lines() {
            if let Some(kind) = Kind::begun_by(line) {
                sections.push(Self { kind, lines: Vec::new() });
            } else if let Some(line) = kept(line, names) {
                sections.last_mut().expect("begins with one").lines.push(line);
            }
        }
        sections
    }

    /// Lines after the first begin where the piece does.
    fn write(&self, text: &mut String, indent: &str, all: &[Self]) {
        for (at, line) in self.lines.iter().enumerate() {
            if at > 0 {
                text.push('\n');
                text.push_str(indent);
            }
            let mut rest = *line;
            while let Some((before, part, after)) = first_part(rest, all) {
                text.push_str(before);
                let begin = text.rfind('\n').map_or(0, |end| end + 1);
                let indent = " ".repeat(text.len() - begin);
                part.write(text, &indent, all);
                rest = after;
            }
            text.push_str(rest);
        }
    }
}

impl<'f> Kind<'f> {
    fn begun_by(line: &'f str) -> Option<Self> {
        if let Some(names) = line.strip_prefix("-- text ") {
            return Some(Self::Text(names.split(',').map(str::trim).collect()));
        }
        line.strip_prefix("-- part ").map(|name| Self::Part(name.trim()))
    }
}

/// A line without its mark, if it is in a text of these names.
fn kept<'f>(line: &'f str, names: &[&str]) -> Option<&'f str> {
    if line.trim().is_empty() || line.trim_start().starts_with("--") {
        return None;
    }
    let marked = line.strip_suffix(']').and_then(|line| line.rsplit_once("-- ["));
    let Some((line, mark)) = marked else { return Some(line) };
    let (others, marks) = match mark.strip_prefix("not ") {
        Some(marks) => (true, marks),
        None => (false, mark),
    };
    let is_in = marks.split(',').any(|name| names.contains(&name.trim())) != others;
    is_in.then(|| line.trim_end())
}

/// The first part that a line has in braces, and what stands around it.
fn first_part<'f, 's>(
    line: &'f str,
    all: &'s [Section<'f>],
) -> Option<(&'f str, &'s Section<'f>, &'f str)> {
    line.match_indices('{').find_map(|(begin, _)| {
        let (name, after) = line[begin + 1..].split_once('}')?;
        let of_that_name =
            |section: &&Section<'_>| matches!(section.kind, Kind::Part(part) if part == name);
        Some((&line[..begin], all.iter().find(of_that_name)?, after))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const FILE: &str = "\
-- claim: takes rows.
-- text claim, claim_suspects
select '{}' from t
 where {visible}
   and losses < 2   -- [not claim_suspects]
   and losses >= 2  -- [claim_suspects]
 limit 1            -- [claim, first]
 limit 2            -- [not claim, first]

-- text first
select 1 where ({visible})

-- part visible
status in (0, 2)
-- Rows that are due.
and {due}
-- part due
due_at <= now()
";

    #[test]
    fn a_text_has_its_parts_and_the_lines_that_are_for_it() {
        assert_eq!(
            text(FILE, &["claim"]),
            "select '{}' from t\n where status in (0, 2)\n       and due_at <= now()\n   \
             and losses < 2\n limit 1"
        );
        assert!(text(FILE, &["claim_suspects"]).contains("\n   and losses >= 2\n limit 2"));
        assert_eq!(
            text(FILE, &["first"]),
            "select 1 where (status in (0, 2)\n                and due_at <= now())"
        );
        assert_eq!(text(FILE, &["another"]), "");
    }

    #[test]
    fn a_file_without_sections_is_one_text() {
        let file = "-- why\nselect 1\n\n  -- why\n  from t -- [durable]\n";
        assert_eq!(text(file, &["any"]), "select 1");
        assert_eq!(text(file, &["any", "durable"]), "select 1\n  from t");
    }
}
