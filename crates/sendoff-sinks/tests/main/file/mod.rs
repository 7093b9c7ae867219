//! The file sink, on a disk that can be full.

mod killed;
mod stdout;

use std::collections::BTreeMap;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use base64::prelude::{BASE64_STANDARD, Engine as _};
use sendoff_core::{Event, StoredEvent};
use sendoff_sinks::envelope::{CloudEventsOptions, EnvelopeOptions};
use sendoff_sinks::file::{FileOptions, FileSink, LINE_BYTES};
use sendoff_sinks::link::LinkOptions;
use sendoff_testkit::servers::is_root;
use sendoff_testkit::sinks::{Arrived, Expected, Refusal, SinkGround, async_trait};
use serde_json::value::RawValue;
use tempfile::TempDir;

sendoff_testkit::sink_suite!(Disk::new(); poison refusals; without
    credentials = "a file has no credentials",
    revocation = "a file has no credentials",
    kill = "a file has no server; `killed` kills the process that writes it",
    durable = "a file has no server; `killed` kills the process that writes it",
    freeze = "a file has no server");

/// A folder on a small disk of its own, where this process may make one.
struct Disk {
    folder: TempDir,
    is_mounted: bool,
}

impl Disk {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=32m", "sendoff-test"]).arg(folder.path());
        let is_mounted = is_root() && mount.output().is_ok_and(|mounted| mounted.status.success());
        Self { folder, is_mounted }
    }

    fn path(&self) -> PathBuf {
        self.folder.path().join("events.jsonl")
    }

    fn filler(&self) -> PathBuf {
        self.folder.path().join("filler")
    }
}

impl Drop for Disk {
    fn drop(&mut self) {
        if self.is_mounted {
            let _ = Command::new("umount").arg("--lazy").arg(self.folder.path()).status();
        }
    }
}

const FULL: Refusal = Refusal { name: "a full disk", expected: Expected::Unavailable };

#[async_trait]
impl SinkGround for Disk {
    type Sink = FileSink;

    async fn sink(&self) -> FileSink {
        let link = LinkOptions { deliver_within: self.deadline(), ..LinkOptions::default() };
        let options = FileOptions { link, ..FileOptions::path(self.path()) };
        FileSink::start(options).await.unwrap()
    }

    async fn close(&self, sink: &FileSink) -> bool {
        sink.close().await
    }

    async fn arrived(&self) -> Vec<Arrived> {
        read(&self.path())
    }

    fn deadline(&self) -> Duration {
        Duration::from_secs(20)
    }

    async fn poison(&self, event: &Event) -> Event {
        let mut stored = AsRef::<StoredEvent>::as_ref(event).clone();
        stored.payload = vec![b'x'; LINE_BYTES].into();
        Event::restore(stored).unwrap()
    }

    fn refusals(&self) -> Vec<Refusal> {
        if !self.is_mounted {
            eprintln!(
                "left out: no disk that can be filled, because this process may not mount one"
            );
        }
        vec![FULL]
    }

    async fn refuse(&self, _: &Refusal) {
        if !self.is_mounted {
            // The next best: no file can be made where a folder is.
            fs::rename(self.path(), self.filler()).unwrap();
            return fs::create_dir(self.path()).unwrap();
        }
        let mut filler = fs::File::create(self.filler()).unwrap();
        while filler.write_all(&[0; 4096]).is_ok() {}
    }

    async fn allow(&self) {
        if !self.is_mounted {
            fs::remove_dir(self.path()).unwrap();
            return fs::rename(self.filler(), self.path()).unwrap();
        }
        fs::remove_file(self.filler()).unwrap();
    }
}

#[derive(serde::Deserialize)]
struct Line<'l> {
    id: String,
    r#type: String,
    key: Option<String>,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    content_type: String,
    #[serde(borrow)]
    data: Option<&'l RawValue>,
    data_base64: Option<String>,
}

/// Every line is whole, or this panics.
fn read(path: &Path) -> Vec<Arrived> {
    let text = fs::read_to_string(path).unwrap_or_default();
    assert!(text.is_empty() || text.ends_with('\n'), "the last line is whole");
    text.lines().map(arrived).collect()
}

fn arrived(line: &str) -> Arrived {
    let line: Line<'_> = serde_json::from_str(line).unwrap();
    let payload = match (line.data, line.data_base64) {
        (Some(data), None) => data.get().as_bytes().to_vec(),
        (None, Some(text)) => BASE64_STANDARD.decode(text).unwrap(),
        _ => panic!("a line has its payload once"),
    };
    Arrived {
        id: line.id.parse().unwrap(),
        event_type: line.r#type,
        payload,
        headers: line.headers,
        key: line.key,
        content_type: Some(line.content_type),
    }
}

#[test]
fn options_that_are_wrong_are_named() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let refused = |options: FileOptions| {
        let error = runtime.block_on(FileSink::start(options)).unwrap_err();
        error.path().to_owned()
    };
    let folder = tempfile::tempdir().unwrap();
    let path = || FileOptions::path(folder.path().join("events"));
    assert_eq!(refused(FileOptions::path("/")), "file.to.path");
    assert_eq!(refused(FileOptions::path(folder.path().join("none/x"))), "file.to.path");
    assert_eq!(refused(FileOptions { keep_files: 0, ..path() }), "file.keep_files");
    assert_eq!(refused(FileOptions { rotate_bytes: 0, ..path() }), "file.rotate_bytes");
    let envelope = EnvelopeOptions::CloudEvents(CloudEventsOptions::binary("/shop"));
    assert_eq!(refused(FileOptions { envelope, ..path() }), "file.envelope.cloud_events.mode");
}

#[test]
fn options_are_read_from_files() {
    let written = serde_json::json!({
        "to": { "path": "/var/lib/shop/events.jsonl" },
        "rotate_bytes": 1_000_000,
        "link": { "deliver_within": "5s" },
    });
    let options: FileOptions = serde_json::from_value(written).unwrap();
    let link = LinkOptions { deliver_within: Duration::from_secs(5), ..LinkOptions::default() };
    let path = FileOptions::path("/var/lib/shop/events.jsonl");
    assert_eq!(options, FileOptions { rotate_bytes: 1_000_000, link, ..path });
}
