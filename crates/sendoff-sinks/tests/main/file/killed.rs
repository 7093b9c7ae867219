//! The process that writes a file is killed, again and again.

use std::collections::BTreeSet;
use std::env;
use std::fs;

use sendoff_core::{Delivery, Event, Lane, Origin, Sink, Timestamp};
use sendoff_sinks::file::{FileOptions, FileSink};
use sendoff_testkit::process::{Node, say};
use sendoff_testkit::soak;

const PATH: &str = "SENDOFF_TEST_FILE";

/// Not a test of its own: the process that writes, until it is killed.
#[tokio::test]
async fn writer() {
    let Ok(path) = env::var(PATH) else { return };
    let options =
        FileOptions { rotate_bytes: 200_000, keep_files: 1_000, ..FileOptions::path(path) };
    let sink = FileSink::start(options).await.unwrap();
    loop {
        let event = |number: usize| Event::json("e", &"x".repeat(number * 97)).unwrap();
        let delivery = |number| Delivery {
            event: event(number),
            created_at: Timestamp::now(),
            attempt: 1,
            origin: Origin::Row(Lane::Cold),
        };
        let batch: Vec<_> = (0..20).map(delivery).collect();
        for (delivery, verdict) in batch.iter().zip(sink.deliver(&batch).await) {
            if verdict.is_ok() {
                say(&format!("done {}", delivery.id()));
            }
        }
    }
}

/// Fault 1: what it said was done is there, in whole lines, and the next process goes on behind it.
#[test]
fn what_a_killed_process_said_was_done_is_there() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("events.jsonl");
    let mut random = soak::random(7);
    let mut done = BTreeSet::new();
    for _ in 0..soak::rounds(5) {
        let told = [(PATH, path.to_str().unwrap())];
        let mut node = Node::start("file::killed::writer", &told);
        for _ in 0..random.usize(1..400) {
            done.insert(node.says_within(std::time::Duration::from_secs(60), "done "));
        }
        node.signal("-KILL");
        let _ = node.child.wait();
    }
    // Whoever opens it next mends it.
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let sink = runtime.block_on(FileSink::start(FileOptions::path(&path))).unwrap();
    drop(sink);
    let files = fs::read_dir(folder.path()).unwrap().map(|entry| entry.unwrap().path());
    let lines = files.filter(|path| path.extension().is_some_and(|of| of != "lock"));
    let found: BTreeSet<String> =
        lines.flat_map(|path| super::read(&path)).map(|arrived| arrived.id.to_string()).collect();
    assert!(done.len() > 100 && done.is_subset(&found));
}
