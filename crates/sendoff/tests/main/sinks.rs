//! A sink goes into whatever delivers, in one line.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use sendoff::journal::publish::Publishing;
use sendoff::journal::{Fact, Journal, MemoryJournal, Topic};
use sendoff::memory::MemoryStore;
use sendoff::relay::{Relay, TopicWorker};
use sendoff::sinks::file::{FileOptions, FileSink};
use sendoff::{Event, Outbox};
use sendoff_testkit::wait::within;

const PLENTY: Duration = Duration::from_secs(20);

async fn sink(path: &Path) -> FileSink {
    FileSink::start(FileOptions::path(path)).await.unwrap()
}

fn write(store: &MemoryStore, events: u32) {
    let outbox = Outbox::writer_only(store.clone());
    let mut tx = outbox.begin_blocking(store).unwrap();
    for number in 0..events {
        tx.emit(Event::json("order.placed", &number).unwrap()).unwrap();
    }
    tx.commit().unwrap();
}

async fn all_arrive(path: &Path, events: usize) {
    let lines = || std::fs::read_to_string(path).unwrap_or_default().lines().count();
    within(PLENTY, "every event in the file", async || lines() == events).await;
}

#[tokio::test]
async fn a_sink_goes_into_an_outbox() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = (folder.path().join("events"), MemoryStore::new());
    write(&store, 50);
    let sink = sink(&path).await;
    let outbox = Outbox::builder(store).on_any_sink(sink.clone()).start().await.unwrap();
    all_arrive(&path, 50).await;
    outbox.close().await;
    assert!(sink.close().await);
}

#[tokio::test]
async fn a_sink_goes_into_a_relay() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = (folder.path().join("events"), MemoryStore::new());
    write(&store, 50);
    let relay = Relay::builder(store).build_to(sink(&path).await).unwrap().start().await.unwrap();
    all_arrive(&path, 50).await;
    relay.close().await;
}

#[tokio::test]
async fn a_sink_goes_into_a_topic_worker() {
    let folder = tempfile::tempdir().unwrap();
    let (path, store) = (folder.path().join("events"), MemoryStore::new());
    write(&store, 50);
    let worker = TopicWorker::builder(store).on_any_sink(sink(&path).await).build().unwrap();
    let working = worker.start().await.unwrap();
    all_arrive(&path, 50).await;
    working.close().await;
}

#[tokio::test]
async fn a_sink_goes_into_a_publisher() {
    let folder = tempfile::tempdir().unwrap();
    let (path, journal) = (folder.path().join("events"), Journal::new(MemoryJournal::new()));
    let topic = Topic::builder("wallets").required_tags(["wallet_id"]).build().unwrap();
    let sink = Arc::new(sink(&path).await);
    let publishing = Publishing::builder(&journal).pair(&topic, sink).start().await.unwrap();
    for number in 0..50_u32 {
        let fact = Fact::builder(("opened", "{}")).tag("wallet_id", number);
        journal.append([fact]).await.unwrap();
    }
    all_arrive(&path, 50).await;
    publishing.close().await;
    let text = std::fs::read_to_string(&path).unwrap();
    assert!(text.lines().next().unwrap().contains(r#""position":1,"tags":["wallet_id=0"]"#));
}
