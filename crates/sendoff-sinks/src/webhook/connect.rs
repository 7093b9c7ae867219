//! Connections: resolves a name, judges what came out, and connects to the very address that it judged.
//!
//! Between the judgement and the connection no name is looked up again, so that a resolver that changes its answer changes
//! nothing; and whatever a URL spells is judged, because all of it comes by here. A connection that is kept was judged when it was made.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use async_trait::async_trait;
use hyper::Uri;
use hyper_util::client::legacy::connect::{Connected, Connection};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout_at};
use tower_service::Service;

use super::guard::{Guard, Refused};
use super::proxy::tunnel;
use super::url::{Host, Place};

/// Addresses of one name that are tried.
const ADDRESSES: usize = 8;

/// Looks names up.
#[async_trait]
pub(super) trait Resolve: Send + Sync + 'static {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>>;
}

/// As the system does.
#[derive(Debug)]
pub(super) struct System;

#[async_trait]
impl Resolve for System {
    async fn resolve(&self, name: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
        Ok(tokio::net::lookup_host((name, port)).await?.collect())
    }
}

/// How plain connections become encrypted ones.
#[cfg(feature = "webhook-tls")]
pub(super) type Tls = Option<super::tls::Encrypt>;
#[cfg(not(feature = "webhook-tls"))]
pub(super) type Tls = ();

/// Makes connections. Cheap to clone.
#[derive(Clone)]
pub(super) struct Connector(Arc<Inner>);

struct Inner {
    guard: Guard,
    resolve: Box<dyn Resolve>,
    #[cfg_attr(not(feature = "webhook-tls"), expect(dead_code, reason = "there is nothing in it"))]
    tls: Tls,
    proxy: Option<Place>,
    within: Duration,
}

impl Connector {
    /// Connects within this time.
    pub(super) fn new(
        guard: Guard,
        resolve: impl Resolve,
        tls: Tls,
        proxy: Option<Place>,
        within: Duration,
    ) -> Self {
        Self(Arc::new(Inner { guard, resolve: Box::new(resolve), tls, proxy, within }))
    }

    /// Whether a request may go there, as far as can be told now.
    pub(super) async fn check(&self, place: &Place) -> Result<(), Unconnected> {
        let deadline = Instant::now() + self.0.within;
        self.addresses(place, deadline).await.map(drop)
    }

    /// The addresses that a request may go to.
    async fn addresses(
        &self,
        place: &Place,
        deadline: Instant,
    ) -> Result<Vec<SocketAddr>, Unconnected> {
        let found = match &place.host {
            Host::Address(address) => vec![SocketAddr::new(*address, place.port)],
            Host::Name(name) => timeout_at(deadline, self.0.resolve.resolve(name, place.port))
                .await
                .map_err(|_| Unconnected::Slow(self.0.within))?
                .map_err(Unconnected::Unresolved)?,
        };
        let mut refused = None;
        let mut allowed = Vec::new();
        for address in found {
            match self.0.guard.judge(address.ip()) {
                Ok(()) => allowed.push(address),
                Err(why) => refused = Some(why),
            }
        }
        match refused {
            Some(refused) if allowed.is_empty() => Err(Unconnected::Refused(refused)),
            _ => Ok(allowed),
        }
    }

    async fn connect(&self, uri: Uri) -> Result<TokioIo<Stream>, Unconnected> {
        let deadline = Instant::now() + self.0.within;
        let place = Place::of(&uri).map_err(Unconnected::Url)?;
        let mut addresses = self.addresses(&place, deadline).await?;
        addresses.truncate(ADDRESSES);
        let mut failed = io::Error::new(io::ErrorKind::NotFound, "the name has no address");
        let count = addresses.len();
        for (at, address) in addresses.into_iter().enumerate() {
            // Those that come later have their share of the time too.
            let share = u32::try_from(count - at).unwrap_or(u32::MAX);
            let until = Instant::now() + deadline.duration_since(Instant::now()) / share;
            let plain = match timeout_at(until, self.reach(address)).await {
                Ok(Ok(plain)) => plain,
                Ok(Err(error)) => {
                    failed = error;
                    continue;
                }
                Err(_) => {
                    failed = io::ErrorKind::TimedOut.into();
                    continue;
                }
            };
            let _ = plain.set_nodelay(true);
            let secured = timeout_at(deadline, self.secure(&place, plain)).await;
            return secured.map_err(|_| Unconnected::Slow(self.0.within))?.map(TokioIo::new);
        }
        Err(Unconnected::Unreachable(failed))
    }

    async fn reach(&self, address: SocketAddr) -> io::Result<TcpStream> {
        match &self.0.proxy {
            Some(proxy) => tunnel(proxy, address).await,
            None => TcpStream::connect(address).await,
        }
    }

    #[cfg(feature = "webhook-tls")]
    async fn secure(&self, place: &Place, plain: TcpStream) -> Result<Stream, Unconnected> {
        match &self.0.tls {
            Some(tls) if place.is_tls => {
                Ok(Box::new(tls.encrypt(&place.host, plain).await.map_err(Unconnected::Tls)?))
            }
            None if place.is_tls => Err(Unconnected::NoTls),
            _ => Ok(Box::new(plain)),
        }
    }

    #[cfg(not(feature = "webhook-tls"))]
    async fn secure(&self, place: &Place, plain: TcpStream) -> Result<Stream, Unconnected> {
        if place.is_tls { Err(Unconnected::NoTls) } else { Ok(Box::new(plain)) }
    }
}

/// An open connection, encrypted or not.
pub(super) type Stream = Box<dyn Bytes>;

/// What carries bytes both ways.
pub(super) trait Bytes: AsyncRead + AsyncWrite + Send + Unpin {}

impl<T: AsyncRead + AsyncWrite + Send + Unpin> Bytes for T {}

impl Connection for Stream {
    fn connected(&self) -> Connected {
        Connected::new()
    }
}

impl Service<Uri> for Connector {
    type Response = TokioIo<Stream>;
    type Error = Unconnected;
    type Future = Pin<Box<dyn Future<Output = Result<TokioIo<Stream>, Unconnected>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Unconnected>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.clone();
        Box::pin(async move { connector.connect(uri).await })
    }
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
pub(super) enum Unconnected {
    /// No request goes there.
    #[error(transparent)]
    Refused(Refused),
    #[error("the URL {0}")]
    Url(&'static str),
    #[error("no connection within {0:?}")]
    Slow(Duration),
    #[error("the receiver's name cannot be resolved")]
    Unresolved(#[source] io::Error),
    #[error("the receiver cannot be reached")]
    Unreachable(#[source] io::Error),
    #[cfg(feature = "webhook-tls")]
    #[error("no TLS with the receiver")]
    Tls(#[source] io::Error),
    #[error(
        "this build has no TLS: switch on the feature `webhook-tls` (`sink-webhook-tls` of `sendoff`)"
    )]
    NoTls,
}

#[cfg(test)]
mod tests {
    use std::sync::Mutex;

    use tokio::net::TcpListener;

    use super::super::guard::Net;
    use super::*;

    /// Answers with each of these in turn, and with the last for ever.
    struct Changing(Mutex<Vec<&'static str>>);

    #[async_trait]
    impl Resolve for Changing {
        async fn resolve(&self, _: &str, port: u16) -> io::Result<Vec<SocketAddr>> {
            let mut answers = self.0.lock().unwrap();
            let answer = if answers.len() > 1 { answers.remove(0) } else { answers[0] };
            Ok(answer.split(' ').map(|ip| SocketAddr::new(ip.parse().unwrap(), port)).collect())
        }
    }

    fn connector(allowed: &[&str], answers: &[&'static str]) -> Connector {
        let guard = Guard { allowed: allowed.iter().map(|net| Net::read(net).unwrap()).collect() };
        let tls = Tls::default();
        let answers = Changing(Mutex::new(answers.to_vec()));
        Connector::new(guard, answers, tls, None, Duration::from_secs(5))
    }

    async fn connect(connector: &Connector, port: u16) -> Result<(), Unconnected> {
        let uri = format!("http://hooks.example:{port}/").parse().unwrap();
        connector.connect(uri).await.map(drop)
    }

    /// Holds fault 34: one look, one judgement, and the connection goes to what was judged.
    #[tokio::test]
    async fn a_resolver_that_changes_its_answer_changes_nothing() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        // Judged: 127.0.0.2, where nobody listens. Were the name looked up again, 127.0.0.1 would answer.
        let rebinding = connector(&["127.0.0.2"], &["127.0.0.2", "127.0.0.1"]);
        let first = connect(&rebinding, port).await;
        assert!(matches!(first, Err(Unconnected::Unreachable(_))), "{first:?}");
        // And the next attempt is judged anew.
        let second = connect(&rebinding, port).await;
        assert!(matches!(second, Err(Unconnected::Refused(_))), "{second:?}");
        let allowed = connector(&["127.0.0.1"], &["127.0.0.1"]);
        assert!(connect(&allowed, port).await.is_ok());
    }

    #[tokio::test]
    async fn of_a_names_addresses_those_that_are_refused_are_never_tried() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let mixed = connector(&["127.0.0.3"], &["127.0.0.3 127.0.0.1"]);
        let tried = connect(&mixed, port).await;
        assert!(matches!(tried, Err(Unconnected::Unreachable(_))), "{tried:?}");
        let second = connector(&["127.0.0.3", "127.0.0.1"], &["127.0.0.3 127.0.0.1"]);
        assert!(connect(&second, port).await.is_ok(), "the next address is tried");
    }

    /// Literals never come to a resolver.
    #[tokio::test]
    async fn addresses_in_urls_are_judged_too() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let strict = connector(&[], &["1.1.1.1"]);
        for host in [
            "127.0.0.1",
            "127.0.0.1.",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[::ffff:7f00:1]",
            "0.0.0.0",
            "[::]",
        ] {
            let uri = format!("http://{host}:{port}/").parse().unwrap();
            let refused = strict.connect(uri).await.map(drop);
            assert!(matches!(refused, Err(Unconnected::Refused(_))), "{host}: {refused:?}");
        }
        for odd in ["2130706433", "0x7f.1", "0", "127.1"] {
            let uri = format!("http://{odd}:{port}/").parse().unwrap();
            let refused = strict.connect(uri).await.map(drop);
            assert!(matches!(refused, Err(Unconnected::Url(_))), "{odd}: {refused:?}");
        }
        // By the system's own resolver.
        let system =
            Connector::new(Guard::default(), System, Tls::default(), None, Duration::from_secs(5));
        let uri = format!("http://localhost:{port}/").parse().unwrap();
        let refused = system.connect(uri).await.map(drop);
        assert!(matches!(refused, Err(Unconnected::Refused(_))), "{refused:?}");
    }
}
