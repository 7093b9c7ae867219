//! Lines on stdout, read by another process.

use std::env;
use std::fs;
use std::io::Read;
use std::process::Stdio;
use std::time::Duration;

use sendoff_core::{Delivery, Event, Lane, Origin, Sink, Timestamp};
use sendoff_sinks::file::{FileOptions, FileSink};
use sendoff_sinks::link::LinkOptions;
use sendoff_testkit::wait::within;

const ROLE: &str = "SENDOFF_TEST_STDOUT";
const PLENTY: Duration = Duration::from_secs(60);
/// More than a pipe holds.
const LARGE: usize = 200_000;

fn delivery(payload: &impl serde::Serialize) -> Delivery {
    Delivery {
        event: Event::json("e", payload).unwrap(),
        created_at: Timestamp::now(),
        attempt: 1,
        origin: Origin::Row(Lane::Cold),
    }
}

/// Not a test of its own: the process that prints.
#[tokio::test]
async fn printer() {
    if env::var(ROLE).as_deref() != Ok("printer") {
        return;
    }
    let sink = FileSink::start(FileOptions::stdout()).await.unwrap();
    let batch: Vec<_> = (0..100).map(|number: u32| delivery(&number)).collect();
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

/// Not a test of its own: the process whose stdout nobody reads. It says on stderr how many threads it has.
#[tokio::test]
async fn printer_that_nobody_reads() {
    if env::var(ROLE).as_deref() != Ok("unread") {
        return;
    }
    let moment = Duration::from_millis(20);
    let link = LinkOptions {
        deliver_within: moment,
        connect_within: moment,
        reopen_after: Duration::from_millis(1),
        reopen_after_most: Duration::from_millis(1),
        ..LinkOptions::default()
    };
    let sink = FileSink::start(FileOptions { link, ..FileOptions::stdout() }).await.unwrap();
    let batch = [delivery(&"x".repeat(LARGE))];
    let (mut tries, mut first) = (0, None);
    within(PLENTY, "it to be tried often", async || {
        if sink.is_healthy() {
            assert!(sink.deliver(&batch).await[0].is_err());
            first = first.or_else(|| Some(threads()));
            tries += 1;
        }
        tries == 20
    })
    .await;
    eprintln!("threads: {} then {}", first.unwrap(), threads());
    // Without waiting for the thread that cannot end.
    std::process::exit(0);
}

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// Otherwise each attempt would leave a thread and a batch.
#[test]
#[cfg(target_os = "linux")]
fn of_a_stdout_that_nobody_reads_one_thread_waits() {
    let mut program = std::process::Command::new(env::current_exe().unwrap());
    program.args(["--exact", "file::stdout::printer_that_nobody_reads", "--nocapture"]);
    let mut program =
        program.env(ROLE, "unread").stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut said = String::new();
    program.stderr.take().unwrap().read_to_string(&mut said).unwrap();
    program.wait().unwrap();
    let counts = said.lines().find_map(|line| line.strip_prefix("threads: ")).expect(&said);
    let (first, last) = counts.split_once(" then ").unwrap();
    let (first, last): (usize, usize) = (first.parse().unwrap(), last.parse().unwrap());
    assert!(last <= first + 1, "{counts}");
}
