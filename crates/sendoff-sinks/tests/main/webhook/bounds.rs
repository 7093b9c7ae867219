//! Receivers that do not behave.

use std::time::{Duration, Instant};

use sendoff_core::{Event, FailureClass};
use sendoff_sinks::webhook::{WebhookOptions, WebhookSink};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use super::{class, one, to};

/// Answers the first bytes of each request with `begin`, and then with `again` after each `pause`, for ever. Tells how much
/// the sink took before it hung up.
async fn odd(
    begin: &'static [u8],
    again: &'static [u8],
    pause: Duration,
) -> (String, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let _ = tell.send(write(stream, begin, again, pause).await);
            });
        }
    });
    (url, told)
}

async fn write(mut stream: TcpStream, begin: &[u8], again: &[u8], pause: Duration) -> usize {
    let mut bytes = begin.len();
    let _ = stream.read(&mut [0; 4_096]).await;
    let mut written = stream.write_all(begin).await;
    while written.is_ok() {
        if !pause.is_zero() {
            tokio::time::sleep(pause).await;
        }
        written = stream.write_all(again).await;
        bytes += again.len();
    }
    bytes
}

async fn sink(url: String) -> WebhookSink {
    let request_within = Duration::from_secs(2);
    WebhookSink::start(WebhookOptions { request_within, ..to(url) }).await.unwrap()
}

const SHORT: Duration = Duration::from_millis(20);
const CHUNK: &[u8] = &[b'x'; 4_096];

/// Holds fault 35: whether it was taken is not known.
#[tokio::test]
async fn a_head_that_drips_or_never_ends_is_given_up() {
    for (begin, again, pause) in [
        (&b"HTTP/1.1 200 OK\r\nx: "[..], &b"x"[..], SHORT),
        (b"HTTP/1.1 200 OK\r\nx: ", CHUNK, Duration::ZERO),
        (b"HTTP/1.1 200 OK\r\n", b"x: x\r\n", Duration::ZERO),
        (b"HTTP/1.1 100 Continue\r\n\r\n", b"HTTP/1.1 100 Continue\r\n\r\n", SHORT),
        (b"", b" ", SHORT),
    ] {
        let (url, mut told) = odd(begin, again, pause).await;
        let sink = sink(url).await;
        let begun = Instant::now();
        let verdict = one(&sink, Event::builder("e")).await;
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        assert!(matches!(class(&verdict), Some(FailureClass::Unavailable { .. })), "{verdict:?}");
        told.recv().await.unwrap();
    }
}

/// Holds fault 35: it was taken, and no more of the answer is read than is bounded.
#[tokio::test]
async fn a_body_that_drips_or_never_ends_is_cut_off() {
    for (begin, again, pause) in [
        (&b"HTTP/1.1 200 OK\r\ncontent-length: 1000000\r\n\r\n"[..], &b"x"[..], SHORT),
        (b"HTTP/1.1 200 OK\r\n\r\n", CHUNK, Duration::ZERO),
        (b"HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n", b"1\r\nx\r\n", Duration::ZERO),
    ] {
        let (url, mut told) = odd(begin, again, pause).await;
        let sink = sink(url).await;
        let begun = Instant::now();
        one(&sink, Event::builder("e")).await.unwrap();
        assert!(begun.elapsed() < Duration::from_secs(10), "{:?}", begun.elapsed());
        // It hung up; what was on its way is what sockets hold.
        let bytes = told.recv().await.unwrap();
        assert!(bytes < 16 * 1024 * 1024, "{bytes}");
    }
}

/// Holds fault 34: where a redirect leads to is not even looked up.
#[tokio::test]
async fn no_redirect_is_followed() {
    let private = TcpListener::bind("127.0.0.2:0").await.unwrap();
    let to = private.local_addr().unwrap();
    for status in [301, 302, 303, 307, 308] {
        let head =
            format!("HTTP/1.1 {status} Go\r\nlocation: http://{to}/\r\ncontent-length: 0\r\n\r\n");
        let (url, _told) = odd(Box::leak(head.into_boxed_str()).as_bytes(), b"", SHORT).await;
        let verdict = one(&sink(url).await, Event::builder("e")).await;
        assert!(matches!(class(&verdict), Some(FailureClass::Unavailable { .. })), "{verdict:?}");
        assert!(verdict.unwrap_err().report().contains("redirects are not followed"));
    }
    let came = tokio::time::timeout(Duration::from_millis(50), private.accept()).await;
    assert!(came.is_err(), "a redirect was followed");
}

#[tokio::test]
async fn what_is_no_answer_leaves_the_event_unknown() {
    for begin in [&b"SSH-2.0-x\r\n"[..], b"HTTP/1.1 abc\r\n\r\n", b"\x15\x03\x01\x00\x02\x02\x46"] {
        let (url, _told) = odd(begin, b"x", SHORT).await;
        let verdict = one(&sink(url).await, Event::builder("e")).await;
        assert!(matches!(class(&verdict), Some(FailureClass::Unavailable { .. })), "{verdict:?}");
    }
}

/// A proxy that says where it was asked to go, and goes there.
async fn proxy() -> (String, mpsc::UnboundedReceiver<String>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    let (tell, told) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((mut near, _)) = listener.accept().await {
            let tell = tell.clone();
            tokio::spawn(async move {
                let mut head = [0; 1_024];
                let bytes = near.read(&mut head).await.unwrap();
                let head = String::from_utf8(head[..bytes].to_vec()).unwrap();
                let to = head.split(' ').nth(1).unwrap().to_owned();
                let mut far = TcpStream::connect(&to).await.unwrap();
                tell.send(head).unwrap();
                near.write_all(b"HTTP/1.1 200 Go\r\n\r\n").await.unwrap();
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    (url, told)
}

/// Holds fault 34: it is told an address that was judged here, and never a name.
#[tokio::test]
async fn a_proxy_that_is_named_is_no_way_around() {
    let ground = super::Ground::new().await;
    let (proxy, mut told) = proxy().await;
    let url = format!("http://localhost:{}/in", ground.0.address.port());
    let options = WebhookOptions { proxy: Some(proxy.clone()), ..to(url) };
    one(&WebhookSink::start(options.clone()).await.unwrap(), Event::builder("e")).await.unwrap();
    let address = ground.0.address;
    let asked = format!("CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n\r\n");
    assert_eq!(told.recv().await.unwrap(), asked);
    let options = WebhookOptions { allow_addresses: Vec::new(), ..options };
    assert_eq!(WebhookSink::start(options.clone()).await.unwrap_err().path(), "webhook.url");
    for wrong in ["", "127.0.0.1:1", "https://a", "http://a/x", "http://u:p@a"] {
        let options =
            WebhookOptions { proxy: Some(wrong.to_owned()), ..to("http://127.0.0.1/".to_owned()) };
        assert_eq!(WebhookSink::start(options).await.unwrap_err().path(), "webhook.proxy");
    }
}
