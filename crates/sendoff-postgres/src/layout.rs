//! One migration, two layouts.

use crate::options::Layout;

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

/// A migration without the lines of the other layout.
pub(crate) fn for_layout(migration: &str, lines: Lines) -> String {
    let (ours, theirs) = match lines {
        Lines::Flat => (FLAT, PARTITIONED),
        Lines::Partitioned => (PARTITIONED, FLAT),
    };
    let mut text = String::with_capacity(migration.len());
    for line in migration.lines().filter(|line| !line.ends_with(theirs)) {
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
    fn a_line_is_for_its_layout_only() {
        let text = "always\nflat   -- [flat]\nparts -- [partitioned]\nend";
        assert_eq!(for_layout(text, Layout::Flat.into()), "always\nflat\nend\n");
        let partitioned = Layout::Partitioned(Period::Day).into();
        assert_eq!(for_layout(text, partitioned), "always\nparts\nend\n");
    }
}
