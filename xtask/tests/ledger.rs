//! What the documents say is proven, is: every test they name exists, and every rule has one.

#![allow(clippy::unwrap_used, reason = "a test that cannot unwrap says less, not more")]

use std::collections::BTreeSet;
use std::ffi::OsStr;
use std::fs;
use std::path::{Path, PathBuf};

/// Where the cases of every suite are.
const TESTKIT: &str = "crates/sendoff-testkit/src";

fn workspace() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap().to_owned()
}

fn document(path: &str) -> String {
    fs::read_to_string(workspace().join(path)).unwrap()
}

/// Every source below a folder.
fn files(folder: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path));
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
    found
}

/// The text of every source below a folder.
fn sources(folder: &Path) -> Vec<String> {
    files(folder).into_iter().map(|path| fs::read_to_string(path).unwrap()).collect()
}

/// The letters, digits and underscores at the beginning.
fn word(text: &str) -> &str {
    let end = text.find(|letter: char| !letter.is_ascii_alphanumeric() && letter != '_');
    &text[..end.unwrap_or(text.len())]
}

/// What the sources have.
#[derive(Default)]
struct Sources {
    /// Functions with a `test` attribute.
    tests: BTreeSet<String>,
    functions: BTreeSet<String>,
    modules: BTreeSet<String>,
    /// What stands at the beginning of a line as macros that make tests are given it: alone, before a
    /// comma, or before a colon.
    listed: BTreeSet<String>,
    /// The numbers of rules in comments that say `Holds`.
    held: BTreeSet<String>,
    /// The numbers of schedules in comments of tests that say `attack`.
    attacks: BTreeSet<u32>,
}

impl Sources {
    fn below(folder: &str) -> Self {
        let mut all = Self::default();
        for text in sources(&workspace().join(folder)) {
            all.read(&text);
        }
        all
    }

    fn read(&mut self, text: &str) {
        let mut is_test = false;
        for line in text.lines().map(str::trim) {
            if line.starts_with("#[") {
                is_test |= line.contains("test");
            } else if let Some((_, rest)) = line.split_once("fn ") {
                self.functions.insert(word(rest).to_owned());
                if is_test {
                    self.tests.insert(word(rest).to_owned());
                }
                is_test = false;
            } else if let Some((_, rest)) = line.split_once("mod ") {
                self.modules.insert(word(rest).to_owned());
            }
            let first = word(line);
            // A case with arguments, which a statement that calls it would end otherwise.
            let has_arguments = line[first.len()..].starts_with('(') && line.ends_with(')');
            if has_arguments || matches!(line[first.len()..].chars().next(), None | Some(',' | ':'))
            {
                self.listed.insert(first.to_owned());
            }
            if let Some((_, rules)) =
                line.strip_prefix("///").and_then(|it| it.split_once("Holds "))
            {
                self.held.extend(rules.split_whitespace().map(word).map(str::to_owned));
            }
            if let Some((_, numbers)) =
                line.strip_prefix("///").and_then(|it| it.split_once("ttack"))
            {
                let words = numbers.trim_start_matches('s').split_whitespace();
                let numbers = words.filter(|it| *it != "and").map(|it| word(it).parse::<u32>());
                self.attacks.extend(numbers.map_while(Result::ok));
            }
        }
    }

    /// Whether a test of this name is run, be it made by a macro.
    fn run(&self, name: &str) -> bool {
        self.tests.contains(name) || self.is_case(name)
    }

    /// Whether a function of this name is given to a macro.
    fn is_case(&self, name: &str) -> bool {
        self.functions.contains(name) && self.listed.contains(name)
    }
}

/// The names in the last column of the table rows that begin like this: what stands in backticks and
/// has an underscore. With each, whether its part of the text, up to a semicolon, speaks of a suite.
fn named(document: &str, begin: &str) -> Vec<(String, bool)> {
    let mut names = Vec::new();
    let rows = document.lines().filter(|line| line.starts_with(begin));
    for row in rows.filter_map(|line| line.strip_suffix('|')) {
        for part in row.rsplit('|').next().unwrap().split(';') {
            let suite = part.contains("suite");
            let ticked = part.split('`').skip(1).step_by(2);
            let names_tests = |name: &&str| name.contains('_') && word(name) == *name;
            names.extend(ticked.filter(names_tests).map(|name| (name.to_owned(), suite)));
        }
    }
    names
}

fn missing_tests(path: &str, begin: &str) -> Vec<String> {
    let (all, testkit) = (Sources::below("crates"), Sources::below(TESTKIT));
    let names = named(&document(path), begin);
    assert!(names.len() > 20, "{path} has a table with tests in its last column");
    let is_there = |(name, suite): &(String, bool)| {
        if *suite { testkit.is_case(name) } else { all.run(name) }
    };
    names.into_iter().filter(|name| !is_there(name)).map(|(name, _)| name).collect()
}

#[test]
fn every_test_in_the_fault_ledger_exists() {
    assert_eq!(missing_tests("docs/spec/faults.md", "| "), [""; 0]);
    let modules = Sources::below("crates").modules;
    let ledger = document("docs/spec/faults.md");
    for named in ledger.split("`mod ").skip(1).map(word) {
        assert!(modules.contains(named), "mod {named}");
    }
}

#[test]
fn every_schedule_that_a_test_cites_has_a_line_and_every_test_in_it_exists() {
    assert_eq!(missing_tests("docs/spec/order.md", "| "), [""; 0]);
    let table = document("docs/spec/order.md");
    let lines = table.lines().filter_map(|line| line.strip_prefix("| ")?.split_once(" |"));
    let numbers: Vec<u32> = lines.filter_map(|(number, _)| number.parse().ok()).collect();
    assert!(numbers.iter().copied().eq(1..=26), "numbers never change: {numbers:?}");
    let cited = Sources::below("crates").attacks;
    assert!(cited.len() > 10, "{cited:?}");
    let unknown: Vec<_> = cited.iter().filter(|number| !numbers.contains(number)).collect();
    assert!(unknown.is_empty(), "no such schedule: {unknown:?}");
}

#[test]
fn every_fault_has_a_line_that_says_how_far_it_is_proven() {
    let ledger = document("docs/spec/faults.md");
    let mut number = 0;
    for line in ledger.lines().filter(|line| line.starts_with("| ") && !line.starts_with("| #")) {
        number += 1;
        let cells: Vec<_> = line.split(" | ").collect();
        assert_eq!(cells[0], format!("| {number}"), "numbers never change");
        let proven = ["**proven**", "**partly**: ", "**not**"];
        assert!(proven.iter().any(|word| cells[3].starts_with(word)), "line {number}");
        let dash = cells[4] == "– |";
        assert_eq!(cells[3].starts_with("**not**"), dash, "line {number}: tests, or none");
    }
    assert_eq!(number, 44);
}

/// A file that no other declares is not compiled, and the tests in it are never run.
#[test]
fn every_source_file_is_declared_by_another() {
    let mut orphans = Vec::new();
    for path in files(&workspace().join("crates")).into_iter().filter(|path| !is_root(path)) {
        let (folder, stem) = (path.parent().unwrap(), path.file_stem().unwrap());
        let folder = if stem == "mod" { folder.parent().unwrap() } else { folder };
        let module = if stem == "mod" { path.parent().unwrap().file_name().unwrap() } else { stem };
        let declared = format!("mod {};", module.to_str().unwrap());
        // Two versions of one driver share a file by its path.
        let by_path = format!("\"{}\"", path.file_name().unwrap().to_str().unwrap());
        let siblings = fs::read_dir(path.parent().unwrap()).unwrap();
        let mut siblings = siblings.flatten().map(|it| it.path()).filter(|it| it.is_file());
        let beside = folder.with_extension("rs");
        let parents = ["mod.rs", "main.rs", "lib.rs"].map(|name| folder.join(name));
        let mut texts = parents.iter().chain([&beside]).flat_map(fs::read_to_string);
        let is_declared = texts.any(|text| text.lines().any(|line| line.ends_with(&declared)))
            || siblings.any(|it| fs::read_to_string(it).is_ok_and(|text| text.contains(&by_path)));
        if !is_declared {
            orphans.push(path);
        }
    }
    assert!(orphans.is_empty(), "nobody declares {orphans:?}");
}

/// What cargo compiles by itself: roots of crates, programs, examples.
fn is_root(path: &Path) -> bool {
    let folder = path.parent().unwrap().file_name().unwrap();
    let name = path.file_name().unwrap();
    let is_one = |names: &[&str], name: &OsStr| names.iter().any(|it| name == *it);
    let is_of_crate = path.parent().unwrap().with_file_name("Cargo.toml").exists();
    is_one(&["main.rs", "lib.rs", "build.rs"], name)
        || folder == "bin"
        || is_of_crate && is_one(&["examples", "benches", "tests"], folder)
}

#[test]
fn every_test_that_shows_an_invariant_exists() {
    assert_eq!(missing_tests("ARCHITECTURE.md", "| I"), [""; 0]);
}

#[test]
fn every_rule_is_held_by_a_test_and_every_test_holds_a_rule_that_is_there() {
    let document = document("docs/spec/rules.md");
    let rules: BTreeSet<_> = document
        .split("- **")
        .skip(1)
        .map(|rule| word(rule).to_owned())
        .filter(|rule| !rule.is_empty())
        .collect();
    assert!(rules.len() > 80, "{}", rules.len());
    // A rule whose text begins so is not there at all yet.
    let later = |rule: &&String| document.contains(&format!("- **{rule}** (**later**)"));
    let held = Sources::below("crates").held;
    let unheld: Vec<_> = rules.difference(&held).filter(|rule| !later(rule)).collect();
    assert!(unheld.is_empty(), "held by no test: {unheld:?}");
    let letters: BTreeSet<_> = rules.iter().map(|rule| &rule[..1]).collect();
    let is_number = |held: &&String| {
        letters.contains(&held[..held.len().min(1)])
            && held.len() > 1
            && held[1..].chars().all(|digit| digit.is_ascii_digit())
    };
    let unknown: Vec<_> = held.iter().filter(is_number).filter(|it| !rules.contains(*it)).collect();
    assert!(unknown.is_empty(), "no such rule: {unknown:?}");
}
