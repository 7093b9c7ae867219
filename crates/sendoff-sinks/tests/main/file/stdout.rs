//! Lines on stdout, read by another process.

use std::env;

use sendoff_core::{Delivery, Event, Lane, Origin, Sink, Timestamp};
use sendoff_sinks::file::{FileOptions, FileSink};

const ROLE: &str = "SENDOFF_TEST_STDOUT";

/// Not a test of its own: the process that prints.
#[tokio::test]
async fn printer() {
    if env::var(ROLE).is_err() {
        return;
    }
    let sink = FileSink::start(FileOptions::stdout()).await.unwrap();
    let delivery = |number: u32| Delivery {
        event: Event::json("e", &number).unwrap(),
        created_at: Timestamp::now(),
        attempt: 1,
        origin: Origin::Row(Lane::Cold),
    };
    let batch: Vec<_> = (0..100).map(delivery).collect();
    // What the test's own runner prints before is not ours.
    println!();
    assert!(sink.deliver(&batch).await.iter().all(Result::is_ok));
    assert!(sink.close().await);
}

#[test]
fn stdout_has_a_line_for_each_event() {
    let mut program = std::process::Command::new(env::current_exe().unwrap());
    program.args(["--exact", "file::stdout::printer", "--nocapture"]).env(ROLE, "printer");
    let output = program.output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.starts_with('{')).map(super::arrived);
    let payloads: Vec<_> = lines.map(|line| String::from_utf8(line.payload).unwrap()).collect();
    assert_eq!(payloads, (0..100).map(|number| number.to_string()).collect::<Vec<_>>());
}
