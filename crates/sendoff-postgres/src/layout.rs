//! One migration, two layouts.

use crate::options::Layout;

/// What stands at the end of a line that is for one layout only.
const FLAT: &str = "-- [flat]";
const PARTITIONED: &str = "-- [partitioned]";

/// A migration without the lines of the other layout.
pub(crate) fn for_layout(migration: &str, layout: Layout) -> String {
    let (ours, theirs) = match layout {
        Layout::Flat => (FLAT, PARTITIONED),
        Layout::Partitioned(_) => (PARTITIONED, FLAT),
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
        assert_eq!(for_layout(text, Layout::Flat), "always\nflat\nend\n");
        let partitioned = Layout::Partitioned(Period::Day);
        assert_eq!(for_layout(text, partitioned), "always\nparts\nend\n");
    }
}
