//! What a sink keeps between itself and its target: one connection, opened on demand, and whatever bounds its use.
//!
//! A sink says how a connection is opened ([`Connect`]) and what is done on one; [`Link`] does the rest, alike for all:
//!
//! - **One attempt at a time.** Whoever needs a connection while another opens it waits for that one.
//! - **A back-off** between attempts that fail, doubling and bounded. Until it is over, batches fail at once as unavailable,
//!   and [`is_healthy`](Link::is_healthy) says no; then it says yes, so that the next batch is the attempt.
//! - **A deadline** for each batch, waiting and opening included. What has no verdict by then is *unknown*: unavailable, and
//!   delivered again under the same id. The connection is given up, because whoever was silent once may answer the wrong
//!   question later.
//! - **Facts one after the other**, each when the one before it was taken ([`Link::carry_all`]).
//! - **A bound on batches in flight**, and **an end**: [`close`](Link::close) lets those finish, flushes, and is bounded too.
//!
//! A [`Slate`] has the verdicts of a batch: whatever happens, each event has exactly one.

mod options;
mod slate;

use std::fmt;
use std::future::Future;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use async_trait::async_trait;
use sendoff_core::{Delivery, Exponential, Failure, Jitter, RetryPolicy};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::{Instant, timeout, timeout_at};
use tracing::{debug, error, info, warn};

use crate::class::{Class, MISCONFIGURED_FOR, Misconfigured, OnceAMinute, Shared, Trouble};

pub use options::LinkOptions;
pub use slate::Slate;

/// The part of a batch's time in which facts are begun. The last of them has the rest, which is as long as a client
/// that keeps time by itself takes for one.
const BEGUN_WITHIN: u32 = 10;

/// How a sink's connections are made and ended.
#[async_trait]
pub trait Connect: Send + Sync + 'static {
    /// A connection, or whatever batches are delivered through.
    type Conn: Send + Sync + 'static;

    /// Opens one, and looks whether what the sink was told is right: credentials, and destinations that must exist. Bounded
    /// by [`LinkOptions::connect_within`], and may be dropped at any await.
    async fn open(&self) -> Result<Self::Conn, Trouble>;

    /// Whether one can still be used, as far as it knows. One that cannot is opened anew by the next batch.
    fn is_open(&self, _: &Self::Conn) -> bool {
        true
    }

    /// Flushes and ends one that nobody uses any more. Bounded by [`LinkOptions::close_within`].
    async fn close(&self, conn: Arc<Self::Conn>) {
        self.discard(conn);
    }

    /// Lets go of one that is in doubt, without waiting for it. A client whose drop blocks is dropped elsewhere.
    fn discard(&self, conn: Arc<Self::Conn>) {
        drop(conn);
    }
}

/// The connection of a sink. Cheap to clone; clones are the same.
pub struct Link<C: Connect>(Arc<Inner<C>>);

struct Inner<C: Connect> {
    /// The sink's name, for the log.
    sink: String,
    connect: C,
    options: LinkOptions,
    /// Who has it opens.
    opening: tokio::sync::Mutex<()>,
    state: Mutex<State<C::Conn>>,
    flights: Arc<Semaphore>,
    warned: OnceAMinute,
    complained: OnceAMinute,
}

struct State<T> {
    now: Now<T>,
    /// Failures in a row; a batch that was carried ends them.
    failures: u32,
    /// Counts connections, so that one that was lost is not taken for its successor.
    opened: u64,
}

enum Now<T> {
    /// Nothing is known.
    None,
    Up(Arc<T>),
    Down {
        until: Instant,
        class: Class,
        error: Shared,
    },
    Closed,
}

/// A connection as a batch has it.
struct Held<T> {
    conn: Arc<T>,
    number: u64,
}

impl<C: Connect> Clone for Link<C> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

impl<C: Connect> fmt::Debug for Link<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Link")
            .field("sink", &self.0.sink)
            .field("is_healthy", &self.is_healthy())
            .finish_non_exhaustive()
    }
}

impl<C: Connect> Link<C> {
    /// Opens the first connection. A target that is unavailable is no reason not to start: the log says so, and batches
    /// wait for it.
    ///
    /// # Errors
    ///
    /// What the sink was told is wrong.
    pub async fn start(
        sink: impl Into<String>,
        connect: C,
        options: LinkOptions,
    ) -> Result<Self, Misconfigured> {
        let flights = Arc::new(Semaphore::new(options.batches_in_flight));
        let state = Mutex::new(State { now: Now::None, failures: 0, opened: 0 });
        let link = Self(Arc::new(Inner {
            sink: sink.into(),
            connect,
            options,
            opening: tokio::sync::Mutex::default(),
            state,
            flights,
            warned: OnceAMinute::default(),
            complained: OnceAMinute::default(),
        }));
        match link.open().await {
            Ok(_) => Ok(link),
            Err(Trouble::Misconfigured(wrong)) => Err(wrong),
            Err(trouble) => {
                link.failed(trouble);
                Ok(link)
            }
        }
    }

    /// Whether a batch would be tried now: not while the back-off after a failure lasts, and not after the end.
    pub fn is_healthy(&self) -> bool {
        match self.state().now {
            Now::None | Now::Up(_) => true,
            Now::Down { until, .. } => Instant::now() >= until,
            Now::Closed => false,
        }
    }

    /// A number that clones have in common, and no other link of this process has while this one is there: what a sink answers
    /// with as its [identity](sendoff_core::Sink::identity).
    pub fn identity(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    /// Has a batch carried: `work` settles the verdicts in `slate` over a connection. It ends well when it has settled all
    /// that it could, and with a [`Trouble`] when the connection is lost or of no use. Whatever it leaves without a verdict,
    /// here or at the deadline, is unavailable.
    ///
    /// Dropped, it has delivered or not; nothing of the link is left in doubt.
    pub async fn carry<W, F>(&self, slate: &Slate, work: W)
    where
        W: FnOnce(Arc<C::Conn>) -> F + Send,
        F: Future<Output = Result<(), Trouble>> + Send,
    {
        if slate.is_full() {
            return;
        }
        let within = self.0.options.deliver_within;
        let deadline = Instant::now() + within;
        let (held, _flight) = match timeout_at(deadline, self.enter()).await {
            Ok(Ok(entered)) => entered,
            Ok(Err(failure)) => return slate.fail_rest(failure),
            Err(_) => return slate.fail_rest(self.not_entered(within)),
        };
        let trouble = match timeout_at(deadline, work(Arc::clone(&held.conn))).await {
            Ok(Ok(())) => {
                self.state().failures = 0;
                return slate.fail_rest((Class::Unavailable, Shared::new(Unanswered)));
            }
            Ok(Err(trouble)) => trouble,
            Err(_) => Trouble::unavailable(Silent(within)),
        };
        slate.fail_rest(self.lost(&held, trouble));
    }

    /// Has the encoded events of a batch carried as by [`carry`](Self::carry), each with its place.
    ///
    /// Facts have one order: `work` is given one at a time, each when the one before it was taken. The first that was not
    /// ends the batch, and so does a tenth of its time, because all of them wait for the target in turn; those after that
    /// were not tried, and are left out of the verdicts. Other events are given to `work` all at once, and so are facts
    /// where [`LinkOptions::facts_side_by_side`] says so.
    pub async fn carry_all<T, W, F>(
        &self,
        slate: &Slate,
        deliveries: &[Delivery],
        events: Vec<(usize, T)>,
        mut work: W,
    ) where
        T: Send,
        W: FnMut(Arc<C::Conn>, Vec<(usize, T)>) -> F + Send,
        F: Future<Output = Result<(), Trouble>> + Send,
    {
        let are_facts = deliveries.iter().any(|delivery| delivery.fact().is_some());
        if !are_facts || self.0.options.facts_side_by_side {
            return self.carry(slate, |conn| work(conn, events)).await;
        }
        let begin_until = Instant::now() + self.0.options.deliver_within / BEGUN_WITHIN;
        let one_by_one = |conn: Arc<C::Conn>| async move {
            for (at, event) in events {
                if at > 0 && !slate.is_done(at - 1) {
                    break;
                }
                if at > 0 && Instant::now() >= begin_until {
                    slate.leave_out_from(at);
                    break;
                }
                work(Arc::clone(&conn), vec![(at, event)]).await?;
            }
            Ok(())
        };
        self.carry(slate, one_by_one).await;
        slate.end_with_failure();
    }

    /// The failure of one event that the target answered with this class. What is misconfigured is said in the log.
    pub fn failure(&self, class: Class, error: impl Into<sendoff_core::BoxError>) -> Failure {
        let error = error.into();
        if class == Class::Misconfigured {
            self.say_misconfigured(&*error);
        }
        class.failure(error)
    }

    /// Takes no more batches, waits for those in flight, flushes, and ends the connection; all of that within
    /// [`LinkOptions::close_within`]. Answers whether it came to its end.
    pub async fn close(&self) -> bool {
        let all = self.0.options.batches_in_flight;
        let deadline = Instant::now() + self.0.options.close_within;
        let last = std::mem::replace(&mut self.state().now, Now::Closed);
        let flights = u32::try_from(all).unwrap_or(u32::MAX);
        let landed = timeout_at(deadline, self.0.flights.acquire_many(flights)).await.is_ok();
        let Now::Up(conn) = last else { return landed };
        let ended = timeout_at(deadline, self.0.connect.close(conn)).await.is_ok();
        if !(landed && ended) {
            warn!(sink = self.0.sink, within = ?self.0.options.close_within, "sink was cut off while it closed");
        }
        landed && ended
    }

    fn state(&self) -> MutexGuard<'_, State<C::Conn>> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place in flight, and a connection.
    async fn enter(&self) -> Result<(Held<C::Conn>, OwnedSemaphorePermit), (Class, Shared)> {
        let closed = || (Class::Unavailable, Shared::new(Closed));
        // Before the wait: what cannot be carried now need not wait for a place.
        if let Some(refused) = self.refused() {
            return Err(refused);
        }
        let flight = Arc::clone(&self.0.flights).acquire_owned().await.map_err(|_| closed())?;
        if let Some(held) = self.held() {
            return Ok((held, flight));
        }
        let _turn = self.0.opening.lock().await;
        // Whoever had the turn before may have opened one, or failed.
        if let Some(held) = self.held() {
            return Ok((held, flight));
        }
        if let Some(refused) = self.refused() {
            return Err(refused);
        }
        let opened = self.open().await.map_err(|trouble| self.failed(trouble))?;
        opened.map(|held| (held, flight)).ok_or_else(closed)
    }

    /// A batch whose time was over before it had a place or a connection. Where there is none, that is a failure to open one.
    fn not_entered(&self, within: Duration) -> (Class, Shared) {
        if matches!(self.state().now, Now::Up(_)) {
            let most = self.0.options.batches_in_flight;
            return (Class::Unavailable, Shared::new(TooMany { within, most }));
        }
        self.failed(Trouble::unavailable(Unopened(within)))
    }

    /// Why nothing is tried now.
    fn refused(&self) -> Option<(Class, Shared)> {
        match &self.state().now {
            Now::None | Now::Up(_) => None,
            Now::Down { until, .. } if Instant::now() >= *until => None,
            Now::Down { class, error, .. } => Some((*class, error.clone())),
            Now::Closed => Some((Class::Unavailable, Shared::new(Closed))),
        }
    }

    /// The connection, where there is one that can be used.
    fn held(&self) -> Option<Held<C::Conn>> {
        let mut state = self.state();
        let number = state.opened;
        let Now::Up(conn) = &state.now else { return None };
        if self.0.connect.is_open(conn) {
            return Some(Held { conn: Arc::clone(conn), number });
        }
        if let Now::Up(conn) = std::mem::replace(&mut state.now, Now::None) {
            drop(state);
            self.0.connect.discard(conn);
        }
        None
    }

    /// Opens one; none where the link was closed meanwhile.
    async fn open(&self) -> Result<Option<Held<C::Conn>>, Trouble> {
        let within = self.0.options.connect_within;
        let opened = timeout(within, self.0.connect.open()).await;
        let conn = Arc::new(opened.map_err(|_| Trouble::unavailable(Unopened(within)))??);
        let (held, was_down) = {
            let mut state = self.state();
            if matches!(state.now, Now::Closed) {
                (None, false)
            } else {
                state.opened += 1;
                let held = Held { conn: Arc::clone(&conn), number: state.opened };
                let before = std::mem::replace(&mut state.now, Now::Up(Arc::clone(&conn)));
                (Some(held), matches!(before, Now::Down { .. }))
            }
        };
        if held.is_none() {
            self.0.connect.discard(conn);
        } else if was_down {
            info!(sink = self.0.sink, "sink is connected again");
        }
        Ok(held)
    }

    /// A connection is given up, unless another took its place.
    fn lost(&self, held: &Held<C::Conn>, trouble: Trouble) -> (Class, Shared) {
        let conn = {
            let mut state = self.state();
            match (&state.now, state.opened == held.number) {
                (Now::Up(_), true) => std::mem::replace(&mut state.now, Now::None),
                _ => Now::None,
            }
        };
        let Now::Up(conn) = conn else {
            return (trouble.class(), Shared::new(trouble));
        };
        self.0.connect.discard(conn);
        self.failed(trouble)
    }

    /// Begins or prolongs the back-off.
    fn failed(&self, trouble: Trouble) -> (Class, Shared) {
        let class = trouble.class();
        let LinkOptions { reopen_after, reopen_after_most, .. } = self.0.options;
        match &trouble {
            Trouble::Misconfigured(wrong) => self.say_misconfigured(wrong),
            Trouble::Unavailable(error) => match self.0.warned.again() {
                Some(times) => {
                    let error = sendoff_core::report(&**error);
                    warn!(sink = self.0.sink, error, times, "sink cannot reach its target");
                }
                None => debug!(sink = self.0.sink, "sink cannot reach its target"),
            },
        }
        let error = Shared::new(trouble);
        let mut state = self.state();
        if !matches!(state.now, Now::Closed) {
            state.failures = state.failures.saturating_add(1);
            let policy = Exponential { base: reopen_after, max: reopen_after_most };
            let delay = match class {
                Class::Misconfigured => MISCONFIGURED_FOR.min(reopen_after_most),
                _ => policy.delay(state.failures, Jitter::new(fastrand::f64())),
            };
            let until = Instant::now() + delay;
            state.now = Now::Down { until, class, error: error.clone() };
        }
        (class, error)
    }

    fn say_misconfigured(&self, wrong: &(dyn std::error::Error + 'static)) {
        if let Some(times) = self.0.complained.again() {
            let error = sendoff_core::report(wrong);
            error!(sink = self.0.sink, error, times, "sink is misconfigured; its events wait");
        }
    }
}

#[derive(Debug, thiserror::Error)]
#[error("the target did not answer within {0:?}; whether it took the event is not known")]
struct Silent(Duration);

#[derive(Debug, thiserror::Error)]
#[error("no connection within {0:?}")]
struct Unopened(Duration);

#[derive(Debug, thiserror::Error)]
#[error(
    "too many batches are under way: none of {most} (link.batches_in_flight) ended within {within:?}"
)]
struct TooMany {
    within: Duration,
    most: usize,
}

#[derive(Debug, thiserror::Error)]
#[error("the target said nothing of this event")]
struct Unanswered;

#[derive(Debug, thiserror::Error)]
#[error("the sink is closed")]
struct Closed;

#[cfg(test)]
mod tests;
