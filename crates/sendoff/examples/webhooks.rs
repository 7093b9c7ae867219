//! Signed webhooks, from a transaction to a receiver that checks the signature and is down at first.
//!
//! Run it with `cargo xtask example webhooks`. The receiver is in this process, on loopback, which has to be allowed.

#![allow(clippy::print_stdout, reason = "an example shows what it does")]

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result};
use axum::Router;
use axum::body::Bytes;
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode};
use axum::routing::post;
use base64::Engine;
use base64::engine::general_purpose::STANDARD as BASE64;
use ring::hmac;
use sendoff::Outbox;
use sendoff::sinks::webhook::{WebhookOptions, WebhookSink};
use sendoff::sqlite::SqliteStore;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Both sides have it; yours is a secret.
const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
/// How old a request may be, in seconds, before a receiver takes it for a copy of an old one.
const OLD: u64 = 5 * 60;

/// The other side, as somebody else would write it: any library of Standard Webhooks does this.
fn verified(headers: &HeaderMap, body: &[u8]) -> Option<String> {
    let header = |name: &str| headers.get(name)?.to_str().ok();
    let (id, time) = (header("webhook-id")?, header("webhook-timestamp")?);
    let now = SystemTime::now().duration_since(UNIX_EPOCH).ok()?.as_secs();
    if now.abs_diff(time.parse().ok()?) > OLD {
        return None;
    }
    let key = BASE64.decode(SECRET.strip_prefix("whsec_")?).ok()?;
    let key = hmac::Key::new(hmac::HMAC_SHA256, &key);
    let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    // Several while a secret is changed.
    let signatures = header("webhook-signature")?.split(' ');
    let mut tags = signatures.filter_map(|one| BASE64.decode(one.strip_prefix("v1,")?).ok());
    tags.any(|tag| hmac::verify(&key, &signed, &tag).is_ok()).then(|| id.to_owned())
}

struct Receiver {
    asked: AtomicU32,
    taken: mpsc::UnboundedSender<String>,
}

async fn receive(
    State(receiver): State<Arc<Receiver>>,
    headers: HeaderMap,
    body: Bytes,
) -> StatusCode {
    let Some(id) = verified(&headers, &body) else { return StatusCode::UNAUTHORIZED };
    // Overloaded at first: the event waits, and no attempt is used up.
    if receiver.asked.fetch_add(1, Ordering::Relaxed) == 0 {
        println!("received {id}, and answered 503");
        return StatusCode::SERVICE_UNAVAILABLE;
    }
    println!("received {id}: {}", String::from_utf8_lossy(&body));
    let _ = receiver.taken.send(id);
    StatusCode::NO_CONTENT
}

pub(crate) async fn run() -> Result<()> {
    let (taken, mut arrivals) = mpsc::unbounded_channel();
    let receiver = Arc::new(Receiver { asked: AtomicU32::new(0), taken });
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let router = Router::new().route("/in/{kind}", post(receive)).with_state(receiver);
    let serving = tokio::spawn(async { axum::serve(listener, router).await });

    let url = format!("http://{address}/in/{{type}}");
    let sink = WebhookSink::start(WebhookOptions {
        // Whatever is not on the Internet is refused unless it is named here.
        allow_addresses: vec!["127.0.0.1/32".to_owned()],
        ..WebhookOptions::new(url, SECRET)
    })
    .await?;

    let folder = tempfile::tempdir()?;
    let store = SqliteStore::open(folder.path().join("shop.db")).await?;
    let outbox = Outbox::builder(store.clone()).on_any_sink(sink.clone()).start().await?;
    let mut conn = store.connect()?;
    conn.execute_batch("create table orders (item text not null)")?;
    let mut tx = outbox.begin_blocking(&mut conn)?;
    tx.execute("insert into orders values (?1)", ["tea"])?;
    let id = tx.emit(("order.placed", serde_json::json!({ "item": "tea" })))?;
    tx.commit()?; // the order and its event, or neither

    let arrived = arrivals.recv().await.context("the receiver ended")?;
    anyhow::ensure!(arrived == id.to_string(), "another event arrived: {arrived}");

    outbox.close().await;
    anyhow::ensure!(sink.close().await, "the sink was cut off"); // after whoever delivers to it
    store.close().await;
    serving.abort();
    Ok(())
}

#[tokio::main]
async fn main() -> Result<()> {
    run().await
}
