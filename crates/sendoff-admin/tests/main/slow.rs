//! Clients that take their time.

use std::time::Duration;

use sendoff_admin::Admin;
use sendoff_core::journal::{Fact, Topic};
use sendoff_engine::journal::publish::Publishing;
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

use crate::client::TOKEN;
use crate::served::{Served, token};

/// What a connection is told until it is closed, if it sends this and then nothing.
async fn told(served: &Served, sent: &str) -> (String, Duration) {
    let begun = Instant::now();
    let mut stream = TcpStream::connect(served.client.address).await.unwrap();
    stream.write_all(sent.as_bytes()).await.unwrap();
    let mut told = String::new();
    let closed = timeout(Duration::from_secs(60), stream.read_to_string(&mut told)).await;
    // A connection that is reset is closed as well.
    let _ = closed.expect("it is closed in time");
    (told, begun.elapsed())
}

/// Connections that nobody finishes a request on are closed, before and after a first one.
#[tokio::test(start_paused = true)]
async fn a_connection_is_not_kept_for_whoever_says_nothing() {
    let served = Served::by(Admin::new(&Journal::new(MemoryJournal::new())).token(token())).await;
    let (told_nothing, _) = told(&served, "GET /api/outbox/publishers HTTP/1.1\r\nho").await;
    assert!(!told_nothing.contains("200"), "{told_nothing}");
    told(&served, "").await;
    let whole = format!(
        "GET /api/outbox/publishers HTTP/1.1\r\nhost: x\r\nauthorization: Bearer {TOKEN}\r\n\r\n"
    );
    let (answer, _) = told(&served, &whole).await;
    assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
    // A body that does not come: the deadline of the request.
    let bodiless = format!(
        "POST /api/outbox/publishers/p/rewind HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\
         authorization: Bearer {TOKEN}\r\ncontent-type: application/json\r\n\
         content-length: 20\r\n\r\n{{"
    );
    let (answer, took) = told(&served, &bodiless).await;
    assert!(answer.contains("503") && answer.contains("problem:late"), "{answer}");
    assert!(took >= Duration::from_secs(10));
    let huge = format!("GET /api/outbox/{} HTTP/1.1\r\n", "a".repeat(40_000));
    let (answer, _) = told(&served, &huge).await;
    assert!(!answer.contains("200"), "{answer}");
    served.close().await;
}

/// Whoever opens connections and says nothing, or has no token, keeps no user waiting, and nothing that is
/// to be published.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_idle_connections_keep_nobody_waiting() {
    let journal = Journal::new(MemoryJournal::new());
    let (topic, latch) = (Topic::builder("t").build().unwrap(), Latch::new("p"));
    let publishing = Publishing::builder(&journal).pair(&topic, latch.publisher()).start();
    let publishing = publishing.await.unwrap();
    let served = Served::by(Admin::new(&journal).token(token())).await;
    let mut idle = Vec::new();
    for number in 0..1_000 {
        let mut stream = TcpStream::connect(served.client.address).await.unwrap();
        if number % 2 == 0 {
            let refused = "GET /api/outbox/publishers HTTP/1.1\r\nhost: x\r\n\r\n";
            let _ = stream.write_all(refused.as_bytes()).await;
        }
        idle.push(stream);
    }
    for _ in 0..5 {
        let answer = timeout(Duration::from_secs(1), served.client.get("/publishers")).await;
        assert_eq!(answer.expect("it is answered within a second").status, 200);
    }
    for published in 1..=5 {
        journal.append([Fact::builder(("moved", "{}"))]).await.unwrap();
        let reached = timeout(Duration::from_secs(2), latch.wait_for(published)).await;
        reached.expect("it is published while they are connected");
    }
    drop(idle);
    publishing.close().await;
    served.close().await;
}
