//! The guide is whole: each page is in the documentation, where its programs are compiled and its links lead somewhere.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn read(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// The names of the files in a folder that end so, without that.
fn names(folder: &str, ending: &str) -> BTreeSet<String> {
    let files = fs::read_dir(workspace().join(folder)).unwrap();
    let names = files.map(|file| file.unwrap().file_name().into_string().unwrap());
    names.filter_map(|name| name.strip_suffix(ending).map(str::to_owned)).collect()
}

fn pages() -> BTreeSet<String> {
    let pages = names("docs/guide", ".md");
    assert!(pages.len() > 10, "{pages:?}");
    pages
}

/// Where the links of a text lead that are defined in it, `[label]: there`.
fn definitions(text: &str) -> BTreeSet<(&str, &str)> {
    let lines = text.lines().filter_map(|line| line.strip_prefix('['));
    lines.filter_map(|line| line.split_once("]: ")).collect()
}

#[test]
fn every_page_is_a_module_of_the_documentation_and_in_the_readme() {
    let (modules, readme) = (read("crates/sendoff/src/guide/mod.rs"), read("README.md"));
    for page in pages() {
        let module = page.replace('-', "_");
        assert!(modules.contains(&format!("    {module} \"{page}.md\";\n")), "{page}");
        assert!(modules.contains(&format!("| [`{module}`] |")), "{page} is in the table");
        assert!(readme.contains(&format!("](docs/guide/{page}.md)")), "{page}");
    }
}

#[test]
fn every_example_is_a_module_of_the_documentation() {
    let modules = read("crates/sendoff/src/guide/examples.rs");
    let mut examples = names("crates/sendoff/examples", ".rs");
    let wallets = names("crates/sendoff/examples/wallets", ".rs");
    examples.extend(wallets.iter().map(|file| format!("wallets/{file}")));
    for example in examples {
        assert!(modules.contains(&format!("\"{example}.rs\"")), "{example}");
    }
}

/// A link that names a file leads nowhere in the documentation: pages name what they link to, and say at their end
/// where that is in the repository; `links.md` says where it is in the documentation.
#[test]
fn links_lead_to_pages_in_the_repository_and_to_modules_in_the_documentation() {
    let links = read("crates/sendoff/src/guide/links.md");
    let documented: BTreeSet<_> = definitions(&links).into_iter().map(|(label, _)| label).collect();
    let folder = workspace().join("docs/guide");
    for page in pages() {
        let text = fs::read_to_string(folder.join(&page).with_extension("md")).unwrap();
        for (at, _) in text.match_indices("](") {
            let to = &text[at + 2..];
            let is_kept = to.starts_with('#') || to.starts_with("https://");
            assert!(is_kept, "{page}: {:?}", to.lines().next());
        }
        for (label, to) in definitions(&text) {
            let file = to.split('#').next().unwrap();
            assert!(folder.join(file).exists(), "{page}: {to}");
            assert!(documented.contains(label), "links.md lacks [{label}], which {page} has");
        }
    }
}
