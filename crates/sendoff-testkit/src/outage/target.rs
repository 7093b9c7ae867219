//! A target that goes away and comes back: a real server on a real socket.

use std::collections::HashMap;
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use sendoff_core::{Delivery, EventId};
use sendoff_engine::{Handler, HandlerResult};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::{JoinHandle, JoinSet};
use tokio::time::Instant;

/// Where it listens: not where outgoing connections come from, which may take a port while nobody listens.
const HOST: &str = "127.0.0.77";

/// What a handler says of a target that is away.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum Looks {
    /// The error of the socket, by a plain `?`.
    Refused,
    /// Nothing can be told from it.
    Opaque,
}

/// Takes ids, and answers each with a byte.
pub(super) struct Target {
    address: SocketAddr,
    serving: Option<JoinHandle<()>>,
}

impl Target {
    pub(super) async fn open() -> io::Result<Self> {
        let listener = TcpListener::bind((HOST, 0)).await?;
        let address = listener.local_addr()?;
        Ok(Self { address, serving: Some(tokio::spawn(serve(listener))) })
    }

    /// It is gone, and every connection with it.
    pub(super) fn goes(&mut self) {
        if let Some(serving) = self.serving.take() {
            serving.abort();
        }
    }

    pub(super) async fn comes_back(&mut self) -> io::Result<()> {
        let listener = TcpListener::bind(self.address).await?;
        self.serving = Some(tokio::spawn(serve(listener)));
        Ok(())
    }

    /// A handler that delivers to it.
    pub(super) fn caller(&self, looks: Looks) -> Caller {
        let line = tokio::sync::Mutex::new(None);
        Caller(Arc::new(Inner { address: self.address, looks, line, seen: Mutex::default() }))
    }
}

impl Drop for Target {
    fn drop(&mut self) {
        self.goes();
    }
}

async fn serve(listener: TcpListener) {
    // Ends with all of them when it is aborted.
    let mut lines = JoinSet::new();
    while let Ok((mut line, _)) = listener.accept().await {
        lines.spawn(async move {
            let mut id = [0; 16];
            while line.read_exact(&mut id).await.is_ok() {
                if line.write_all(&[1]).await.is_err() {
                    break;
                }
            }
        });
    }
}

/// A handler, and what became of its events. Cheap to clone; clones are the same.
#[derive(Clone)]
pub(super) struct Caller(Arc<Inner>);

struct Inner {
    address: SocketAddr,
    looks: Looks,
    line: tokio::sync::Mutex<Option<TcpStream>>,
    seen: Mutex<Seen>,
}

/// What was delivered.
#[derive(Debug, Clone, Default)]
pub(super) struct Seen {
    /// How often each was.
    pub(super) each: HashMap<EventId, u32>,
    /// Those of each key, in this order.
    pub(super) keys: HashMap<String, Vec<usize>>,
    /// In this order.
    pub(super) positions: Vec<u64>,
    /// The attempts that were used up before.
    pub(super) used_up: u32,
    /// Tries that failed.
    pub(super) failures: u32,
    /// When the last was.
    pub(super) last: Option<Instant>,
}

impl Caller {
    pub(super) fn looks(&self) -> Looks {
        self.0.looks
    }

    pub(super) fn seen(&self) -> MutexGuard<'_, Seen> {
        self.0.seen.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn call(&self, id: EventId) -> io::Result<()> {
        let mut kept = self.0.line.lock().await;
        // Taken out, so that one that failed is not used again.
        let mut line = match kept.take() {
            Some(line) => line,
            None => TcpStream::connect(self.0.address).await?,
        };
        line.write_all(id.as_bytes()).await?;
        line.read_exact(&mut [0]).await?;
        *kept = Some(line);
        Ok(())
    }
}

impl Handler for Caller {
    async fn handle(&self, delivery: Delivery) -> HandlerResult {
        let called = self.call(delivery.id()).await;
        if called.is_err() {
            self.seen().failures += 1;
        }
        match self.0.looks {
            Looks::Refused => called?,
            Looks::Opaque => called.map_err(|_| "the warehouse said no")?,
        }
        let mut seen = self.seen();
        *seen.each.entry(delivery.id()).or_default() += 1;
        if let Some(key) = delivery.ordering_key() {
            seen.keys.entry(key.to_owned()).or_default().push(delivery.read_json()?);
        }
        seen.positions.extend(delivery.position().map(|position| position.get()));
        seen.used_up += delivery.attempt - 1;
        seen.last = Some(Instant::now());
        Ok(())
    }
}
