//! A receiver in this process: checks signatures as a stranger would, and keeps what it took.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use base64::prelude::{BASE64_STANDARD, Engine as _};
use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::body::Incoming;
use hyper::header::{HeaderMap, RETRY_AFTER};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::TokioIo;
use ring::hmac;
use sendoff_testkit::sinks::{Arrived, Server, async_trait};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::{JoinHandle, JoinSet};

/// The largest body that is taken.
pub(super) const MOST: usize = 1_100_000;

/// What every request is answered with.
#[derive(Debug, Clone, Copy)]
pub(super) struct Says(pub(super) u16, pub(super) Option<&'static str>);

pub(super) struct Receiver {
    pub(super) address: SocketAddr,
    pub(super) state: Arc<State>,
    run: Mutex<Option<JoinHandle<()>>>,
}

pub(super) struct State {
    pub(super) arrived: Mutex<Vec<Arrived>>,
    /// The headers of each request, whatever became of it.
    pub(super) heads: Mutex<Vec<HeaderMap>>,
    /// The objects of CloudEvents that were taken, as they came.
    pub(super) objects: Mutex<Vec<Bytes>>,
    pub(super) says: Mutex<Option<Says>>,
    /// Events of this type are answered with 500.
    pub(super) fails: Mutex<Option<&'static str>>,
    /// The secret that signatures are checked with; empty where that was revoked.
    pub(super) secret: Mutex<Vec<u8>>,
    is_frozen: watch::Sender<bool>,
}

impl Receiver {
    pub(super) async fn start(secret: &[u8]) -> Self {
        let state = State {
            arrived: Mutex::default(),
            heads: Mutex::default(),
            objects: Mutex::default(),
            says: Mutex::default(),
            fails: Mutex::default(),
            secret: Mutex::new(secret.to_vec()),
            is_frozen: watch::Sender::new(false),
        };
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let receiver = Self { address, state: Arc::new(state), run: Mutex::default() };
        receiver.listen(listener);
        receiver
    }

    fn listen(&self, listener: TcpListener) {
        let state = Arc::clone(&self.state);
        // With it go its connections.
        let run = tokio::spawn(async move {
            let mut connections = JoinSet::new();
            while let Ok((stream, _)) = listener.accept().await {
                connections.spawn(serve(stream, Arc::clone(&state)));
            }
        });
        *self.run.lock().unwrap() = Some(run);
    }

    pub(super) fn url(&self) -> String {
        format!("http://{}/in", self.address)
    }
}

/// One connection.
pub(super) async fn serve(
    stream: impl AsyncRead + AsyncWrite + Send + Unpin + 'static,
    state: Arc<State>,
) {
    let service = service_fn(|request| answer(request, Arc::clone(&state)));
    let _ = http1::Builder::new().serve_connection(TokioIo::new(stream), service).await;
}

async fn answer(
    request: Request<Incoming>,
    state: Arc<State>,
) -> Result<Response<Empty<Bytes>>, Infallible> {
    let mut is_frozen = state.is_frozen.subscribe();
    let _ = is_frozen.wait_for(|is_frozen| !is_frozen).await;
    let (head, body) = request.into_parts();
    let says = |status: u16, retry_after: Option<&'static str>| {
        let response = Response::builder().status(status);
        let response = match retry_after {
            Some(value) => response.header(RETRY_AFTER, value),
            None => response,
        };
        Ok(response.body(Empty::new()).unwrap())
    };
    let Ok(body) = body.collect().await else { return says(400, None) };
    let body = body.to_bytes();
    state.heads.lock().unwrap().push(head.headers.clone());
    if !is_signed(&head.headers, &body, &state.secret.lock().unwrap()) {
        return says(401, None);
    }
    if let Some(Says(status, retry_after)) = *state.says.lock().unwrap() {
        return says(status, retry_after);
    }
    let fails = *state.fails.lock().unwrap();
    if fails.is_some() && fails == text(&head.headers, "sendoff-type").as_deref() {
        return says(500, None);
    }
    if body.len() > MOST {
        return says(413, None);
    }
    match text(&head.headers, "content-type").as_deref() {
        Some("application/cloudevents+json") => state.objects.lock().unwrap().push(body),
        _ => state.arrived.lock().unwrap().push(arrived(&head.headers, &body)),
    }
    says(204, None)
}

pub(super) fn text(headers: &HeaderMap, name: &str) -> Option<String> {
    Some(String::from_utf8(headers.get(name)?.as_bytes().to_vec()).unwrap())
}

fn is_signed(headers: &HeaderMap, body: &[u8], secret: &[u8]) -> bool {
    let [id, seconds, signatures] = ["webhook-id", "webhook-timestamp", "webhook-signature"]
        .map(|name| text(headers, name).unwrap());
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let sent = Duration::from_secs(seconds.parse().unwrap());
    assert!(now.abs_diff(sent) < Duration::from_secs(30), "a timestamp is of its attempt");
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret);
    let message = [format!("{id}.{seconds}.").as_bytes(), body].concat();
    signatures
        .split(' ')
        .filter_map(|one| one.strip_prefix("v1,"))
        .any(|one| hmac::verify(&key, &message, &BASE64_STANDARD.decode(one).unwrap()).is_ok())
}

fn arrived(headers: &HeaderMap, body: &[u8]) -> Arrived {
    let own = headers.keys().map(|name| (name.to_string(), text(headers, name.as_str()).unwrap()));
    let id = text(headers, "sendoff-id").unwrap();
    assert_eq!(text(headers, "webhook-id").as_ref(), Some(&id));
    assert_eq!(text(headers, "idempotency-key").as_ref(), Some(&id));
    Arrived {
        id: id.parse().unwrap(),
        event_type: decoded(&text(headers, "sendoff-type").unwrap()),
        payload: body.to_vec(),
        headers: own.collect(),
        key: text(headers, "sendoff-key").as_deref().map(decoded),
        content_type: text(headers, "content-type"),
    }
}

fn decoded(text: &str) -> String {
    let (mut bytes, mut rest) = (Vec::new(), text);
    while let Some((before, after)) = rest.split_once('%') {
        bytes.extend_from_slice(before.as_bytes());
        bytes.push(u8::from_str_radix(&after[..2], 16).unwrap());
        rest = &after[2..];
    }
    bytes.extend_from_slice(rest.as_bytes());
    String::from_utf8(bytes).unwrap()
}

#[async_trait]
impl Server for Receiver {
    async fn kill(&self) {
        let run = self.run.lock().unwrap().take().unwrap();
        run.abort();
        let _ = run.await;
    }

    async fn start(&self) {
        // Another test may have the port for a moment, as the near end of a connection.
        let listener = loop {
            match TcpListener::bind(self.address).await {
                Ok(listener) => break listener,
                Err(_) => tokio::time::sleep(Duration::from_millis(5)).await,
            }
        };
        self.listen(listener);
    }

    async fn freeze(&self) {
        self.state.is_frozen.send_replace(true);
    }

    async fn thaw(&self) {
        self.state.is_frozen.send_replace(false);
    }
}
