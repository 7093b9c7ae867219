//! Asking a server to end what a session is about.
//!
//! A request to cancel is a connection of its own. Whoever takes it closes it once it was passed on, and until
//! then we keep it open, as libpq does: a pooler drops a request whose connection is closed earlier, and
//! PgBouncer 1.18 may afterwards take its next client for it, end that one, or give it the answers of others.
//! `cancel_query` of tokio-postgres closes it at once, so the streams are ours.

use std::io;
use std::net::SocketAddr;
#[cfg(unix)]
use std::path::PathBuf;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use futures_util::future::join_all;
use sendoff_core::{BoxError, report};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
#[cfg(unix)]
use tokio::net::UnixStream;
use tokio::net::{TcpStream, lookup_host};
use tokio::time::timeout;
use tokio_postgres::config::Host;
use tokio_postgres::{CancelToken, NoTls};
use tracing::debug;

use crate::connect::Target;
use crate::tls::Security;

/// How long a request may take to be passed on. Nobody waits for it, and a server that has no time for it has
/// none for anything else: closed early, it would do the harm that it is kept open for.
const PASSED_ON: Duration = Duration::from_secs(5 * 60);

/// Returns when the request was passed on, and leaves it at that: where this fails, so does everything else.
/// `connecting` may take so long.
///
/// The driver does not tell which of several addresses a session is at, so each of them is asked; the others
/// do not know the key.
pub(crate) async fn cancel(target: &Target, token: &CancelToken, connecting: Duration) {
    let Ok(peers) = timeout(connecting, peers(target)).await else { return };
    let asked = peers.into_iter().map(async |(name, peer)| {
        if let Err(error) = ask(target, token, &name, peer, connecting).await {
            debug!(error = report(&*error), "a statement could not be cancelled");
        }
    });
    join_all(asked).await;
}

/// Where a session may be.
enum Peer {
    Tcp(SocketAddr),
    #[cfg(unix)]
    Unix(PathBuf),
}

/// Every address of every host, and the host's name.
async fn peers(target: &Target) -> Vec<(String, Peer)> {
    let (hosts, addresses) = (target.config.get_hosts(), target.config.get_hostaddrs());
    let mut peers = Vec::new();
    for nth in 0..hosts.len().max(addresses.len()) {
        let port = target.port(nth);
        let name = match hosts.get(nth) {
            Some(Host::Tcp(name)) => name.clone(),
            #[cfg(unix)]
            Some(Host::Unix(folder)) => {
                let socket = folder.join(format!(".s.PGSQL.{port}"));
                peers.push((String::new(), Peer::Unix(socket)));
                continue;
            }
            None => String::new(),
        };
        if let Some(address) = addresses.get(nth) {
            peers.push((name, Peer::Tcp(SocketAddr::new(*address, port))));
            continue;
        }
        match lookup_host((&*name, port)).await {
            Ok(found) => peers.extend(found.map(|address| (name.clone(), Peer::Tcp(address)))),
            Err(error) => debug!(%error, "a statement could not be cancelled"),
        }
    }
    peers
}

async fn ask(
    target: &Target,
    token: &CancelToken,
    name: &str,
    peer: Peer,
    connecting: Duration,
) -> Result<(), BoxError> {
    match peer {
        Peer::Tcp(address) => {
            let stream = timeout(connecting, TcpStream::connect(address)).await??;
            timeout(PASSED_ON, over(stream, target, token, name)).await?
        }
        #[cfg(unix)]
        Peer::Unix(socket) => {
            let stream = timeout(connecting, UnixStream::connect(socket)).await??;
            timeout(PASSED_ON, over(stream, target, token, name)).await?
        }
    }
}

async fn over<S>(
    stream: S,
    target: &Target,
    token: &CancelToken,
    #[cfg_attr(not(feature = "tls-rustls"), expect(unused_variables))] name: &str,
) -> Result<(), BoxError>
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    match &target.security {
        Security::Plain => token.cancel_query_raw(Patient(stream), NoTls).await?,
        #[cfg(feature = "tls-rustls")]
        Security::Rustls(tls) => {
            use tokio_postgres::tls::MakeTlsConnect;
            let tls = MakeTlsConnect::<S>::make_tls_connect(&mut tls.clone(), name)?;
            token.cancel_query_raw(stream, encrypted::PatientTls(tls)).await?;
        }
    }
    Ok(())
}

/// A stream that is not shut down before its peer has closed it.
struct Patient<S>(S);

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(cx, buf)
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let mut bytes = [0; 64];
        loop {
            let mut buf = ReadBuf::new(&mut bytes);
            let read = ready!(Pin::new(&mut self.0).poll_read(cx, &mut buf));
            // An error is a peer that has closed without a farewell.
            if read.is_err() || buf.filled().is_empty() {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

#[cfg(feature = "tls-rustls")]
mod encrypted {
    use futures_util::TryFutureExt;
    use futures_util::future::MapOk;
    use tokio_postgres::tls::{ChannelBinding, TlsConnect, TlsStream};

    use super::Patient;

    /// Encrypts into a stream that is patient: a farewell within TLS would come too early as well.
    pub(super) struct PatientTls<T>(pub(super) T);

    impl<S, T: TlsConnect<S>> TlsConnect<S> for PatientTls<T> {
        type Stream = Patient<T::Stream>;
        type Error = T::Error;
        type Future = MapOk<T::Future, fn(T::Stream) -> Patient<T::Stream>>;

        fn connect(self, stream: S) -> Self::Future {
            self.0.connect(stream).map_ok(Patient as fn(T::Stream) -> Patient<T::Stream>)
        }
    }

    impl<S: TlsStream + Unpin> TlsStream for Patient<S> {
        fn channel_binding(&self) -> ChannelBinding {
            self.0.channel_binding()
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    #[tokio::test]
    async fn a_stream_is_shut_down_only_after_its_peer_was() {
        let (ours, mut theirs) = duplex(64);
        let mut ours = Patient(ours);
        ours.write_all(b"key").await.unwrap();
        let mut shut = Box::pin(ours.shutdown());
        assert!((&mut shut).now_or_never().is_none());
        let mut key = [0; 3];
        theirs.read_exact(&mut key).await.unwrap();
        theirs.write_all(b"who cares").await.unwrap();
        assert!((&mut shut).now_or_never().is_none());
        drop(theirs);
        shut.await.unwrap();
    }
}
