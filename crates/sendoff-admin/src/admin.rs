//! Puts the routes together: who may ask, how long and how large a request may be, and serving
//! them.

use std::fmt;
use std::future::Future;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::{ConnectInfo, DefaultBodyLimit, Request, State};
use axum::http::HeaderValue;
use axum::http::header::CACHE_CONTROL;
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use sendoff_engine::journal::Journal;
use sendoff_engine::journal::publish::PublishStore;
use sendoff_engine::store::PauseStore;
use sendoff_engine::{DeadLetters, OrderKeys};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::time::timeout;
use tracing::{debug, warn};

use crate::access::{Access, Bearer};
use crate::desk::Desk;
use crate::letters::LetterDesk;
use crate::places::Heard;
use crate::problem::{Kind, Problem};
use crate::routes::{self, Parts};
use crate::serve::serve;

/// How long a request may take where nobody says.
const DEADLINE: Duration = Duration::from_secs(10);
/// Requests that are worked on at once. Operators are few, and the database has other work.
const REQUESTS: usize = 16;
/// Bytes of a body. The largest there is says which letters are meant, by the text of their error.
const BODY_BYTES: usize = 32 * 1_024;

/// Why the routes cannot be served.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum AdminError {
    /// Anybody could ask.
    #[error(
        "there is no token: give one with `token`, or say `loopback_only` if everybody on this \
         machine may operate what is served"
    )]
    NoToken,
    /// No request can be answered in no time.
    #[error("the deadline must be longer than zero")]
    NoTime,
    /// It was to be for this machine only, and others can reach the address.
    #[error(
        "{address} is no loopback address: bind 127.0.0.1 or [::1], or leave out `loopback_only`"
    )]
    NotLoopback {
        /// Where it listens.
        address: SocketAddr,
    },
    /// The listener failed.
    #[error("the listener failed")]
    Listener(#[source] io::Error),
}

/// Puts the routes together.
#[derive(Clone)]
#[must_use = "nothing is served before `router` or `serve`"]
pub struct Admin {
    journal: Option<Arc<dyn Desk>>,
    outbox: Option<DeadLetters>,
    pauses: Option<Arc<dyn PauseStore>>,
    keys: Option<OrderKeys>,
    access: Access,
    deadline: Duration,
}

impl Admin {
    /// For the publishers of this journal, wherever they run.
    pub fn new<S: PublishStore>(journal: &Journal<S>) -> Self {
        Self { journal: Some(Arc::new(journal.clone())), ..Self::of_nothing() }
    }

    /// For these dead letters, wherever nodes deliver: `Admin::outbox(outbox.dead_letters())`.
    pub fn outbox(letters: DeadLetters) -> Self {
        Self { outbox: Some(letters), ..Self::of_nothing() }
    }

    /// For these dead letters too.
    pub fn with_outbox(mut self, letters: DeadLetters) -> Self {
        self.outbox = Some(letters);
        self
    }

    /// For what is paused of the delivery from this store too, wherever nodes deliver.
    pub fn with_pauses(mut self, store: impl PauseStore) -> Self {
        self.pauses = Some(Arc::new(store));
        self
    }

    /// For the keys of an outbox's events too, wherever nodes deliver: `with_keys(outbox.keys())`.
    pub fn with_keys(mut self, keys: OrderKeys) -> Self {
        self.keys = Some(keys);
        self
    }

    fn of_nothing() -> Self {
        let (access, deadline) = (Access::default(), DEADLINE);
        Self { journal: None, outbox: None, pauses: None, keys: None, access, deadline }
    }

    /// Requests must carry this token.
    pub fn token(mut self, token: Bearer) -> Self {
        self.access.token = Some(token);
        self
    }

    /// Answers nobody but this machine: requests whose peer is a loopback address, that do not say that
    /// they came through a proxy, and that no page of another origin sent. Then it works without a token
    /// too. A proxy on this machine that says nothing lets everybody in: behind one, give a token.
    ///
    /// A router that you serve yourself must know its peers
    /// (`into_make_service_with_connect_info::<SocketAddr>()`); one that does not, refuses everything.
    pub fn loopback_only(mut self) -> Self {
        self.access.loopback_only = true;
        self
    }

    /// How long a request may take; 10 s if nothing is said. A change that was not answered in time may
    /// have been made all the same.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// The routes, all of them under `/api/outbox`, to be merged with others or served by themselves.
    ///
    /// # Errors
    ///
    /// [`NoToken`](AdminError::NoToken) where there is no token and nobody said
    /// [`loopback_only`](Self::loopback_only).
    pub fn router(self) -> Result<Router, AdminError> {
        let (routes, gate) = self.gated()?;
        // Of the routes, not of all there is: what an application does not find is its own affair.
        Ok(routes.route_layer(from_fn_with_state(gate, pass)))
    }

    fn gated(self) -> Result<(Router, Arc<Gate>), AdminError> {
        if self.access.token.is_none() && !self.access.loopback_only {
            return Err(AdminError::NoToken);
        }
        if self.deadline.is_zero() {
            return Err(AdminError::NoTime);
        }
        let gate =
            Gate { access: self.access, deadline: self.deadline, room: Semaphore::new(REQUESTS) };
        let deadline = self.deadline;
        let outbox = self.outbox.map(|letters| LetterDesk { letters, patience: deadline / 2 });
        let parts = Parts { journal: self.journal, outbox, pauses: self.pauses, keys: self.keys };
        let routes = routes::router(&parts).route_layer(DefaultBodyLimit::max(BODY_BYTES));
        Ok((routes, Arc::new(gate)))
    }

    /// Serves the routes by themselves, over HTTP/1.1 without TLS, until `stop`; then it answers what was
    /// asked, for a few seconds at most.
    ///
    /// # Errors
    ///
    /// Those of [`router`](Self::router), and [`NotLoopback`](AdminError::NotLoopback) where it is
    /// [`loopback_only`](Self::loopback_only) and the listener is not.
    pub async fn serve(
        self,
        listener: TcpListener,
        stop: impl Future<Output = ()> + Send,
    ) -> Result<(), AdminError> {
        let address = listener.local_addr().map_err(AdminError::Listener)?;
        if self.access.loopback_only && !address.ip().to_canonical().is_loopback() {
            return Err(AdminError::NotLoopback { address });
        }
        let (routes, gate) = self.gated()?;
        let router = routes.layer(from_fn_with_state(gate, pass));
        if !address.ip().to_canonical().is_loopback() {
            warn!(%address, "serving without TLS: on its way the token can be read");
        }
        serve(listener, router, stop).await;
        Ok(())
    }
}

impl fmt::Debug for Admin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Admin")
            .field("access", &self.access)
            .field("deadline", &self.deadline)
            .finish_non_exhaustive()
    }
}

/// What every request passes, also one to a route that is not there.
struct Gate {
    access: Access,
    deadline: Duration,
    room: Semaphore,
}

async fn pass(State(gate): State<Arc<Gate>>, request: Request, next: Next) -> Response {
    let mut response = gate.answer(request, next).await.into_response();
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

impl Gate {
    async fn answer(&self, request: Request, next: Next) -> Result<Response, Problem> {
        let peer = request.extensions().get::<ConnectInfo<SocketAddr>>().map(|info| info.0);
        self.access.check(request.headers(), peer).inspect_err(|refusal| {
            debug!(?peer, ?refusal, "a request was refused");
        })?;
        if let Some(heard) = request.extensions().get::<Heard>() {
            heard.set();
        }
        let Ok(_place) = self.room.try_acquire() else {
            let detail = format!("{REQUESTS} requests are being worked on; try again");
            return Err(Problem::new(Kind::Busy, detail));
        };
        timeout(self.deadline, next.run(request)).await.map_err(|_| {
            let detail = format!(
                "it was not answered within {:?}; a change may have been made all the same",
                self.deadline
            );
            Problem::new(Kind::Late, detail)
        })
    }
}
