//! Programs that are not ours, and write as the guide says: `psql`, `mariadb`, Python.

#![allow(clippy::missing_panics_doc, reason = "a client that fails is a test that failed")]

use std::io::{ErrorKind, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use sendoff_engine::Outbox;
use sendoff_engine::store::OutboxStore;

use crate::acceptance::Inbox;
use crate::wait::eventually;

/// Runs a program with this text as its input. `package` is what to install where it is missing: a test must
/// not pass because of that.
pub fn run(program: &str, package: &str, arguments: &[&str], input: &str) -> Output {
    let child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn();
    let mut child = match child {
        Ok(child) => child,
        Err(error) if error.kind() == ErrorKind::NotFound => {
            panic!(
                "{program} is missing: install it (Debian: {package}), as `cargo xtask test` does"
            )
        }
        Err(error) => panic!("{program}: {error}"),
    };
    let mut to = child.stdin.take().expect("it can be written to");
    // One that ended at once has said why.
    let _ = to.write_all(input.as_bytes());
    drop(to);
    child.wait_with_output().expect("it ends")
}

/// The same, of one that must succeed; answers what it wrote.
pub fn succeed(program: &str, package: &str, arguments: &[&str], input: &str) -> String {
    let output = run(program, package, arguments, input);
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program}: {said}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Runs a program in Python, in this folder, with the first interpreter that has this module.
pub fn python(module: &str, package: &str, folder: &Path, program: &str) {
    let has = |python: &&str| {
        let import = format!("import {module}");
        let asked = Command::new(python).args(["-c", &import]).stderr(Stdio::null()).status();
        asked.is_ok_and(|status| status.success())
    };
    let python = ["python3", "/usr/bin/python3"].into_iter().find(has).unwrap_or_else(|| {
        panic!(
            "no python3 has the module {module}: install it (Debian: {package}), as \
             `cargo xtask test` does"
        )
    });
    let file = folder.join("program.py");
    std::fs::write(&file, program).expect("the folder can be written to");
    let ran = Command::new(python).arg(&file).current_dir(folder).output().expect("it starts");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
}

/// What an engine delivers of what such programs write: types and payloads, sorted, once so many are settled and
/// none is left.
pub async fn delivered<S: OutboxStore + Clone>(store: S, many: usize) -> Vec<(String, Vec<u8>)> {
    let inbox = Inbox::new();
    let outbox = Outbox::builder(store.clone())
        .on("order.placed", inbox.clone())
        .on("scan.done", inbox.clone())
        .start()
        .await
        .expect("it starts");
    eventually("all to be delivered", async || {
        let counts = store.counts().await.expect("it answers");
        counts.pending() == 0 && usize::try_from(counts.done) == Ok(many)
    })
    .await;
    outbox.close().await;
    let received = inbox.received();
    let mut received: Vec<_> = received
        .iter()
        .map(|one| (one.event.event_type().to_owned(), one.event.payload().to_vec()))
        .collect();
    received.sort();
    received
}

/// Every byte that there is, in hexadecimal digits.
pub fn every_byte() -> String {
    (0..=255).map(|byte| format!("{byte:02x}")).collect()
}

/// What is delivered of the guide's order, written by a client of a database, and of [`every_byte`].
pub fn order_and_scan() -> [(String, Vec<u8>); 2] {
    [
        ("order.placed".to_owned(), "{\"id\": 4711, \"who\": \"Zoë\"}".as_bytes().to_vec()),
        ("scan.done".to_owned(), (0..=255).collect()),
    ]
}
