//! Who is answered.

use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::routing::get;
use sendoff_admin::{Admin, AdminError};
use sendoff_core::journal::Topic;
use sendoff_engine::journal::publish::Publishing;
use sendoff_engine::journal::{Journal, MemoryJournal};
use sendoff_testkit::journal::Latch;
use tokio::net::TcpListener;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::fmt::MakeWriter;
use tracing_subscriber::util::SubscriberInitExt;

use crate::client::{Client, TOKEN};
use crate::served::{Served, token};

fn admin() -> Admin {
    Admin::new(&Journal::new(MemoryJournal::new()))
}

/// Holds J10: without a token, or with another, nothing is answered, whether it is there or not.
#[tokio::test]
async fn without_the_token_nothing_is_answered() {
    let served = Served::by(admin().token(token())).await;
    let client = &served.client;
    for path in [
        "/publishers",
        "/publishers/lag",
        "/publishers/p",
        "/openapi.json",
        "/nowhere",
        "",
        "/",
        "/publishers/",
    ] {
        for (headers, kind) in [
            (vec![], "no-token"),
            (vec![format!("authorization: Basic {TOKEN}")], "no-token"),
            (vec![format!("authorization: Bearer {TOKEN}0")], "wrong-token"),
            (vec![format!("authorization: Bearer {}", &TOKEN[1..])], "wrong-token"),
        ] {
            let headers: Vec<_> = headers.iter().map(String::as_str).collect();
            for method in ["GET", "POST", "DELETE", "OPTIONS"] {
                let answer = client.with(&headers).ask(method, path, None).await;
                assert_eq!(answer.problem(), (401, kind), "{method} {path} {headers:?}");
                let challenge = answer.header("www-authenticate").unwrap();
                assert!(challenge.starts_with("bearer realm=\"sendoff\""), "{challenge}");
                assert_eq!(challenge.contains("invalid_token"), kind == "wrong-token");
                assert!(!answer.body.to_string().contains(TOKEN));
            }
        }
    }
    assert_eq!(client.get("/publishers").await.status, 200);
    served.close().await;
}

#[tokio::test]
async fn routes_that_anybody_could_use_are_not_built() {
    assert!(matches!(admin().router(), Err(AdminError::NoToken)));
    assert!(admin().token(token()).router().is_ok());
    assert!(admin().loopback_only().router().is_ok());
    let hurried = admin().token(token()).deadline(std::time::Duration::ZERO);
    assert!(matches!(hurried.router(), Err(AdminError::NoTime)));
    assert!(!format!("{:?}", admin().token(token())).contains(TOKEN));

    let everywhere = TcpListener::bind("0.0.0.0:0").await.unwrap();
    let refused = admin().token(token()).loopback_only().serve(everywhere, async {}).await;
    assert!(matches!(refused, Err(AdminError::NotLoopback { .. })));
    let here = TcpListener::bind("127.0.0.1:0").await.unwrap();
    assert!(matches!(admin().serve(here, async {}).await, Err(AdminError::NoToken)));
}

/// A page in somebody's browser must not operate the publishers on that machine.
#[tokio::test]
async fn without_a_token_this_machine_is_answered_and_no_page_of_another_origin() {
    let served = Served::by(admin().loopback_only()).await;
    let client = &served.client;
    assert_eq!(client.with(&[]).get("/publishers").await.status, 200);
    for headers in [
        ["host: evil.example", "accept: */*"],
        ["origin: https://evil.example", "accept: */*"],
        ["x-forwarded-for: 10.0.0.1", "accept: */*"],
    ] {
        let answer = client.with(&headers).post("/publishers/p/pause").await;
        assert_eq!(answer.problem(), (403, "not-local"), "{headers:?}");
    }
    served.close().await;
}

/// Serves a router as an application would.
async fn by_axum(router: Router, connect_info: bool) -> Client {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let client = Client::new(listener.local_addr().unwrap());
    tokio::spawn(async move {
        if connect_info {
            let service = router.into_make_service_with_connect_info::<SocketAddr>();
            axum::serve(listener, service).await.unwrap();
        } else {
            axum::serve(listener, router).await.unwrap();
        }
    });
    client
}

#[tokio::test]
async fn a_router_that_does_not_know_its_peers_answers_none_of_them_without_a_token() {
    let client = by_axum(admin().loopback_only().router().unwrap(), false).await.with(&[]);
    let answer = client.get("/publishers").await;
    assert_eq!(answer.problem(), (403, "not-local"));
    assert!(answer.detail().contains("connect info"), "{}", answer.detail());
    let client = by_axum(admin().loopback_only().router().unwrap(), true).await.with(&[]);
    assert_eq!(client.get("/publishers").await.status, 200);
}

#[tokio::test]
async fn the_router_lives_beside_an_applications_own_routes() {
    let own = Router::new().route("/orders", get(async || "tea")).fallback(async || "own");
    let client = by_axum(own.merge(admin().token(token()).router().unwrap()), false).await;
    assert_eq!(client.get("/publishers").await.status, 200);
    assert_eq!(client.with(&[]).get("/publishers").await.status, 401);
    assert_eq!(client.get("/nowhere").await.problem(), (404, "no-such-route"));
    let mut stream = tokio::net::TcpStream::connect(client.address).await.unwrap();
    let request = "GET /orders HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 200") && answer.ends_with("tea"), "{answer}");
}

#[tokio::test]
async fn what_an_application_does_not_find_is_its_own_affair() {
    let own = Router::new().route("/orders", get(async || "tea"));
    let client = by_axum(own.merge(admin().token(token()).router().unwrap()), false).await;
    assert_eq!(client.with(&[]).get("/nowhere").await.status, 401, "below the admin's own path");
    let mut stream = tokio::net::TcpStream::connect(client.address).await.unwrap();
    let request = "GET /favicon.ico HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n";
    let mut answer = String::new();
    tokio::io::AsyncWriteExt::write_all(&mut stream, request.as_bytes()).await.unwrap();
    tokio::io::AsyncReadExt::read_to_string(&mut stream, &mut answer).await.unwrap();
    assert!(answer.starts_with("HTTP/1.1 404"), "{answer}");
}

/// Keeps what is logged.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl io::Write for Log {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'w> MakeWriter<'w> for Log {
    type Writer = Self;

    fn make_writer(&'w self) -> Self {
        self.clone()
    }
}

#[tokio::test]
async fn what_operators_do_is_logged_and_no_token_is() {
    let log = Log::default();
    let everything = tracing_subscriber::fmt().with_max_level(LevelFilter::TRACE);
    let logging = everything.with_ansi(false).with_writer(log.clone()).set_default();
    let journal = Journal::new(MemoryJournal::new());
    let topic = Topic::builder("t").build().unwrap();
    let pairs = Publishing::builder(&journal).pair(&topic, Latch::new("p").publisher());
    let publishing = pairs.start().await.unwrap();
    let served = Served::new(&journal).await;
    let wrong = format!("authorization: Bearer {TOKEN}-and-more");
    assert_eq!(served.client.with(&[&wrong]).get("/publishers").await.status, 401);
    assert_eq!(served.client.post("/publishers/p/pause").await.status, 200);
    publishing.close().await;
    served.close().await;
    drop(logging);
    let logged = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    let changed = logged.lines().find(|line| line.contains("an operator changed publishers"));
    assert!(changed.unwrap().contains("operation=Pause"), "{logged}");
    assert!(logged.contains("a request was refused") && logged.contains("WrongToken"), "{logged}");
    assert!(!logged.contains(TOKEN), "{logged}");
}
