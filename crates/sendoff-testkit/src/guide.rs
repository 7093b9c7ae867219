//! What the guide tells people to run, so that tests can run it.

#![allow(
    clippy::missing_panics_doc,
    reason = "a page that is not there is a mistake of the test's own"
)]

use std::fs;
use std::path::Path;

/// The blocks of a page of the guide whose fence says exactly this, such as `sql postgres`; at least one.
pub fn blocks(page: &str, fence: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let text = fs::read_to_string(&file).expect("the page is there");
    let blocks = blocks_in(&text, fence);
    assert!(!blocks.is_empty(), "{page} has no block ```{fence}");
    blocks
}

/// The one block of which there is one.
pub fn block(page: &str, fence: &str) -> String {
    let mut blocks = blocks(page, fence);
    assert_eq!(blocks.len(), 1, "{page} has one block ```{fence}");
    blocks.remove(0)
}

/// What the fences of a page's blocks say, each once: a test can see that it left none out.
pub fn fences(page: &str) -> Vec<String> {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide").join(page);
    let text = fs::read_to_string(&file).expect("the page is there");
    let mut fences: Vec<_> = text.lines().filter_map(|line| line.strip_prefix("```")).collect();
    fences.retain(|fence| !fence.is_empty());
    fences.sort_unstable();
    fences.dedup();
    fences.into_iter().map(str::to_owned).collect()
}

fn blocks_in(page: &str, fence: &str) -> Vec<String> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(found) = line.strip_prefix("```") else { continue };
        let block: Vec<_> = lines.by_ref().take_while(|line| *line != "```").collect();
        if found == fence {
            blocks.push(block.join("\n"));
        }
    }
    blocks
}

/// The statements of a block, without comments that stand on a line of their own. Only for texts in which no
/// semicolon ends a line within a statement.
pub fn statements(block: &str) -> Vec<String> {
    let lines: Vec<_> = block.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
    let statements = lines.join("\n");
    let statements = statements.split(";\n").map(|text| text.trim().trim_end_matches(';'));
    statements.filter(|text| !text.is_empty()).map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_block_is_found_by_what_its_fence_says() {
        let page =
            "a\n```sql\nselect 1;\n```\n```sql mysql\n-- two\nselect\n  2;\ncall p();\n```\n";
        assert_eq!(blocks_in(page, "sql"), ["select 1;"]);
        assert_eq!(statements(&blocks_in(page, "sql mysql")[0]), ["select\n  2", "call p()"]);
        assert!(blocks_in(page, "text").is_empty());
    }
}
