//! A small server with a limit on everything.

use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use axum::extract::ConnectInfo;
use axum::{Extension, Router};
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::time::{sleep, timeout};
use tracing::{debug, info, warn};

use crate::places::{Place, Places};

/// Connections at once. Where there are more, those go that have not asked for anything yet.
const CONNECTIONS: usize = 64;
/// How long the head of a request may take, and so how long a connection may be idle.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
/// Headers of a request.
const HEADERS: usize = 64;
/// Bytes that a connection may have in memory, its head among them.
const BUFFER_BYTES: usize = 16 * 1024;
/// How long what was asked before the end may take.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(5);
/// The pause after the system had no connection to give.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Until `stop`.
pub(crate) async fn serve(
    listener: TcpListener,
    router: Router,
    stop: impl Future<Output = ()> + Send,
) {
    let mut stop = std::pin::pin!(stop);
    let places = Places::new(CONNECTIONS);
    let graceful = GracefulShutdown::new();
    loop {
        let accepted = tokio::select! {
            biased;
            () = &mut stop => break,
            accepted = accept(&listener, &places) => accepted,
        };
        let (place, stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                warn!(%error, "a connection could not be accepted");
                // Often there are too many open files, and the next try would fail at once.
                sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let known = router.clone();
        let known = known.layer(Extension(ConnectInfo(peer))).layer(Extension(place.heard.clone()));
        let connection = http1::Builder::new()
            .timer(TokioTimer::new())
            .header_read_timeout(HEAD_TIMEOUT)
            .max_headers(HEADERS)
            .max_buf_size(BUFFER_BYTES)
            .serve_connection(TokioIo::new(stream), TowerToHyperService::new(known));
        let connection = graceful.watch(connection);
        tokio::spawn(async move {
            tokio::select! {
                ended = connection => {
                    if let Err(error) = ended {
                        debug!(%peer, %error, "a connection ended");
                    }
                }
                () = place.cut.notified() => debug!(%peer, "a connection made way for another"),
            }
        });
    }
    drop(listener);
    let drained = timeout(DRAIN_TIMEOUT, graceful.shutdown()).await.is_ok();
    info!(drained, "serving ended");
}

/// Accepts first: nobody makes way while nobody comes.
async fn accept(
    listener: &TcpListener,
    places: &Places,
) -> io::Result<(Place, TcpStream, SocketAddr)> {
    let (stream, peer) = listener.accept().await?;
    let place = places.take().await.ok_or(io::ErrorKind::NotConnected)?;
    Ok((place, stream, peer))
}
