//! A server's door that can be slammed at a chosen moment.
//!
//! Forwards bytes between clients and one server. [`cut`](Proxy::cut) makes it break the next
//! connection on which a text goes by: a COMMIT on its way there, or its answer on the way back.
//! [`slow_down`](Proxy::slow_down) makes it a line of so many bytes a second for what the server says,
//! and [`carried`](Proxy::carried) counts that.
//! [`silence`](Proxy::silence) leaves links open on which nothing goes by any more.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep_until};

/// Where the link breaks.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Before a message with this text reaches the server; `before` of the message's bytes lie in
    /// front of the text. What was sent earlier does reach it, and where a `reply` is named, the link
    /// breaks only after that reached the client.
    Request {
        /// The text.
        text: &'static [u8],
        /// Bytes of its message in front of it.
        before: usize,
        /// What the client still hears; nothing where it is empty.
        reply: &'static [u8],
    },
    /// After `text` reached the server and it answered with `answer`; from the text on, nothing that
    /// it answers reaches the client.
    AllReplies {
        /// The text.
        text: &'static [u8],
        /// The answer.
        answer: &'static [u8],
    },
    /// Before a message of the server with this text in it reaches the client; what it answered
    /// before does.
    Reply {
        /// The text.
        text: &'static [u8],
        /// Bytes of its message in front of it.
        before: usize,
    },
}

/// A proxy in front of one server. Dropping it ends it and every connection through it.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    cut: Arc<Mutex<Option<Cut>>>,
    line: Arc<Line>,
    silent: watch::Sender<bool>,
    accepting: JoinHandle<()>,
}

/// What all links share; above all the way from the server to its clients.
#[derive(Debug, Default)]
struct Line {
    carried: AtomicU64,
    /// How often a client said something.
    asked: AtomicU64,
    /// Bytes a second; 0 where nothing slows it down.
    rate: AtomicU64,
    /// When what is under way will have come through.
    free_at: Mutex<Option<Instant>>,
}

impl Line {
    /// Comes back when so many bytes are through.
    async fn carry(&self, bytes: usize) {
        self.carried.fetch_add(bytes as u64, Ordering::SeqCst);
        let rate = self.rate.load(Ordering::SeqCst);
        if rate == 0 {
            return;
        }
        let through = {
            let mut free_at = self.free_at.lock().unwrap_or_else(PoisonError::into_inner);
            let now = Instant::now();
            let begins = free_at.map_or(now, |at| at.max(now));
            *free_at.insert(begins + Duration::from_secs_f64(bytes as f64 / rate as f64))
        };
        sleep_until(through).await;
    }
}

impl Proxy {
    /// Starts one in front of `server`, on a free port of this host.
    pub async fn start(server: SocketAddr) -> io::Result<Self> {
        Self::start_at(([127, 0, 0, 1], 0).into(), server).await
    }

    /// The same at this address.
    pub async fn start_at(address: SocketAddr, server: SocketAddr) -> io::Result<Self> {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        let cut = Arc::new(Mutex::new(None));
        let line = Arc::new(Line::default());
        let (armed, shared) = (Arc::clone(&cut), Arc::clone(&line));
        let (silent, silence) = watch::channel(false);
        let accepting = tokio::spawn(async move {
            let mut links = tokio::task::JoinSet::new();
            while let Ok((client, _)) = listener.accept().await {
                links.spawn(link(
                    client,
                    server,
                    Arc::clone(&armed),
                    Arc::clone(&shared),
                    silence.clone(),
                ));
            }
        });
        Ok(Self { address, cut, line, silent, accepting })
    }

    /// Where clients connect to.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// What the server says comes with so many bytes a second from now on, over all links together.
    pub fn slow_down(&self, bytes_a_second: u64) {
        self.line.rate.store(bytes_a_second, Ordering::SeqCst);
    }

    /// How many bytes the server has said so far.
    pub fn carried(&self) -> u64 {
        self.line.carried.load(Ordering::SeqCst)
    }

    /// How often clients have said something so far: round trips, where each request is short.
    pub fn asked(&self) -> u64 {
        self.line.asked.load(Ordering::SeqCst)
    }

    /// Breaks one link, the next one that this fits.
    pub fn cut(&self, cut: Cut) {
        *self.cut.lock().unwrap_or_else(PoisonError::into_inner) = Some(cut);
    }

    /// Forwards nothing from now on, and breaks nothing: every link stays open on both sides, and
    /// neither hears of the other. Or forwards again what came meanwhile.
    pub fn silence(&self, silent: bool) {
        self.silent.send_replace(silent);
    }

    /// Whether the cut was made.
    pub fn is_cut(&self) -> bool {
        self.cut.lock().unwrap_or_else(PoisonError::into_inner).is_none()
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

type Armed = Arc<Mutex<Option<Cut>>>;
type Silence = watch::Receiver<bool>;

/// Both directions, until one of them ends; then both do.
async fn link(
    client: TcpStream,
    server: SocketAddr,
    armed: Armed,
    line: Arc<Line>,
    silence: Silence,
) {
    let Ok(server) = TcpStream::connect(server).await else { return };
    let _ = (client.set_nodelay(true), server.set_nodelay(true));
    let (from_client, to_client) = client.into_split();
    let (from_server, to_server) = server.into_split();
    let state = State {
        armed: &armed,
        begun: AtomicBool::new(false),
        heard: AtomicBool::new(false),
        line: &line,
    };
    tokio::select! {
        _ = requests(Way { from: from_client, to: to_server, silence: silence.clone() }, &state) => {}
        _ = replies(Way { from: from_server, to: to_client, silence }, &state) => {}
    }
}

/// One direction.
struct Way {
    from: OwnedReadHalf,
    to: OwnedWriteHalf,
    silence: Silence,
}

/// What both directions know.
struct State<'l> {
    armed: &'l Armed,
    /// Whether the text went by.
    begun: AtomicBool,
    /// Whether the client heard the reply that it still is to hear; a driver that sends in two pieces may, before
    /// the text went by.
    heard: AtomicBool,
    line: &'l Line,
}

fn armed_now(armed: &Armed) -> Option<Cut> {
    *armed.lock().unwrap_or_else(PoisonError::into_inner)
}

fn made(armed: &Armed) {
    *armed.lock().unwrap_or_else(PoisonError::into_inner) = None;
}

async fn requests(mut way: Way, state: &State<'_>) -> io::Result<()> {
    let State { armed, begun, heard, line } = state;
    let mut seen = Window::default();
    loop {
        let chunk = read(&mut way.from).await?;
        line.asked.fetch_add(1, Ordering::SeqCst);
        let _ = way.silence.wait_for(|silent| !silent).await;
        seen.push(&chunk);
        match armed_now(armed) {
            Some(Cut::Request { text, before, reply }) => {
                if let Some(until) = seen.message(text, before, chunk.len()) {
                    begun.store(true, Ordering::SeqCst);
                    way.to.write_all(&chunk[..until]).await?;
                    if !reply.is_empty() && !heard.load(Ordering::SeqCst) {
                        // The other direction ends the link.
                        std::future::pending::<()>().await;
                    }
                    made(armed);
                    return Ok(());
                }
            }
            Some(Cut::AllReplies { text, .. }) if seen.find(text).is_some() => {
                begun.store(true, Ordering::SeqCst);
            }
            _ => {}
        }
        way.to.write_all(&chunk).await?;
    }
}

async fn replies(mut way: Way, state: &State<'_>) -> io::Result<()> {
    let State { armed, begun, heard, line } = state;
    let mut seen = Window::default();
    loop {
        let chunk = read(&mut way.from).await?;
        line.carry(chunk.len()).await;
        let _ = way.silence.wait_for(|silent| !silent).await;
        seen.push(&chunk);
        match armed_now(armed) {
            Some(Cut::Request { reply, .. }) if seen.arrived(reply, chunk.len()) => {
                way.to.write_all(&chunk).await?;
                // In this order, and asked in the other one there: one of both directions ends the link.
                heard.store(true, Ordering::SeqCst);
                if begun.load(Ordering::SeqCst) {
                    made(armed);
                    return Ok(());
                }
                continue;
            }
            Some(Cut::AllReplies { answer, .. }) if begun.load(Ordering::SeqCst) => {
                if seen.find(answer).is_some() {
                    made(armed);
                    return Ok(());
                }
                continue;
            }
            Some(Cut::Reply { text, before }) => {
                if let Some(until) = seen.message(text, before, chunk.len()) {
                    way.to.write_all(&chunk[..until]).await?;
                    made(armed);
                    return Ok(());
                }
            }
            _ => {}
        }
        way.to.write_all(&chunk).await?;
    }
}

async fn read(from: &mut OwnedReadHalf) -> io::Result<Vec<u8>> {
    let mut chunk = vec![0; 64 * 1024];
    match from.read(&mut chunk).await? {
        0 => Err(io::ErrorKind::UnexpectedEof.into()),
        count => {
            chunk.truncate(count);
            Ok(chunk)
        }
    }
}

/// The end of what went by, long enough for a text that arrives in two pieces.
#[derive(Default)]
struct Window(Vec<u8>);

impl Window {
    fn push(&mut self, chunk: &[u8]) {
        let keep = self.0.len().min(64);
        self.0.drain(..self.0.len() - keep);
        self.0.extend_from_slice(chunk);
    }

    fn find(&self, text: &[u8]) -> Option<usize> {
        self.0.windows(text.len()).position(|window| window == text)
    }

    /// Whether this text came to its end in the last chunk, of `len` bytes.
    fn arrived(&self, text: &[u8], len: usize) -> bool {
        let before = (self.0.len() - len).saturating_sub(text.len().saturating_sub(1));
        !text.is_empty() && self.0[before..].windows(text.len()).any(|window| window == text)
    }

    /// Where in the last chunk, of `len` bytes, the message with this text begins. What lies before
    /// the chunk went by already.
    fn message(&self, text: &[u8], before: usize, len: usize) -> Option<usize> {
        let at = self.find(text)?;
        Some(at.saturating_sub(before).saturating_sub(self.0.len() - len))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CUT: Cut = Cut::Request { text: b"COMMIT", before: 0, reply: b"INSERT 0 1" };

    /// A client behind a proxy, and the server that it is in front of.
    async fn connected() -> (Proxy, TcpStream, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let proxy = Proxy::start(listener.local_addr().unwrap()).await.unwrap();
        let client = TcpStream::connect(proxy.address()).await.unwrap();
        (proxy, client, listener.accept().await.unwrap().0)
    }

    async fn hears(stream: &mut TcpStream, text: &[u8]) {
        let mut heard = vec![0; text.len()];
        stream.read_exact(&mut heard).await.unwrap();
        assert_eq!(heard, text);
    }

    #[tokio::test]
    async fn a_request_is_cut_after_its_reply_although_that_came_before_the_request() {
        let (proxy, mut client, mut server) = connected().await;
        proxy.cut(CUT);
        client.write_all(b"INSERT").await.unwrap();
        hears(&mut server, b"INSERT").await;
        server.write_all(b"INSERT 0 1").await.unwrap();
        hears(&mut client, b"INSERT 0 1").await;
        client.write_all(b"COMMIT").await.unwrap();
        assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        assert!(proxy.is_cut());
    }

    #[tokio::test]
    async fn a_request_is_cut_when_its_reply_was_heard() {
        let (proxy, mut client, mut server) = connected().await;
        proxy.cut(CUT);
        client.write_all(b"INSERT COMMIT").await.unwrap();
        hears(&mut server, b"INSERT ").await;
        server.write_all(b"INSERT 0 1").await.unwrap();
        hears(&mut client, b"INSERT 0 1").await;
        assert_eq!(client.read(&mut [0]).await.unwrap_or(0), 0);
        assert!(proxy.is_cut());
    }
}
