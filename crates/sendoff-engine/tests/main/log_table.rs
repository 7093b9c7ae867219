//! The guide's table of log lines, held against the sources: what can be logged at WARN or ERROR stands there.

use std::fs;
use std::path::{Path, PathBuf};

/// The clone that this crate lies in.
fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            found.push(path);
        }
    }
}

/// The last text among the arguments of a macro, which is the message: constant, as all of them are.
fn message(arguments: &str) -> Option<String> {
    let (mut depth, mut text, mut last) = (1, None::<String>, None);
    let mut characters = arguments.chars();
    while let Some(character) = characters.next() {
        match (&mut text, character) {
            (Some(text), '\\') => match characters.next()? {
                // A line that goes on, without the spaces before it.
                '\n' => {
                    let rest = characters.as_str().trim_start();
                    characters = rest.chars();
                }
                escaped => text.push(escaped),
            },
            (Some(_), '"') => last = text.take(),
            (Some(text), character) => text.push(character),
            (None, '"') => text = Some(String::new()),
            (None, '(' | '[' | '{') => depth += 1,
            (None, ')' | ']' | '}') => depth -= 1,
            (None, _) => {}
        }
        if depth == 0 {
            return last;
        }
    }
    None
}

/// Holds M3, M6.
#[test]
fn every_warning_and_error_is_in_the_guide() {
    // As a reader sees it.
    let plain = |text: &str| text.replace('`', "");
    let guide = plain(&fs::read_to_string(root().join("docs/guide/operating.md")).unwrap());
    let mut files = Vec::new();
    for of in ["engine", "sqlite", "postgres", "mysql", "admin"] {
        sources(&root().join(format!("crates/sendoff-{of}/src")), &mut files);
    }
    let (mut looked_at, mut missing) = (0, Vec::new());
    for file in files {
        let source = fs::read_to_string(&file).unwrap();
        for name in ["warn!(", "error!("] {
            for (at, _) in source.match_indices(name) {
                let Some(message) = message(&source[at + name.len()..]) else { continue };
                looked_at += 1;
                // One that is a variable stands elsewhere.
                if !message.starts_with('{') && !guide.contains(&plain(&message)) {
                    missing.push(format!("{}: {message}", file.display()));
                }
            }
        }
    }
    assert!(looked_at > 70, "{looked_at} messages were found");
    assert!(missing.is_empty(), "not in docs/guide/operating.md:\n{}", missing.join("\n"));
}
